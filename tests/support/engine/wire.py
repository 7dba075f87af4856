"""Several networks in one process, and hostile ends of connections that speak byte by byte."""

import contextlib
import secrets
import socket
import time
from dataclasses import replace

from ridgeline import SystemClock
from ridgeline.engine.exchange.address import TcpWay, ways_of
from ridgeline.engine.exchange.connection import Handshake
from ridgeline.engine.exchange.frames import encode
from ridgeline.engine.exchange.limits import Limits
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import STRAM, Lost, Opened, Peer, Received
from ridgeline.engine.exchange.sockets import Sockets
from support.waiting import PATIENCE_SECONDS

MASTER = Peer(STRAM, 1)
UNIX = Listen()
TCP = Listen(unix=False, host="127.0.0.1")


class Wire:
    """Networks of one application; `events` has what each was given by `poll`."""

    def __init__(self):
        self.secret = secrets.token_bytes(32)
        self.events = {}
        self._frames = {}
        self._stack = contextlib.ExitStack()

    def make(self, me=MASTER, listen=UNIX, secret=None, clock=None, **limits):
        network = Sockets(
            me, secret or self.secret, listen, clock or SystemClock(), replace(Limits(), **limits)
        )
        self.events[network], self._frames[network] = [], []
        self._stack.callback(network.close, 0.0)
        return network

    def pair(self, listen=UNIX):
        """STRAM and a slot, connected."""
        master, slot = self.make(listen=listen), self.make(Peer(0))
        slot.connect(master.me, master.address)
        self.until(lambda: self.opened(master) and self.opened(slot), "the connection")
        return master, slot

    def until(self, condition, what, *networks, seconds=PATIENCE_SECONDS):
        """Poll these networks (default: all) in turn until the condition is true; its value."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            for network in networks or list(self.events):
                self.poll(network)
            time.sleep(0.0002)
        return value

    def poll(self, network, seconds=0.0):
        found = list(network.poll(seconds))
        self.events[network] += found
        self._frames[network] += [
            (event.kind, bytes(event.head), [bytes(buffer) for buffer in event.buffers])
            for event in found
            if isinstance(event, Received)
        ]
        return found

    def opened(self, network):
        return [event.peer for event in self.events[network] if isinstance(event, Opened)]

    def lost(self, network):
        return [(event.peer, event.reason) for event in self.events[network] if isinstance(event, Lost)]

    def received(self, network):
        return self._frames[network]

    def dial(self, network):
        """A plain socket that is connected to a network, nothing said yet."""
        (way,) = ways_of(network.address)
        is_tcp = isinstance(way, TcpWay)
        line = self._stack.enter_context(socket.socket(socket.AF_INET if is_tcp else socket.AF_UNIX))
        line.settimeout(PATIENCE_SECONDS)
        line.connect((way.host, way.port) if is_tcp else way.path)
        return line

    def close(self):
        self._stack.close()


class Hostile:
    """One that knows the secret, then does as it likes with its socket; the network is polled meanwhile."""

    def __init__(self, wire, network, me, secret=None):
        self._wire = wire
        self._network = network
        self.line = wire.dial(network)
        self.said = b""
        self.heard = b""
        self.handshake = Handshake(me, secret or wire.secret, secrets.token_bytes(32), network.me)

    def open(self):
        """Go through the handshake."""
        self.say(self.handshake.begin())
        while self.handshake.missing:
            self.say(self.handshake.feed(self.hear(self.handshake.missing)))
        self._wire.until(
            lambda: self.handshake.peer and self._wire.opened(self._network), "the handshake", self._network
        )
        return self

    def say(self, data):
        self.said += data
        self.line.setblocking(False)
        while data:
            with contextlib.suppress(BlockingIOError):
                data = data[self.line.send(data) :]
            self._wire.poll(self._network)
        self.line.settimeout(PATIENCE_SECONDS)

    def hear(self, count):
        """So many bytes; fewer at the end."""
        found = b""
        while len(found) < count:
            if data := self._some(count - len(found)):
                found += data
            else:
                break
        self.heard += found
        return found

    def _some(self, count):
        self.line.setblocking(False)
        try:
            return self._wire.until(self._reader(count), "bytes", self._network)[0]
        finally:
            self.line.settimeout(PATIENCE_SECONDS)

    def _reader(self, count):
        def read():
            try:
                return (self.line.recv(count),)
            except BlockingIOError:
                return None
            except ConnectionError:
                return (b"",)

        return read


def frame(kind, head=b"", *buffers):
    """The bytes of a frame."""
    return b"".join(bytes(piece) for piece in encode(kind, head, buffers))

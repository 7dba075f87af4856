"""Several networks in one process, and hostile ends of connections that speak byte by byte."""

import contextlib
import socket
import time
from dataclasses import replace

from ridgeline import SystemClock
from ridgeline.engine.exchange.address import TlsWay, ways_of
from ridgeline.engine.exchange.connection import hello
from ridgeline.engine.exchange.frames import encode
from ridgeline.engine.exchange.limits import Limits
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import STRAM, Lost, Opened, Peer, Received
from ridgeline.engine.exchange.sockets import Sockets
from ridgeline.engine.exchange.tls import Certificate
from support.engine.certificates import certificate_and_key
from support.waiting import PATIENCE_SECONDS

MASTER = Peer(STRAM, 1)
CERTIFICATE = Certificate(*certificate_and_key())
UNIX = Listen(certificate=CERTIFICATE)
TLS = Listen(unix=False, host="127.0.0.1", certificate=CERTIFICATE)


class Wire:
    """Networks of one application; `events` has what each was given by `poll`."""

    def __init__(self):
        self.events = {}
        self._frames = {}
        self._stack = contextlib.ExitStack()

    def make(self, me=MASTER, listen=UNIX, clock=None, **limits):
        network = Sockets(me, listen, clock or SystemClock(), replace(Limits(), **limits))
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
        is_tcp = isinstance(way, TlsWay)
        line = self._stack.enter_context(socket.socket(socket.AF_INET if is_tcp else socket.AF_UNIX))
        line.settimeout(PATIENCE_SECONDS)
        line.connect((way.host, way.port) if is_tcp else way.path)
        return line

    def close(self):
        self._stack.close()


class Hostile:
    """One at a Unix socket, which does as it likes after its hello; the network is polled meanwhile."""

    def __init__(self, wire, network, me):
        self._wire = wire
        self._network = network
        self.line = wire.dial(network)
        self.hello = hello(me, network.me)

    def open(self):
        """Say hello, and hear it."""
        self.say(self.hello)
        self.hear(len(self.hello))
        self._wire.until(lambda: self._wire.opened(self._network), "the hello", self._network)
        return self

    def say(self, data):
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

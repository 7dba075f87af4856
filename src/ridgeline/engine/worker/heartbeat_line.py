"""Heartbeats where each window is a Spark job: a worker connects to STRAM's network, for nothing else."""

from __future__ import annotations

import math
import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from ridgeline.api.clock import Clock
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import STRAM, Lost, Opened, Peer
from ridgeline.engine.exchange.sockets import Sockets
from ridgeline.engine.process.heartbeat import HeartbeatSender
from ridgeline.engine.slot.messages import Heartbeat, encode

_TIMEOUT_SECONDS = 2.0
_GREATEST_PAUSE_SECONDS = 60.0
_MOST_QUEUED_BYTES = 1 << 20
_CLOSING_SECONDS = 0.1
_FORK_WAITS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class HeartbeatAddress:
    """Where the workers of jobs send heartbeats, and how often (seconds).

    `address`: of STRAM's network. `epoch`: the attempt of its `Peer`. `secret`: of this network.
    """

    address: str
    epoch: int
    secret: bytes = field(repr=False)
    interval_seconds: float


class HeartbeatLine:
    """The connection of a worker to STRAM; of one thread.

    Connecting ends in time; after a failure it is left alone for a while, each time longer. The worker is a
    peer of its process id and a random number.
    """

    def __init__(self, address: HeartbeatAddress, clock: Clock) -> None:
        self._address = address
        self._clock = clock
        self._stram = Peer(STRAM, address.epoch)
        self._network: Sockets | None = None
        self._open = False
        self._pause = 0.0
        self._not_before = -math.inf

    def send(self, message: Callable[[], bytes]) -> bool:
        """As `Send`. A fork waits for it."""
        with _talking:
            return self._send(message)

    def _send(self, message: Callable[[], bytes]) -> bool:
        """Connect where need be and send; note when to try again. For `send`."""
        now = self._clock.monotonic()
        if now < self._not_before:
            return False
        try:
            network = self._connected()
        except Exception:
            self._pause = min(max(1.0, 2 * self._pause), _GREATEST_PAUSE_SECONDS)
            self._not_before = now + self._pause
            raise
        self._pause = 0.0
        if network.queued_bytes(self._stram) > _MOST_QUEUED_BYTES:
            return False
        return network.send(self._stram, *encode(Heartbeat(message())))

    def close(self) -> None:
        """Hang up. A fork waits for it."""
        with _talking:
            if self._network is not None:
                self._network.close(_CLOSING_SECONDS)

    def _connected(self) -> Sockets:
        """The network once STRAM is connected. Raises ConnectionError or RidgelineError."""
        if self._network is None:
            me = Peer(os.getpid(), secrets.randbits(32))
            self._network = Sockets(me, self._address.secret, Listen(unix=False), self._clock)
        for event in self._network.poll(0.0):
            if isinstance(event, Lost):
                self._open = False
        if not self._open:
            self._open = self._connect(self._network)
        return self._network

    def _connect(self, network: Sockets) -> bool:
        """Connect to STRAM and wait for it. Raises ConnectionError."""
        network.connect(self._stram, self._address.address)
        deadline = self._clock.monotonic() + _TIMEOUT_SECONDS
        while (left := deadline - self._clock.monotonic()) > 0:
            for event in network.poll(left):
                if isinstance(event, Opened):
                    return True
                if isinstance(event, Lost):
                    raise ConnectionError(f"{event.reason}: {event.detail}" if event.detail else event.reason)
        network.hang_up(self._stram)
        msg = "it does not answer"
        raise ConnectionError(msg)


_sender: tuple[HeartbeatAddress, HeartbeatSender] | None = None


def sender_of(address: HeartbeatAddress | None, clock: Clock) -> HeartbeatSender | None:
    """What sends the heartbeats of this process to an address, None for none; the first call starts it."""
    global _sender  # noqa: PLW0603  one thread a process
    if address is None:
        return None
    if _sender is None or _sender[0] != address:
        if _sender is not None:
            _sender[1].stop()
        line = HeartbeatLine(address, clock)
        _sender = address, HeartbeatSender(line.send, address.interval_seconds, clock, line.close)
        _sender[1].start()
    return _sender[1]


_talking = threading.Lock()
_forking = threading.local()


def _before_fork() -> None:
    """Let the thread come out of OpenSSL, DNS and imports: a child would find their locks taken for ever."""
    _forking.waited = _talking.acquire(timeout=_FORK_WAITS_SECONDS)


def _after_fork() -> None:
    if _forking.waited:
        _talking.release()


def _forget() -> None:
    """A forked process has no thread of its parent."""
    global _sender, _talking  # noqa: PLW0603  one of each a process
    _sender = None
    _talking = threading.Lock()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_forget)

"""What a simulation leaves out: the driver's end of real sockets, by TCP on this host, in the clear."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping, Sequence

from ridgeline.api.clock import SystemClock
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import STRAM, Opened, Peer, Received
from ridgeline.engine.exchange.sockets import Sockets

ROUNDS = 5
REPORT_BYTES, REQUEST_BYTES = 1_000, 200
_KIND = 1
_PATIENCE_SECONDS = 30.0


def microseconds(peers: int) -> Mapping[str, float]:
    """Microseconds of the driver's thread for a frame that it sends, one that it takes, and a look at a peer.

    Raises RuntimeError if the other process does not answer.
    """
    stram = Sockets(Peer(STRAM, 1), Listen(), SystemClock())
    others = multiprocessing.get_context("spawn").Process(
        target=_answer, args=(stram.address, peers), daemon=True
    )
    others.start()
    try:
        _wait(stram, Opened, peers)
        spent = dict.fromkeys(("sent", "taken", "looked at"), 0.0)
        for _ in range(ROUNDS):
            began = time.thread_time()
            for number in range(peers):
                stram.send(Peer(number, 0), _KIND, bytes(REQUEST_BYTES))
            sent = time.thread_time()
            _wait(stram, Received, peers)
            taken = time.thread_time()
            for number in range(peers):
                stram.silent_seconds(Peer(number, 0))
            for name, seconds in zip(
                spent, (sent - began, taken - sent, time.thread_time() - taken), strict=True
            ):
                spent[name] += seconds
        return {name: 1e6 * seconds / (ROUNDS * peers) for name, seconds in spent.items()}
    finally:
        stram.close()
        others.kill()
        others.join()


def _wait(network: Sockets, kind: type, count: int) -> None:
    """Poll until so many events of a kind have come."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while count > 0:
        count -= sum(isinstance(event, kind) for event in network.poll(1.0))
        if time.monotonic() > deadline:
            raise RuntimeError(f"{count} of the other ends have not answered in {_PATIENCE_SECONDS:.0f} s")


def _answer(address: str, count: int) -> None:
    """The other ends: each answers a frame by one as large as a report. Runs in a process of its own."""
    listen = Listen(unix=False)
    networks = [Sockets(Peer(number, 0), listen, SystemClock()) for number in range(count)]
    for network in networks:
        network.connect(Peer(STRAM, 1), address)
    while True:
        for network in networks:
            _answer_one(network, [event for event in network.poll(0.0) if isinstance(event, Received)])


def _answer_one(network: Sockets, frames: Sequence[Received]) -> None:
    for frame in frames:
        network.send(frame.peer, _KIND, bytes(REPORT_BYTES))

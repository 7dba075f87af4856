"""Where the workers of jobs send their heartbeats: a network of STRAM's, read by a thread of its own.

Slots need none of it: their heartbeats come on the connections that they have.
"""

from __future__ import annotations

import threading

from ridgeline.engine.driver.heartbeats import Heartbeats
from ridgeline.engine.driver.watchdog import Worker
from ridgeline.engine.exchange.network import MALFORMED, Lost, Network, Received
from ridgeline.engine.slot.messages import Heartbeat, MalformedError, decode_heartbeat
from ridgeline.engine.worker.heartbeat_line import HeartbeatAddress

_SECONDS = 0.5
_CLOSING_SECONDS = 5.0


class HeartbeatPort:
    """Reads heartbeats from its making until `close`.

    Nothing that comes in ends it, and none of it is read as code. `address` is for the workers.
    """

    def __init__(
        self, network: Network, secret: bytes, heartbeats: Heartbeats, interval_seconds: float
    ) -> None:
        epoch = network.me.attempt
        self.address = HeartbeatAddress(network.address, epoch, secret, interval_seconds)
        self._network = network
        heartbeats.expect(interval_seconds)
        self._heartbeats = heartbeats
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="ridgeline-heartbeats", daemon=True)
        self._thread.start()

    def workers(self) -> list[Worker]:
        """As `Heartbeats.workers`."""
        return self._heartbeats.workers()

    def close(self) -> None:
        """Listen no more. May be called again."""
        self._closing = True
        self._network.wake()
        self._thread.join(_CLOSING_SECONDS)

    def _run(self) -> None:
        while not self._closing:
            for event in self._network.poll(_SECONDS):
                if isinstance(event, Received):
                    self._take(event)
                elif isinstance(event, Lost):
                    self._heartbeats.lost(event.peer)
            self._heartbeats.all_read(self._network.refused)
        self._network.close(0.0)
        self._heartbeats.close()

    def _take(self, frame: Received) -> None:
        try:
            message: Heartbeat = decode_heartbeat(frame)
        except MalformedError:
            self._heartbeats.refuse(MALFORMED, frame.peer)
            self._network.hang_up(frame.peer)
            self._heartbeats.lost(frame.peer)
        else:
            self._heartbeats.take(frame.peer, message.data)

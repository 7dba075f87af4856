"""Which operators do not move in a window, by heartbeats: mostly a connection hangs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ridgeline.measure.events import ContainerHeartbeat

LEAST_SECONDS = 5.0
_WINDOWS = 2.0


class Standstill(NamedTuple):
    """An operator is in turn and has moved nothing for so long, or moves `again`."""

    operator: int
    seconds: float
    again: bool


class Standstills:
    """Each standstill is reported once when it is long, and once when it is over."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, object, float, bool]] = {}
        """By container: the operator in turn, what it had moved, since when, whether it was reported."""

    def check(self, beat: ContainerHeartbeat, window_seconds: float) -> Iterator[Standstill]:
        """The standstill that a heartbeat shows. Long is: 5 s, and twice the width of a window."""
        if beat.container < 0:
            return
        running = next((one for one in beat.operators if one.state == "running"), None)
        before = self._seen.pop(beat.container, None)
        moved = (
            None
            if running is None
            else (beat.window_id, beat.attempt, running.consumed, running.produced, running.work)
        )
        if before is not None and (running is None or before[:2] != (running.id, moved)):
            if before[3]:
                yield Standstill(before[0], beat.at - before[2], again=True)
            before = None
        if running is None:
            return
        _, _, since, reported = before or (0, None, beat.at, False)
        if not reported and beat.at - since >= max(LEAST_SECONDS, _WINDOWS * window_seconds):
            reported = True
            yield Standstill(running.id, beat.at - since, again=False)
        self._seen[beat.container] = running.id, moved, since, reported

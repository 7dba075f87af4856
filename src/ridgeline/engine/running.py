"""What one operator is doing right now: kept by the thread that runs it, read by the one that sends heartbeats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import length_hint
from typing import Any

from ridgeline.api.clock import Clock
from ridgeline.api.operator import InputOperator, Operator
from ridgeline.api.ports import OutputPoint
from ridgeline.measure.events import RunningOperator


class Running:
    """The running figures of one operator's window. Keeping them costs two clock readings a callback or batch and nothing a tuple.

    All methods but `figures` belong to the operator's thread; `figures` may be called from any thread at any moment: what it reads is
    replaced, never changed in place.
    """

    def __init__(self, operator_id: int, operator: Operator, outputs: Mapping[str, OutputPoint], clock: Clock) -> None:
        self.compute_seconds = 0.0
        self._id = operator_id
        self._operator = operator
        self._outputs = outputs
        self._clock = clock
        self._state = "waiting"
        self._queued: dict[str, int] = {}
        self._consumed: dict[str, int] = {}
        self._since: float | None = None
        self._part: tuple[str, int, Iterator[Any] | None] | None = None
        self._before: dict[str, int] = {}

    def wait(self) -> None:
        """A window has begun in the container; the operator's turn has not come."""
        self._state, self.compute_seconds, self._since, self._part = "waiting", 0.0, None, None
        self._queued, self._consumed, self._before = {}, {}, {}

    def begin(self, queued: Mapping[str, int]) -> None:
        """Its turn has come; so many tuples wait per port."""
        self.wait()
        self._queued, self._consumed = dict(queued), dict.fromkeys(queued, 0)
        self._state = "running"

    def end(self) -> None:
        """It has done its window, or failed in it."""
        self._before = self._pending()
        self._state = "done"

    @contextmanager
    def callback(self) -> Iterator[None]:
        """A callback runs."""
        self._since = start = self._clock.monotonic()
        try:
            yield
        finally:
            self._since = None
            self.compute_seconds += self._clock.monotonic() - start

    @contextmanager
    def part(self, port: str, size: int, rows: Iterator[Any] | None) -> Iterator[None]:
        """A run of tuples is delivered: one by one by an iterator, or all at once."""
        self._before = self._pending()
        self._part = (port, size, rows)
        with self.callback():
            yield
        self._part = None
        self._consumed = {**self._consumed, port: self._consumed[port] + size}

    def figures(self) -> RunningOperator:
        """What it is doing now, as a heartbeat tells it."""
        state, since, part, before = self._state, self._since, self._part, self._before
        consumed, queued = dict(self._consumed), dict(self._queued)
        produced, active = self._pending() if state == "running" else before, 0
        active_produced: dict[str, int] = {}
        work = None
        if isinstance(self._operator, InputOperator) and state == "running":
            active, active_produced, produced = 1, produced, {}
            work = self._work()
        elif part is not None:
            port, size, rows = part
            done = size - length_hint(rows) - 1 if rows is not None else 0
            active = 1 if rows is not None else size
            consumed[port] += max(0, done)
            if rows is None:
                active_produced = {name: count - before.get(name, 0) for name, count in produced.items()}
                produced = before
        waiting = {port: count - consumed.get(port, 0) for port, count in queued.items()}
        if part is not None:
            waiting[part[0]] = max(0, waiting[part[0]] - active)
        return RunningOperator(
            self._id,
            state,
            self.compute_seconds + (self._clock.monotonic() - since if since is not None else 0.0),
            consumed,
            waiting,
            active,
            produced,
            active_produced,
            work=work,
        )

    def _pending(self) -> dict[str, int]:
        return {name: point.pending for name, point in self._outputs.items()}

    def _work(self) -> tuple[float, float | None] | None:
        """What an input operator says of itself; it may say nothing, and must not fail here for being asked in the middle."""
        try:
            return self._operator.progress() if isinstance(self._operator, InputOperator) else None
        except Exception:  # noqa: BLE001  asked again at the end of the window, where it counts
            return None

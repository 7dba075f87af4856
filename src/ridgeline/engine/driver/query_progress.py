"""Spark's own account of the query's micro-batches, as events."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from ridgeline.api.clock import Clock
from ridgeline.engine.driver.offsets import SourceReading
from ridgeline.measure.events import RunEvent, SourceProgress, SparkTrigger

_PATIENCE_SECONDS = 2.0
_RETRY_SECONDS = 0.02


class QueryProgress:
    """Tells `observe`, window by window, how long Spark's phases took and how far each source is.

    Spark gives its account when a micro-batch is over, which is after `foreachBatch`; the thread that waits
    for the query asks for it, so that no window waits. `sources` are the physical operators of the query's
    sources, in its order. Whatever goes wrong in here costs figures, never the run.
    """

    def __init__(self, observe: Callable[[RunEvent], None], clock: Clock, sources: Sequence[int]) -> None:
        self._observe = observe
        self._clock = clock
        self._sources = sources
        self._readings = [SourceReading() for _ in sources]
        self._untold: dict[int, int] = {}

    def committed(self, window_id: int, jobs: int) -> None:
        """A window of this query is committed; so many jobs have read its micro-batch (none: it was committed before). From any thread."""
        if jobs:
            self._untold[window_id] = jobs

    def read(self, query: Any) -> bool:
        """Tell of the windows that Spark has accounted for by now; True if no committed one is left."""
        try:
            if self._untold:
                accounts = self._recent(query)
                for progress in reversed(accounts):
                    self._tell(progress)
                self._forget(accounts)
        except Exception:  # noqa: BLE001  a query that ends meanwhile, a form that a new Spark gives: the run goes on
            return False
        return not self._untold

    def finish(self, query: Any) -> None:
        """Tell of the last window too; waits for Spark's account of it, but not for long."""
        end = self._clock.monotonic() + _PATIENCE_SECONDS
        while not self.read(query) and query.isActive and self._clock.monotonic() < end:
            self._clock.wait(_RETRY_SECONDS)

    def _recent(self, query: Any) -> list[dict[str, Any]]:
        """Spark's accounts from the newest back to the oldest that is wanted."""
        accounts = query._jsq.recentProgress()  # noqa: SLF001  the public one reads and converts all hundred that Spark keeps
        oldest = min(self._untold)
        found: list[dict[str, Any]] = []
        for number in range(len(accounts) - 1, -1, -1):
            found.append(json.loads(accounts[number].json()))
            if found[-1]["batchId"] <= oldest:
                break
        return found

    def _forget(self, accounts: list[dict[str, Any]]) -> None:
        """Spark keeps a hundred accounts: those of windows before the oldest of them will not come any more."""
        for window_id in sorted(self._untold):
            if len(accounts) > 1 and window_id < accounts[-1]["batchId"]:
                del self._untold[window_id]

    def _tell(self, progress: dict[str, Any]) -> None:
        window_id, milliseconds = progress["batchId"], progress["durationMs"]
        if (
            window_id not in self._untold or "addBatch" not in milliseconds
        ):  # triggers without a batch are accounted for, too
            return
        jobs = self._untold.pop(window_id)
        at = self._clock.wall()
        triggered = datetime.fromisoformat(progress["timestamp"]).timestamp()
        self._observe(
            SparkTrigger(
                at, window_id, triggered, {phase: value / 1000 for phase, value in milliseconds.items()}
            )
        )
        if len(progress["sources"]) != len(self._sources):  # a transformation has brought in more
            return
        for operator, reading, source in zip(self._sources, self._readings, progress["sources"], strict=True):
            reading.read(source, jobs)
            self._observe(
                SourceProgress(
                    at,
                    window_id,
                    operator,
                    reading.consumed,
                    reading.remaining,
                    remaining_bytes=reading.remaining_bytes,
                    whole=True,
                )
            )

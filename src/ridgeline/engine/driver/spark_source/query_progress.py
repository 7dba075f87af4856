"""Spark's own account of the query's micro-batches, as events."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ridgeline.api.clock import Clock
from ridgeline.engine.driver.spark_source.offsets import SourceReading
from ridgeline.measure.events import RunEvent, SourceProgress, SparkTrigger

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_PATIENCE_SECONDS = 2.0
_RETRY_SECONDS = 0.02


class QueryProgress:
    """Reports for each window how long Spark's phases took and how far each source is.

    Spark reports the progress of a micro-batch when the batch is over, so after `foreachBatch`. The thread
    that waits for the query reads it; no window waits. `sources`: the physical operators of the query's
    sources, in its order. A failure in here loses metrics and never fails the run.
    """

    def __init__(self, observe: Callable[[RunEvent], None], clock: Clock, sources: Sequence[int]) -> None:
        self._observe = observe
        self._clock = clock
        self._sources = sources
        self._readings = [SourceReading() for _ in sources]
        self._unreported: dict[int, int] = {}

    def committed(self, window_id: int, jobs: int) -> None:
        """A window is committed; `jobs` Spark jobs have read its micro-batch (0: it was committed before).

        Thread-safe.
        """
        if jobs:
            self._unreported[window_id] = jobs

    def read(self, query: StreamingQuery) -> bool:
        """Report the windows that Spark has accounts of by now; True if no committed one is left."""
        try:
            if self._unreported:
                accounts = self._recent(query)
                for progress in reversed(accounts):
                    self._report(progress)
                self._forget(accounts)
        except Exception:  # noqa: BLE001  the query has ended, or another Spark uses another form
            return False
        return not self._unreported

    def finish(self, query: StreamingQuery) -> None:
        """Report the last window too. Waits for Spark's account of it, at most two seconds."""
        end = self._clock.monotonic() + _PATIENCE_SECONDS
        while not self.read(query) and query.isActive and self._clock.monotonic() < end:
            self._clock.wait(_RETRY_SECONDS)

    def _recent(self, query: StreamingQuery) -> list[dict[str, Any]]:
        """Spark's accounts, from the newest back to the oldest that is not reported yet."""
        accounts = query._jsq.recentProgress()  # noqa: SLF001  the public one converts all
        oldest = min(self._unreported)
        found: list[dict[str, Any]] = []
        for number in range(len(accounts) - 1, -1, -1):
            found.append(json.loads(accounts[number].json()))
            if found[-1]["batchId"] <= oldest:
                break
        return found

    def _forget(self, accounts: list[dict[str, Any]]) -> None:
        """Drop the windows before Spark's oldest account: Spark keeps a hundred, theirs will not come."""
        for window_id in sorted(self._unreported):
            if len(accounts) > 1 and window_id < accounts[-1]["batchId"]:
                del self._unreported[window_id]

    def _report(self, progress: dict[str, Any]) -> None:
        """Report one of Spark's accounts, if it is of a committed window that is not reported yet."""
        window_id, milliseconds = progress["batchId"], progress["durationMs"]
        if (
            window_id not in self._unreported or "addBatch" not in milliseconds
        ):  # triggers without a batch are accounted for, too
            return
        jobs = self._unreported.pop(window_id)
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

"""How far a Spark source is, in records: arithmetic on the offsets that Structured Streaming reports."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ridgeline.api.clock import Clock
from ridgeline.measure.events import RunEvent, SourceProgress, SparkTrigger

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class SourceReading:
    """One source of a query, batch by batch: `read` its part of each progress, then look at the figures.

    `consumed`: records read since the run began. `remaining`: records that were available and not read when
    the batch was planned. None: Spark does not say, or not in a unit that can be converted to records.
    `remaining_bytes` likewise.

    The number of records per offset is estimated from the batches read so far. For Kafka it is one, or less
    where a topic is compacted or has transactions; until the first batch it is one. For `rate`, whose offsets
    are seconds, it is the records of a second.
    """

    def __init__(self) -> None:
        self.consumed = 0.0
        self.remaining: float | None = None
        self.remaining_bytes: float | None = None
        self._rows = 0.0
        self._moved = 0.0

    def read(self, source: Mapping[str, Any], jobs: int = 1) -> None:
        """Record the progress of a batch for the source.

        Spark counts the rows of each of the `jobs` that have read it.
        """
        rows = _number(source.get("numInputRows")) or 0.0
        moved = distance(source.get("startOffset"), source.get("endOffset"))
        if jobs > 1:
            unit = self._records_per_unit(source)
            rows = moved * unit if moved is not None and unit is not None else rows / jobs
        elif moved is not None:
            self._rows += rows
            self._moved += moved
        self.consumed += rows
        metrics = source.get("metrics") or {}
        self.remaining = self._remaining(source, metrics)
        self.remaining_bytes = _number(metrics.get("numBytesOutstanding"))

    def _remaining(self, source: Mapping[str, object], metrics: Mapping[str, object]) -> float | None:
        left = distance(source.get("endOffset"), source.get("latestOffset"))
        unit = self._records_per_unit(source)
        if left == 0 or _number(metrics.get("numFilesOutstanding")) == 0:
            return 0.0
        if left is not None and unit is not None:
            return left * unit
        return _kafka_lag(metrics, source.get("endOffset"))

    def _records_per_unit(self, source: Mapping[str, object]) -> float | None:
        if self._moved > 0 and self._rows > 0:
            return self._rows / self._moved
        return 1.0 if str(source.get("description")).startswith("Kafka") else None


def distance(start: object, end: object) -> float | None:
    """How far `end` is ahead of `start` (at least 0), in the offsets' own unit; None if they are no numbers.

    Numbers, `{"offset": n, ...}`, `{name: n}` and `{topic: {partition: n}}`, each also as text. Partitions
    that `start` does not have began at 0, as Kafka's new ones do; those that `end` does not have are gone.

    >>> distance({"clicks": {"0": 10, "1": 20}}, '{"clicks": {"0": 15, "1": 20, "2": 1}}')
    6.0
    >>> distance(3, {"offset": "5"})
    2.0
    """
    before, after = _by_partition(start), _by_partition(end)
    if before is not None and after is not None:
        return sum(
            (max(0.0, offset - before.get(partition, 0.0)) for partition, offset in after.items()), 0.0
        )
    first, last = _position(start), _position(end)
    return max(0.0, last - first) if first is not None and last is not None else None


def _by_partition(offset: object) -> dict[tuple[str, str], float] | None:
    """The numbers of `{topic: {partition: n}}`; None for any other form."""
    offset = _plain(offset)
    if not isinstance(offset, Mapping) or not offset:
        return None
    found = {}
    for topic, partitions in offset.items():
        if not isinstance(partitions := _plain(partitions), Mapping):
            return None
        for partition, value in partitions.items():
            if (number := _number(value)) is None:
                return None
            found[str(topic), str(partition)] = number
    return found


def _position(offset: object) -> float | None:
    """The number of an offset that is one."""
    offset = _plain(offset)
    if isinstance(offset, Mapping):
        only = next(iter(offset.values())) if len(offset) == 1 else None
        offset = offset.get("offset", only)
    return _number(offset)


def _plain(offset: object) -> object:
    """The value of an offset that is JSON in a text, perhaps in a text again."""
    for _ in range(2):
        if not isinstance(offset, str):
            break
        try:
            offset = json.loads(offset)
        except ValueError:
            return None
    return offset


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _kafka_lag(metrics: Mapping[str, object], end: object) -> float | None:
    """The records by which Kafka's source is behind, from its average over the partitions."""
    average, partitions = _number(metrics.get("avgOffsetsBehindLatest")), _by_partition(end)
    return average * len(partitions) if average is not None and partitions else None


# Spark's own account of the query's micro-batches, as events.

_PATIENCE_SECONDS = 2.0
_RETRY_SECONDS = 0.02
_LEFT_SECONDS = 0.5
"""How often is said how much is left of a micro-batch."""


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
        self._unreported: dict[int, tuple[int, int]] = {}
        self._left: dict[int, int] = {}
        self._left_at = -math.inf

    def left(self, window_id: int, rows: Sequence[int]) -> None:
        """So many rows of each source's micro-batch are in no window yet; windows up to this one have others.

        Spark's account comes later. It does not always say whether there was more than the micro-batch.
        """
        at = self._clock.wall()
        if at - self._left_at < _LEFT_SECONDS:
            return
        self._left_at = at
        for operator, reading, left in zip(self._sources, self._readings, rows, strict=True):
            first = self._left[operator] = max(left, self._left.get(operator, 0))
            whole = reading.remaining == 0 or not reading.consumed
            self._observe(
                SourceProgress(
                    at,
                    window_id,
                    operator,
                    reading.consumed + first - left,
                    float(left) if whole else None,
                    whole=True,
                )
            )

    def committed(self, batch: int, window_id: int, jobs: int) -> None:
        """All windows of a micro-batch are committed, from this one on. Thread-safe.

        `jobs`: how many Spark jobs have read it; 0: it was committed before.
        """
        self._left, self._left_at = {}, -math.inf
        if jobs:
            self._unreported[batch] = window_id, jobs

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
        for batch in sorted(self._unreported):
            if len(accounts) > 1 and batch < accounts[-1]["batchId"]:
                del self._unreported[batch]

    def _report(self, progress: dict[str, Any]) -> None:
        """Report one of Spark's accounts, if it is of a committed window that is not reported yet."""
        batch, milliseconds = progress["batchId"], progress["durationMs"]
        if batch not in self._unreported or "addBatch" not in milliseconds:
            return  # triggers without a batch are accounted for, too
        window_id, jobs = self._unreported.pop(batch)
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

"""Find patterns in the records of each key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, Schema, Timers, metric
from ridgeline.api.columns.struct_types import TIMESTAMP
from ridgeline.api.times import LATEST, NO_TIME, Microseconds
from ridgeline.operators._divided import Columns, DividedOperator, check_columns
from ridgeline.operators._vectors import as_column
from ridgeline.operators.patterns import Found, Pattern

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Detect(DividedOperator):
    """Find a pattern in the records of each key: a threshold, a streak, silence, a sequence, a rate.

    Input: any stream with columns. Output: the key's columns, `what` was found, and `since` when it holds.
    With `value="celsius"` also a column of this name: a float that says how much, or null. A finding has the
    time of the record that showed it; one of silence the moment at which it was long enough. With
    `at="found"` that time is a column, too.

    `pattern`: `hysteresis`, `streak`, `absence`, `sequence` or `rate`, see docs/patterns.md. `key`: a column,
    or several.

    Records of a key are taken in the order in which they come. Where that is not the order of their times,
    put `Sort` before it. A record without a time has that of the window's beginning.

    State: what the pattern has to know of each key. The metric `held_keys` says how many keys there are.

    Partitions: by key. Round robin is refused with RidgelineError: records of a key would not meet.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Detect, hysteresis
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Reading = NamedTuple("Reading", [("device", str), ("celsius", float), ("time", datetime)])
        >>> def at(second):
        ...     return datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC)
        >>> values = [79.0, 81.0, 79.0, 82.0, 69.0, 81.0]
        >>> readings = [("oven", value, at(second)) for second, value in enumerate(values)]
        >>> app = Application("sensors")
        >>> source = app.add_operator("source", ListInput(Reading, readings, "time", lateness="2s"))
        >>> hot = app.add_operator("hot", Detect(hysteresis("celsius", above=80, below=70), "device"))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("readings", source.output, hot.input)
        >>> app.add_stream("alerts", hot.output, sink.input)
        >>> for row in run_local(app).collected("sink"):
        ...     print(row["device"], row["what"], row["since"].second)
        oven above 1
        oven above 5
    """

    state_depends_on = ("input", "key", "pattern")

    input = InputPort(Any)
    output = OutputPort(Any)

    pattern: Pattern
    key: Columns
    value: str | None = Field(default=None, kw_only=True)
    at: str | None = Field(default=None, kw_only=True)

    memories = KeyedState(tuple)
    """By key, what the pattern remembers."""
    by_record = Timers(by="record")
    by_clock = Timers(by="clock")

    def needs_times(self) -> str:
        """For the deadlines of patterns."""
        return "looks for patterns in records"

    @metric(help="Keys that the pattern remembers something of.")
    def held_keys(self) -> int:
        """The number of keys that the pattern remembers something of."""
        return len(self.memories)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, and columns of one name."""
        faults = super().property_faults()
        more = {name: given for name in ("value", "at") if (given := getattr(self, name))}
        names = [*self.key_names, "what", "since", *more.values()]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            which = next((name for name, given in more.items() if given == double), "key")
            faults.append((which, double, "must not have the name of another column of the output"))
        return faults

    def derived(self, given: Schema) -> object:
        """The key's columns, what was found, and since when. Raises SchemaError for what does not fit."""
        check_columns(given, self.key_names, "`key`")
        if isinstance(self.pattern, Pattern):  # else it is a fault of its own
            self.pattern.check(given.arrow)
        fields = [given.arrow.field(name) for name in self.key_names]
        fields.append(pa.field("what", pa.string(), nullable=False))
        fields.append(pa.field("since", TIMESTAMP, nullable=False))
        if self.value is not None:
            fields.append(pa.field(self.value, pa.float64()))
        if self.at is not None:
            fields.append(pa.field(self.at, TIMESTAMP, nullable=False))
        return pa.schema(fields)

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Show the pattern the records of a batch."""
        codes, keys = self.own_keys(batch)
        times, pattern = self._times(len(batch)).tolist(), self.pattern
        before = [self.memories.get(key) for key in keys]
        memories = list(before)
        rows: list[int] = []
        findings: list[tuple[Any, Found]] = []
        found: list[Found] = []
        seen = set()
        for row, (code, item) in enumerate(zip(codes.tolist(), pattern.items(batch), strict=True)):
            if item is None:
                continue
            seen.add(code)
            memories[code] = pattern.step(memories[code], times[row], item, found)
            if found:
                rows += [row] * len(found)
                findings += [(keys[code], one) for one in found]
                found.clear()
        for code in sorted(seen):
            self._keep(keys[code], before[code], memories[code])
        if findings:
            self.output.emit_batch(self._batch(findings, [times[row] for row in rows]), rows=rows)

    def _times(self, count: int) -> Microseconds:
        """The records' times; that of the window's beginning for one without."""
        now = self.context.window_time_microseconds
        times = None if self.context.engine.record_times is None else self.context.batch_times()
        return np.full(count, now) if times is None else np.where(times == NO_TIME, now, times)

    def _keep(self, key: Any, before: Any, memory: Any) -> None:
        """Keep the memory of a key, and set its timers."""
        if memory is None:
            self.memories.pop(key, None)
        elif memory != before:
            self.memories[key] = memory
        record, clock = self.pattern.deadline(memory)
        clock = None if clock is None else self.context.window_time_microseconds + clock
        for timers, due in ((self.by_record, record), (self.by_clock, clock)):
            if due is not None:
                timers.set(key, moment(due))
            elif key in timers:
                timers.delete(key)

    @by_record.expired
    def expire_by_record(self, key: Any, when: datetime) -> None:
        """The watermark has reached the deadline of a key, or the input has ended before it."""
        ended = self.context.watermark_microseconds >= LATEST
        self._expire(key, self.pattern.ended if ended else self.pattern.expired, ended=ended)

    @by_clock.expired
    def expire_by_clock(self, key: Any, when: datetime) -> None:
        """The clock has reached the deadline of a key."""
        self._expire(key, self.pattern.expired_by_clock)

    def _expire(self, key: Any, expired: Callable[[Any, list[Found]], Any], *, ended: bool = False) -> None:
        """Let the pattern look at a key whose deadline is over; called by its timers.

        `ended`: no deadline by record is set after it, which would be over at once.
        """
        before = self.memories.get(key)
        if before is None:
            return
        found: list[Found] = []
        time = self.pattern.deadline(before).record
        memory = expired(before, found)
        if not ended:
            self._keep(key, before, memory)
        elif memory != before:
            self.memories[key] = memory
        if found:
            time = self.context.window_time_microseconds if time is None else time
            for row in self._batch([(key, one) for one in found], [time] * len(found)).to_pylist():
                self.output.emit(row, timestamp=moment(time))

    def _batch(self, findings: list[tuple[Any, Found]], times: list[int]) -> pa.RecordBatch:
        """Findings as a batch of the output, with the times at which they were made."""
        keys = [key if len(self.key_names) > 1 else (key,) for key, _ in findings]
        columns: list[Any] = list(zip(*keys, strict=True))
        columns += [[one.what for _, one in findings], [one.since for _, one in findings]]
        if self.value is not None:
            columns.append([one.value for _, one in findings])
        if self.at is not None:
            columns.append(times)
        schema = self.output.schema.arrow
        arrays = [as_column(values, field.type) for values, field in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def moment(microseconds: int) -> datetime:
    """Microseconds since 1970 as a time, the last that Python has for one beyond."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)

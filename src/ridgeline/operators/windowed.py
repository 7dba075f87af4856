"""Aggregates by key and window of record time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import (
    InputPort,
    KeyedState,
    Operator,
    OutputPort,
    RidgelineError,
    Schema,
    SchemaError,
    State,
)
from ridgeline.api.context import OperatorContext
from ridgeline.api.duration import duration_faults, parse_duration
from ridgeline.api.times import NO_TIME
from ridgeline.operators import _window_parts as vectors
from ridgeline.operators._windows import Session, Sliding
from ridgeline.operators.aggregate import Aggregate, merge, result

_NEVER = np.iinfo(np.int64).max
Span = tuple[int, int, tuple[Any, ...]]
"""An open session: the times of its oldest and its newest record, and the part of each aggregate."""


class Windowed(Operator):
    """Aggregate records by key and window of record time; emit each window once its time is over.

    Input: any stream with record times, of inputs that declare a `lateness`. Output, when the watermark has
    passed the end of a window: the key's columns, and those of `values`. A null is no value of a column.
    Windows come in the order of their ends. At the end of the input all are emitted.

    `windows`: `tumbling("1m")`, `sliding("1h", "15m")` or `session(gap="30s")`. `key`: a column, or several.
    `values`: the aggregates by the name of their column, see `ridgeline.operators.aggregate`. `lateness`: a
    window stays open for so much longer. `timestamp`: the column of the output that holds the results' times.

    A record whose windows are all closed is late. It goes to the error port `late`, and so does one without a
    time. Raises RidgelineError for a stream whose records have no times, or without a watermark.

    Partitions: by key. The order of records matters only to `first` and `last`, and there only of those of
    one time. Sums of floats may differ in rounding.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Windowed, aggregate, tumbling
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Click = NamedTuple("Click", [("user", str), ("time", datetime)])
        >>> def at(minute, second):
        ...     return datetime(2026, 1, 1, 12, minute, second, tzinfo=UTC)
        >>> clicks = [("ann", at(0, 5)), ("ann", at(1, 2)), ("bob", at(0, 59)), ("ann", at(0, 58))]
        >>> app = Application("clicks")
        >>> source = app.add_operator("source", ListInput(Click, clicks, "time", lateness="5s"))
        >>> values = {"minute": aggregate.window_start(), "clicks": aggregate.count()}
        >>> windowed = app.add_operator("windowed", Windowed(tumbling("1m"), key="user", values=values))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("clicks", source.output, windowed.input)
        >>> app.add_stream("counts", windowed.output, sink.input)
        >>> for row in run_local(app).collected("sink"):
        ...     print(row["user"], row["minute"].strftime("%H:%M"), row["clicks"])
        ann 12:00 2
        bob 12:00 1
        ann 12:01 1
    """

    input = InputPort(Any)
    output = OutputPort(Any)
    late = OutputPort(Any, error=True, optional=True)

    windows: Sliding | Session
    key: str | tuple[str, ...]
    values: dict[str, Aggregate] = Field(min_length=1)
    lateness: float | str = 0.0
    timestamp: str | None = None

    open = KeyedState(tuple)
    """By (start, *key) the parts of a window; of sessions, by key the open ones, the oldest first."""
    due = State(_NEVER)
    """When the first open window ends, in microseconds since 1970; it may be before that."""

    def __new__(cls, *values: Any, **properties: Any) -> Self:
        """An operator of a class with this key: who gets which tuples belongs to a class's port."""
        key = properties.get("key", values[1] if len(values) > 1 else None)
        own: Any = cls
        if cls is Windowed and key:
            own = _keyed(key if isinstance(key, str) else tuple(key))
        made: Self = super().__new__(own)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (vars(self).get("key"),), self.__getstate__()

    @property
    def _keys(self) -> tuple[str, ...]:
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that is given from outside, columns of one name, and durations that are none."""
        faults = duration_faults(self, "lateness")
        declared = type(self).input.key
        if declared != (self.key if isinstance(self.key, str) else tuple(self.key)):
            faults.append(("key", self.key, "cannot be changed from outside; give it in the application"))
        for name in self._keys:
            if name in self.values:
                faults.append(("values", name, "must not have the name of a key's column"))
        if self.timestamp is not None and self.timestamp not in self.values:
            faults.append(("timestamp", self.timestamp, "must be one of `values`"))
        return faults

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The key's columns, then the aggregates. Raises SchemaError for what the stream does not have."""
        if port != "output" or "input" not in inputs or inputs["input"].pickled:
            return None
        columns = inputs["input"].arrow
        fields = [columns.field(name) for name in self._keys if name in columns.names]
        for name, aggregate in self.values.items():
            try:
                fields.append(aggregate.type_of(columns).with_name(name))
            except ValueError as error:
                msg = f"`values` has `{name}`, but {error}"
                raise SchemaError(msg) from None
        return pa.schema(fields)

    def timestamp_of(self, port: str) -> str | None:
        """The column that `timestamp` names."""
        return self.timestamp if port == "output" else None

    def setup(self, context: OperatorContext) -> None:
        """Results are as old as `lateness` allows."""
        self.wait = context.watermark_delay = round(parse_duration(self.lateness) * 1_000_000)
        self.kinds = [aggregate.kind for aggregate in self.values.values()]

    @input.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        """Add the records of a batch to their windows; late ones go to `late`."""
        times = self.context.batch_times()
        if times is None:
            what = f"`{self.context.name}` puts records into windows by their times, but they have none"
            message = f"{what}; declare `timestamp` and `lateness` at the input operators"
            raise RidgelineError(message)
        reach = self.windows.gap if isinstance(self.windows, Session) else self.windows.slide
        ends = (
            times + reach
            if isinstance(self.windows, Session)
            else self._last_start(times) + self.windows.size
        )
        there = (ends > self.context.watermark_microseconds - self.wait) & (times != NO_TIME)
        if not there.all():
            self.late.emit_batch(vectors.filtered(batch, ~there), rows=~there)
            batch, times = vectors.filtered(batch, there), times[there]
        if len(times):
            codes, keys = vectors.key_codes([batch.column(name) for name in self._keys])
            if isinstance(self.windows, Session):
                self._add_sessions(self.windows.gap, batch, times, codes, keys)
            else:
                self._add_windows(self.windows, batch, times, codes, keys)

    def _last_start(self, times: vectors.Index) -> vectors.Index:
        """The start of the last window that each time is in."""
        assert isinstance(self.windows, Sliding)  # noqa: S101  the caller knows
        return times // self.windows.slide * self.windows.slide

    def _add_windows(
        self,
        windows: Sliding,
        batch: pa.RecordBatch,
        times: vectors.Index,
        codes: vectors.Index,
        keys: Sequence[tuple[Any, ...]],
    ) -> None:
        """Add records to windows of one size. `codes`: for each record the number of its key."""
        rows = np.argsort(times, kind="stable")
        starts = self._last_start(times[rows])
        copies = windows.size // windows.slide
        if copies > 1:
            starts = (starts[:, None] - np.arange(copies) * windows.slide).ravel()
            rows = np.repeat(rows, copies)
            held = starts + windows.size > self.context.watermark_microseconds - self.wait
            starts, rows = starts[held], rows[held]
        firsts, numbers = np.unique(starts, return_inverse=True)
        found, groups = np.unique(numbers * len(keys) + codes[rows], return_inverse=True)
        names = [
            (start, *keys[code])
            for start, code in zip(
                firsts[found // len(keys)].tolist(), (found % len(keys)).tolist(), strict=True
            )
        ]
        known, kinds = self.open, self.kinds
        for name, parts in zip(names, self._parts(batch, rows, times, groups, len(names)), strict=True):
            before = known.get(name)
            known[name] = parts if before is None else tuple(map(merge, kinds, before, parts))
        self.due = min(self.due, int(firsts[0]) + windows.size)

    def _add_sessions(
        self,
        gap: int,
        batch: pa.RecordBatch,
        times: vectors.Index,
        codes: vectors.Index,
        keys: Sequence[tuple[Any, ...]],
    ) -> None:
        """Join records with the open sessions. `codes`: for each record the number of its key."""
        rows, groups = vectors.runs(codes, times, gap)
        count = int(groups[-1]) + 1
        begins = np.searchsorted(groups, np.arange(count))
        ends = np.append(begins[1:], len(rows)) - 1
        oldest, newest = times[rows[begins]].tolist(), times[rows[ends]].tolist()
        owners = codes[rows[begins]].tolist()
        parts = self._parts(batch, rows, times, groups, count)
        for owner, start, end, own in zip(owners, oldest, newest, parts, strict=True):
            known: tuple[Span, ...] = self.open.get(keys[owner], ())
            self.open[keys[owner]] = self._joined(known, (start, end, own), gap)
        self.due = min(self.due, min(newest) + gap)

    def _joined(self, known: Sequence[Span], new: Span, gap: int) -> tuple[Span, ...]:
        """The sessions of a key with one more, joined with those that are less than `gap` away."""
        start, end, own = new
        apart = []
        for one in known:
            if one[0] - end >= gap or start - one[1] >= gap:
                apart.append(one)
            else:
                start, end = min(start, one[0]), max(end, one[1])
                own = tuple(map(merge, self.kinds, one[2], own))
        return tuple(sorted([*apart, (start, end, own)], key=lambda span: span[0]))

    def _parts(
        self,
        batch: pa.RecordBatch,
        rows: vectors.Index,
        times: vectors.Index,
        groups: vectors.Index,
        count: int,
    ) -> list[tuple[Any, ...]]:
        """The parts of each group, one for each aggregate."""
        columns = [
            vectors.parts(aggregate, batch, rows, times[rows], groups, count)
            for aggregate in self.values.values()
        ]
        return list(zip(*columns, strict=True))

    def end_window(self) -> None:
        """Emit the windows whose time is over."""
        now = self.context.watermark_microseconds - self.wait
        if now < self.due:
            return
        if isinstance(self.windows, Session):
            closed = self._close_sessions(self.windows.gap, now)
        else:
            closed = self._close_windows(self.windows.size, now)
        if closed:
            self._emit(sorted(closed, key=lambda one: one[1]))

    def _close_windows(self, size: int, now: int) -> list[tuple[int, int, tuple[Any, ...], tuple[Any, ...]]]:
        """Forget the windows that have ended; returns (start, end, key, parts) of each."""
        closed = [
            (name[0], name[0] + size, name[1:], parts)
            for name, parts in self.open.items()
            if name[0] + size <= now
        ]
        for start, _, key, _ in closed:
            del self.open[start, *key]
        self.due = min((name[0] + size for name in self.open), default=_NEVER)
        return closed

    def _close_sessions(self, gap: int, now: int) -> list[tuple[int, int, tuple[Any, ...], tuple[Any, ...]]]:
        """As `_close_windows`."""
        closed = []
        for key, spans in list(self.open.items()):
            over = [span for span in spans if span[1] + gap <= now]
            if over:
                closed += [(start, end + gap, key, parts) for start, end, parts in over]
                left = tuple(span for span in spans if span[1] + gap > now)
                if left:
                    self.open[key] = left
                else:
                    del self.open[key]
        ends = (span[1] + gap for spans in self.open.values() for span in spans)
        self.due = min(ends, default=_NEVER)
        return closed

    def _emit(self, closed: Sequence[tuple[int, int, tuple[Any, ...], tuple[Any, ...]]]) -> None:
        """Emit windows that have ended: (start, end, key, parts) each."""
        schema = self.output.schema.arrow
        columns: list[Sequence[Any]] = [
            list(values) for values in zip(*(one[2] for one in closed), strict=True)
        ]
        for number, kind in enumerate(self.kinds):
            if kind in ("window_start", "window_end"):
                columns.append([one[kind == "window_end"] for one in closed])
            else:
                columns.append([result(kind, one[3][number]) for one in closed])
        arrays = [
            vectors.as_column(values, field.type) for values, field in zip(columns, schema, strict=True)
        ]
        self.output.emit_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


@cache
def _keyed(key: str | tuple[str, ...]) -> type[Windowed]:
    """The class of operators with this key."""
    port = InputPort[Any](Any, key=key)
    port.process_batch(Windowed.add)
    body = {
        "__module__": Windowed.__module__,
        "__qualname__": Windowed.__qualname__,
        "__doc__": Windowed.__doc__,
        "input": port,
    }
    return type("Windowed", (Windowed,), body)


def _made(key: str | tuple[str, ...] | None) -> Windowed:
    """An operator without properties, to be filled."""
    cls = Windowed if not key else _keyed(key if isinstance(key, str) else tuple(key))
    return object.__new__(cls)

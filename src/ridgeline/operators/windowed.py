"""Aggregates by key and window of record time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, NamedTuple, Self

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
from ridgeline.api.codec import hash_columns
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import shorten
from ridgeline.api.support.duration import duration_faults, parse_duration
from ridgeline.api.times import EARLIEST, LATEST, NO_TIME
from ridgeline.operators import _window_parts as vectors
from ridgeline.operators import aggregate as aggregates
from ridgeline.operators._exact import rounded
from ridgeline.operators._sessions import Parts, joined
from ridgeline.operators._windows import Session, Sliding
from ridgeline.operators.aggregate import Aggregate, merge, result
from ridgeline.operators.key_value import refuse_strays

_NEVER = np.iinfo(np.int64).max
_LEAST_SUM = -(2**63)
_LAST = LATEST - 366 * 86_400_000_000


class Result(NamedTuple):
    """A window of a key whose result is due: when it begins and ends, and the part of each aggregate."""

    start: int
    end: int
    key: tuple[Any, ...]
    parts: Parts


class Windowed(Operator):
    """Aggregate records by key and window of record time; emit each window once its time is over.

    Input: any stream with record times, of inputs that declare a `lateness`. Output, when the watermark has
    passed the end of a window: the key's columns, and those of `values`. A null is no value of a column.
    Windows come in the order of their ends. At the end of the input all are emitted.

    `windows`: `tumbling("1d", zone="Europe/Berlin")`, `sliding("1h", "15m")` or `session(gap="30s")`. `key`:
    a column, or several. `values`: the aggregates by the name of their column, see
    `ridgeline.operators.aggregate`. `lateness`: a window stays open for so much longer. `timestamp`: the
    column of the output that holds the results' times.

    Open windows may have early results, at the end of a streaming window. `early="5s"` emits those with new
    records every 5 s of the clock, `early_count=100` those with so many new ones. With `accumulation` as
    `"accumulating"` a result has all records so far, with `"discarding"` those since the result before. The
    last result comes when the window ends; if discarding, only for new records. `aggregate.is_final()` marks
    the last. An early session may join another one later: then its results begin at another time.

    A record is late if all its windows had ended, by the watermark less `lateness`, when its streaming window
    began. A session of it alone ends `gap` after it. Late records are counted, and go to the error port
    `late`. So do those without a time, or with one before the year 1000 or after the year 8998. Raises
    RidgelineError for a stream whose records have no times, or without a watermark.

    Partitions: by key. Round robin and `partition_parallel` are refused with RidgelineError when a key comes
    to another partition than by key. The order of records matters only to `first` and `last`, and there only
    of those of one time. Sums are exact, and rounded once.

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
    late = OutputPort(Any, late=True, optional=True)

    windows: Sliding | Session
    key: str | tuple[str, ...]
    values: dict[str, Aggregate] = Field(min_length=1)
    lateness: float | str = 0.0
    timestamp: str | None = None
    early: float | str | None = None
    early_count: int | None = Field(default=None, ge=1)
    accumulation: Literal["accumulating", "discarding"] = "accumulating"

    open = KeyedState(tuple)
    """By (start, *key) the parts of a window; of sessions, by key the open ones, the oldest first."""
    due = State(_NEVER, moves="least")
    """When the first open window ends, in microseconds since 1970; it may be before that."""
    fired = State(0.0, moves="least")
    """When early results were emitted, seconds since 1970; 0: not since the first record."""

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

    @property
    def _state_layout(self) -> str:
        """The layout of the parts in `open`: with other properties they mean something else."""
        values = ", ".join(f"{name}={one.kind}({one.column or ''})" for name, one in self.values.items())
        return f"`key` {', '.join(self._keys)}, `windows` {self.windows}, `values` {values}"

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that is given from outside, columns of one name, and durations that are none."""
        faults = duration_faults(self, "lateness", "early")
        if not faults and self.early is not None and not parse_duration(self.early):
            faults.append(("early", self.early, "must be more than 0"))
        if self.accumulation == "discarding" and self.early is None and self.early_count is None:
            faults.append(("accumulation", self.accumulation, "needs `early` or `early_count`"))
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
        self.parts = list(self.values.values())
        if self.early is not None or self.early_count is not None:
            # always the last part: `_early` and `discarding` read it by `[-1]`
            self.parts.append(aggregates.count())  # records since the last result
        self.kinds = [aggregate.kind for aggregate in self.parts]
        self.sums = [number for number, kind in enumerate(self.kinds) if kind == "sum"]

    @property
    def _closed(self) -> int:
        """Windows that end by then are over, in microseconds since 1970."""
        watermark = self.context.watermark_microseconds
        return _NEVER if watermark >= LATEST else watermark - self.wait

    @input.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        """Add the records of a batch to their windows; late ones go to `late`."""
        if self.context.engine.record_times is None:
            what = f"`{self.context.name}` puts records into windows by their times, but they have none"
            message = f"{what}; declare `timestamp` and `lateness` at the input operators"
            raise RidgelineError(message)
        times = self.context.batch_times()
        if times is None:
            times = np.full(len(batch), NO_TIME)
        timed = (times >= EARLIEST) & (times < _LAST)
        if not timed.all():
            # any valid time: arithmetic on `NO_TIME` would overflow; `there` drops these rows
            times = np.where(timed, times, EARLIEST)
        if isinstance(self.windows, Session):
            starts, ends = times, times + self.windows.gap
        else:
            starts = self.windows.last_starts(times)
            ends = self.windows.ends(starts)
        there = timed & (ends > self._closed)
        if not there.all():
            self.late.emit_batch(vectors.filtered(batch, ~there), rows=~there)
            batch, times, starts = vectors.filtered(batch, there), times[there], starts[there]
        if len(times):
            codes, keys = vectors.key_codes([batch.column(name) for name in self._keys])
            # a stream that its author divided in another way would split windows of a key among partitions
            if self.context.partitions > 1:
                firsts = vectors.first_rows(codes, len(keys))
                hashes = hash_columns(batch.select(self._keys).take(pa.array(firsts)), self._keys)
                refuse_strays(self, hashes, lambda row: keys[row] if len(self._keys) > 1 else keys[row][0])
            if isinstance(self.windows, Session):
                self._add_sessions(self.windows.gap, batch, times, codes, keys)
            else:
                self._add_windows(self.windows, batch, times, starts, codes, keys)

    def _add_windows(
        self,
        windows: Sliding,
        batch: pa.RecordBatch,
        times: vectors.Index,
        starts: vectors.Index,
        codes: vectors.Index,
        keys: Sequence[tuple[Any, ...]],
    ) -> None:
        """Add records to windows of one size.

        For each record, `starts`: when the last of its windows begins. `codes`: the number of its key.
        """
        # by time, as `first` and `last` take the order of rows within a group
        rows = np.argsort(times, kind="stable")
        starts = starts[rows]
        copies = windows.size // windows.slide
        if copies > 1:
            starts = windows.starts(starts).ravel()
            rows = np.repeat(rows, copies)
        firsts, numbers = np.unique(starts, return_inverse=True)
        ends = windows.ends(firsts)
        if copies > 1:
            held = ends[numbers] > self._closed
            if not held.all():
                numbers, rows = numbers[held], rows[held]
        found, groups = np.unique(numbers * len(keys) + codes[rows], return_inverse=True)
        owners = (found // len(keys)).tolist()
        begins = firsts.tolist()
        names = [
            (begins[owner], *keys[code])
            for owner, code in zip(owners, (found % len(keys)).tolist(), strict=True)
        ]
        known, kinds = self.open, self.kinds
        for name, parts in zip(names, self._parts(batch, rows, times, groups, len(names)), strict=True):
            before = known.get(name)
            known[name] = self._checked(
                parts if before is None else tuple(map(merge, kinds, before, parts)), name[1:]
            )
        self.due = min(self.due, int(ends[owners[0]]))

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
        newest = times[rows[ends]].tolist()
        new_spans = zip(
            times[rows[begins]].tolist(), newest, self._parts(batch, rows, times, groups, count), strict=True
        )
        owners = codes[rows[begins]].tolist()
        for owner, own in groupby(zip(owners, new_spans, strict=True), key=itemgetter(0)):
            key = keys[owner]
            new = [span for _, span in own]
            spans = joined(self.open.get(key, ()), new, gap, self._merged)
            for span in spans:
                self._checked(span[2], key)
            self.open[key] = spans
        self.due = min(self.due, min(newest) + gap)

    def _checked(self, parts: Parts, key: tuple[Any, ...]) -> Parts:
        """Parts whose sums could be emitted now; else raises, before their records are committed."""
        for number in self.sums:
            part = parts[number]
            try:
                fits = not isinstance(part, int) or _LEAST_SUM <= part < -_LEAST_SUM
                if isinstance(part, Decimal):
                    kind = self.output.schema.arrow.field(list(self.values)[number]).type
                    fits = not part or part.adjusted() < kind.precision - kind.scale
                rounded(part)
            except OverflowError:
                fits = False
            if not fits:
                name = list(self.values)[number]
                what = f"the sum `{name}` of key {shorten(key[0] if len(key) == 1 else key)}"
                kind = self.output.schema.arrow.field(name).type
                message = (
                    f"{what} in `{self.context.name}` does not fit its type {kind}; got values of column "
                    f"`{self.values[name].column}` that are too large; "
                    "leave them out before, scale them, or use `mean`"
                )
                raise RidgelineError(message)
        return parts

    def _merged(self, one: Parts, other: Parts) -> Parts:
        return tuple(map(merge, self.kinds, one, other))

    def _parts(
        self,
        batch: pa.RecordBatch,
        rows: vectors.Index,
        times: vectors.Index,
        groups: vectors.Index,
        count: int,
    ) -> list[Parts]:
        """The parts of each group, one for each aggregate."""
        columns = [
            vectors.parts(aggregate, batch, rows, times[rows], groups, count) for aggregate in self.parts
        ]
        return list(zip(*columns, strict=True))

    def end_window(self) -> None:
        """Emit the windows whose time is over, and early results of others."""
        closed = self._closed
        if closed >= self.due:
            over = (
                self._close_sessions(self.windows.gap, closed)
                if isinstance(self.windows, Session)
                else self._close_windows(self.windows, closed)
            )
            if self.accumulation == "discarding":
                over = [one for one in over if one.parts[-1]]
            self._emit(over, final=True)
        if len(self.parts) > len(self.values):
            self._emit(self._early(), final=False)

    def _close_windows(self, windows: Sliding, closed: int) -> list[Result]:
        """Forget the windows that have ended; returns them."""
        names = list(self.open)
        firsts = list({name[0] for name in names})
        ends = dict(zip(firsts, windows.ends(np.array(firsts, np.int64)).tolist(), strict=True))
        self.due = min((end for end in ends.values() if end > closed), default=_NEVER)
        return [
            Result(name[0], ends[name[0]], name[1:], self.open.pop(name))
            for name in names
            if ends[name[0]] <= closed
        ]

    def _close_sessions(self, gap: int, closed: int) -> list[Result]:
        """As `_close_windows`."""
        found, due = [], _NEVER
        for key, spans in list(self.open.items()):
            left = tuple(span for span in spans if span[1] + gap > closed)
            if len(left) < len(spans):
                found += [
                    Result(start, end + gap, key, parts) for start, end, parts in spans if end + gap <= closed
                ]
                if left:
                    self.open[key] = left
                else:
                    del self.open[key]
            due = min([due, *(span[1] + gap for span in left)])
        self.due = due
        return found

    def _early(self) -> list[Result]:
        """The open windows that have new records for an early result, which then are new no more."""
        least, changed = self.early_count or _NEVER, self.open.changed()
        now = self.context.clock.wall()
        if self.early is not None and len(self.open):
            # the second: the wall clock was set back, so the period starts again
            if not self.fired or self.fired > now:
                self.fired = now
            elif now - self.fired >= parse_duration(self.early):
                self.fired, least, changed = now, 1, iter(list(self.open.items()))
        found: list[Result] = []
        # a copy, as results set their windows again below
        for name, value in list(changed):
            if isinstance(self.windows, Session):
                spans = [(span, (span[2][-1] or 0) >= least) for span in value]
                if any(due for _, due in spans):
                    end = self.windows.gap
                    found += [Result(span[0], span[1] + end, name, span[2]) for span, due in spans if due]
                    self.open[name] = tuple(
                        (*span[:2], self._after_result(span[2])) if due else span for span, due in spans
                    )
            elif (value[-1] or 0) >= least:
                end = int(self.windows.ends(np.array([name[0]], np.int64))[0])
                found.append(Result(name[0], end, name[1:], value))
                self.open[name] = self._after_result(value)
        return found

    def _after_result(self, parts: Parts) -> Parts:
        """The parts that are kept of a window whose result was emitted."""
        return (None,) * len(parts) if self.accumulation == "discarding" else (*parts[:-1], None)

    def _emit(self, results: Sequence[Result], *, final: bool) -> None:
        """Emit results, in the order of their ends."""
        if not results:
            return
        results = sorted(results, key=lambda one: (one.end, one.start))
        of_window: dict[str, Sequence[Any]] = {
            "window_start": [one.start for one in results],
            "window_end": [one.end for one in results],
            "is_final": [final] * len(results),
        }
        columns: list[Sequence[Any]] = [
            list(values) for values in zip(*(one.key for one in results), strict=True)
        ]
        for number, aggregate in enumerate(self.values.values()):
            kind = aggregate.kind
            columns.append(of_window.get(kind) or [result(kind, one.parts[number]) for one in results])
        schema = self.output.schema.arrow
        arrays = [
            vectors.as_column(values, field.type) for values, field in zip(columns, schema, strict=True)
        ]
        self.output.emit_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


@cache
def _keyed(key: str | tuple[str, ...]) -> type[Windowed]:
    """The class of operators with this key."""
    port = InputPort[Any](Any, key=key)
    port.process_batch(Windowed.add)
    columns = 1 if isinstance(key, str) else len(key)
    body = {
        "open": KeyedState(tuple, moves_by=lambda name: name[-columns:]),
        "__module__": Windowed.__module__,
        "__qualname__": Windowed.__qualname__,
        "__doc__": Windowed.__doc__,
        "input": port,
        "add": Windowed.add,
    }
    return type("Windowed", (Windowed,), body)


def _made(key: str | tuple[str, ...] | None) -> Windowed:
    """An operator without properties, to be filled."""
    cls = Windowed if not key else _keyed(key if isinstance(key, str) else tuple(key))
    return object.__new__(cls)

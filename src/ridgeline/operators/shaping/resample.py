"""Make records in regular steps of time of records that come when they like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from ridgeline.api import (
    InputPort,
    ListState,
    OutputPort,
    Schema,
    SchemaError,
    metric,
)
from ridgeline.api.cells.cell import Declaration
from ridgeline.api.columns.schema import holds_pickles
from ridgeline.api.context import OperatorContext
from ridgeline.api.support.duration import parse_duration, positive_duration_faults
from ridgeline.api.times import LATEST, NO_TIME, Microseconds, Times
from ridgeline.operators._divided import (
    Columns,
    DividedOperator,
    TogetherCodec,
    check_columns,
    columns_of,
    moved_records,
    row_keys,
)
from ridgeline.operators._window_parts import filtered, first_rows
from ridgeline.operators.shaping.interpolate import together

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_TIME, _DONE = "_time", "_done"
_STEPS = pa.timestamp("us", "UTC")


class _Values(NamedTuple):
    """The values of a column that the watermark has passed, key by key, each key's in the order of time."""

    name: str
    linear: bool
    rows: Index
    codes: Index
    times: Index
    nexts: Index
    """The time of the value after it of its key; `LATEST` if there is none yet."""
    ends: Index
    """The steps that it has a say in are before this time."""


class _Steps(NamedTuple):
    """Which steps a column has a value at: the number of each step, and the place of its value."""

    numbers: Index
    places: Index


class Resample(DividedOperator):
    """Make a record of each key in regular steps of time: `Resample("10s", linear="celsius", within="1m")`.

    Input: a stream with record times. Output: the columns of the key, `time`, and those of `linear` and
    `forward`. A record stands for a step, a multiple of `every` since 1970. `linear` columns have the value
    on the line between the last value before the step and the first one after it, as floats. `forward`
    columns have the last value before it, or at it. Nulls are no values. Of several of one time the last one
    that came counts. `key`: a column, or several; None: all records together, in one partition.

    `within` says how far values reach. Those of `linear` columns are at most so far apart; those of `forward`
    ones are younger at the step. A column has null where that is not so. A step at which no column has a
    value makes no record: so a key that is silent ends.

    A step comes once the watermark has passed it. It waits for the next values of its `linear` columns, until
    these cannot come in time any more. So the watermark of the output is `within` behind if there are such
    columns. Late records, and those without a time, are counted and go to the error port `late`, as with
    `Sort`.
    Raises RidgelineError for streams without record times.

    State: the records that wait, and for each key those with the last values. All are written in a window in
    which a step passes. The metric `held_records` says how many there are.

    Partitions: by key. Round robin is refused with RidgelineError: records of a key would not meet.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Resample
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> columns = [("device", str), ("celsius", float | None), ("on", bool | None), ("time", datetime)]
        >>> Reading = NamedTuple("Reading", columns)
        >>> def at(second):
        ...     return datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC)
        >>> items = [("oven", 80.0, True, at(1)), ("oven", 84.0, None, at(9)), ("oven", 85.0, False, at(11))]
        >>> app = Application("readings")
        >>> source = app.add_operator("source", ListInput(Reading, items, "time", lateness="1s"))
        >>> operator = Resample("5s", "device", linear="celsius", forward="on", within="10s")
        >>> steps = app.add_operator("steps", operator)
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("readings", source.output, steps.input)
        >>> app.add_stream("regular", steps.output, sink.input)
        >>> for row in run_local(app).collected("sink"):
        ...     print(row["time"].second, row["celsius"], row["on"])
        5 82.0 True
        10 84.5 True
        15 None False
        20 None False
    """

    input = InputPort(Any, codec=TogetherCodec())
    output = OutputPort(Any)
    late = OutputPort(Any, late=True, optional=True)

    every: float | str
    key: Columns | None = None
    linear: Columns = Field(default=(), kw_only=True)
    forward: Columns = Field(default=(), kw_only=True)
    within: float | str = Field(kw_only=True)
    time: str = Field(default="time", min_length=1, kw_only=True)

    held = ListState(pa.RecordBatch, moves_to=together)
    """The records that are needed, and as the last columns their times, and up to when their keys' steps are
    out."""

    @classmethod
    def states_of(cls, keys: Mapping[str, Sequence[str]]) -> dict[str, Declaration]:
        """Records move with their keys."""
        return {"held": ListState(pa.RecordBatch, moves_to=partial(moved_records, keys["input"]))}

    @metric(help="Records that wait for a step, or have the last values of a key.")
    def held_records(self) -> int:
        """The number of records that are held."""
        return sum(map(len, self.held))

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, times that are none, and columns that are none or named twice."""
        faults = [*self.key_faults("key"), *positive_duration_faults(self, "every", "within")]
        linear, forward, key = columns_of(self.linear), columns_of(self.forward), columns_of(self.key)
        if not linear and not forward:
            faults.append(("linear", self.linear, "or `forward` must name a column that has values"))
        for name, columns in (("linear", linear), ("forward", forward)):
            both = [one for one in columns if one in key or (name == "forward" and one in linear)]
            if both or len(set(columns)) < len(columns):
                faults.append((name, both[0] if both else columns, "must not name a column twice"))
        if self.time in (*key, *linear, *forward):
            faults.append(("time", self.time, "must not have the name of another column of the output"))
        return faults

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The key's columns, the time and the values. Raises SchemaError for columns that do not fit."""
        super().derived_schema(port, inputs)
        if "input" not in inputs or port == "late":
            return None
        given = inputs["input"]
        for name in ("key", "linear", "forward"):
            check_columns(given, columns_of(getattr(self, name)), f"`{name}`")
        for name in columns_of(self.linear):
            kind = given.arrow.field(name).type
            if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
                msg = f"`linear` names `{name}`, which is {kind}; only numbers lie on a line: put it into "
                msg += "`forward`, or `cast` before it"
                raise SchemaError(msg)
        key = [given.arrow.field(name) for name in columns_of(self.key)]
        line = [pa.field(name, pa.float64()) for name in columns_of(self.linear)]
        last = [given.arrow.field(name).with_nullable(True) for name in columns_of(self.forward)]  # noqa: FBT003
        return pa.schema([*key, pa.field(self.time, _STEPS, nullable=False), *line, *last])

    def needs_times(self) -> str:
        """To know between which steps a record lies."""
        return "resamples"

    def setup(self, context: OperatorContext) -> None:
        """Read the names and the durations."""
        self.names = columns_of(self.key)
        self.lines, self.lasts = columns_of(self.linear), columns_of(self.forward)
        self.width = round(parse_duration(self.every) * 1_000_000)
        self.reach = round(parse_duration(self.within) * 1_000_000)
        context.watermark_delay = self.reach if self.lines else 0

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Hold the records of a batch; late ones go to `late`. Raises SchemaError for `object`."""
        if holds_pickles(batch):
            msg = f"`{self.context.name}` cannot resample a stream of `object`; give the port before it a "
            msg += "schema"
            raise SchemaError(msg)
        batch, times = self.on_time(batch, self.late, "resamples")
        if len(batch):
            if self.names:
                self.refuse_strays(batch, self.names)
            needed = batch.select([*self.names, *self.lines, *self.lasts]).append_column(
                _TIME, pa.array(times)
            )
            self.held.append(needed.append_column(_DONE, pa.array(np.full(len(batch), NO_TIME))))

    def end_window(self) -> None:
        """Emit the steps that are settled, and forget what no step needs any more."""
        limit = self.context.watermark_microseconds - 1  # what has come up to this time is all there is
        every = [batch.column(batch.num_columns - 2).to_numpy() for batch in self.held]
        if not every or min(int(one.min()) for one in every) > limit:
            return
        [held] = pa.Table.from_batches(list(self.held)).combine_chunks().to_batches()
        times: Index = np.concatenate(every)
        codes: Index = np.zeros(len(held), np.int64)
        keys: list[Any] = [()]
        if self.names:
            codes, keys = row_keys(held, self.names)
        done = np.full(len(keys), NO_TIME)
        np.maximum.at(done, codes, held.column(held.num_columns - 1).to_numpy())
        known = np.full(len(keys), limit)
        columns = self._columns(held, times, codes, known)
        steps = [self._steps(column, done, known) for column in columns]
        emitted = sum(len(one.numbers) for one in steps)
        needed = self._needed(columns, times, codes, known)
        if emitted:
            self._emit(held, columns, steps, first_rows(codes, len(keys)))
        if emitted or not needed.all():
            there = np.zeros(len(keys), np.bool_)
            there[codes[times <= limit]] = True
            kept = held.set_column(held.num_columns - 1, _DONE, pa.array(np.where(there, known, done)[codes]))
            self.held[:] = [filtered(kept, needed)] if needed.any() else []

    def _columns(
        self, held: pa.RecordBatch, times: Microseconds, codes: Index, known: Index
    ) -> list[_Values]:
        """The values of each column up to the limit that `known` has of each key.

        Sets `known` back to the last value of a `linear` column whose next one may still come in time.
        """
        rows = np.flatnonzero(times <= known[codes])
        order = rows[np.lexsort((times[rows], codes[rows]))]
        limits, found = known.copy(), []
        for name in (*self.lines, *self.lasts):
            column = held.column(held.schema.get_field_index(name))
            own = order[column.is_valid().to_numpy(zero_copy_only=False)[order]]
            again = (codes[own][1:] == codes[own][:-1]) & (times[own][1:] == times[own][:-1])
            own = own[~_shifted(again, len(own), fill=False)]
            key, time, line = codes[own], times[own], name in self.lines
            last = _shifted(key[1:] != key[:-1], len(own), fill=True)
            nexts = np.where(last, LATEST, np.append(time[1:], LATEST)[: len(own)])
            if line:
                ends = np.where(~last & (nexts - time <= self.reach), nexts, np.minimum(nexts, time + 1))
                waits = last & (limits[key] < time + self.reach)
                np.minimum.at(known, key[waits], time[waits])
            else:
                ends = np.minimum(nexts, time + self.reach)
            found.append(_Values(name, line, own, key, time, nexts, ends))
        return found

    def _steps(self, column: _Values, done: Index, known: Index) -> _Steps:
        """The steps at which a column has a value, after those that are out."""
        begin = np.maximum(column.times, done[column.codes] + 1)
        end = np.minimum(column.ends, known[column.codes] + 1)
        first, stop = -(-begin // self.width), -(-end // self.width)
        counts = np.maximum(stop - first, 0)
        places = np.repeat(np.arange(len(counts)), counts)
        before = np.cumsum(counts) - counts
        return _Steps(first[places] + np.arange(len(places)) - before[places], places)

    def _needed(self, columns: Sequence[_Values], times: Microseconds, codes: Index, known: Index) -> Mask:
        """The records after the steps that are out, and of each key those with values that reach further."""
        needed: Mask = times > known[codes]
        for column in columns:
            passed = column.times <= known[column.codes]
            other = _shifted(column.codes[1:] != column.codes[:-1], len(passed), fill=True)
            last = passed & (other | ~_shifted(passed[1:], len(passed), fill=False))
            age = known[column.codes] + 1 - column.times
            reaches = age <= self.reach if column.linear else age < self.reach
            needed[column.rows[last & reaches]] = True
        return needed

    def _emit(
        self,
        held: pa.RecordBatch,
        columns: Sequence[_Values],
        steps: Sequence[_Steps],
        firsts: Index,
    ) -> None:
        """Emit steps in the order of their times. `firsts`: of each key a row that has it."""
        numbers = np.concatenate([one.numbers for one in steps])
        codes = np.concatenate([one.codes[own.places] for one, own in zip(columns, steps, strict=True)])
        # by their order: the numbers themselves, times that of the keys, may be more than 64 bits
        distinct, step = np.unique(numbers, return_inverse=True)
        count = len(firsts)
        found, back = np.unique(step * count + codes, return_inverse=True)
        times: Index = distinct[found // count] * self.width
        arrays = [held.column(name).take(pa.array(firsts[found % count])) for name in self.names]
        arrays.append(pa.array(times).cast(_STEPS))
        begin = 0
        for column, own in zip(columns, steps, strict=True):
            places = np.full(len(found), -1)
            places[back[begin : begin + len(own.places)]] = own.places
            begin += len(own.places)
            arrays.append(_values(held, column, places, times))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.output.schema.arrow)
        self.output.emit_timed(batch, Times(times))


def _shifted(after: Mask, count: int, *, fill: bool) -> Mask:
    """Of `count` rows what is said of the row after each, `fill` for the last one."""
    found: Mask = np.append(after, fill)[:count]
    return found


def _values(held: pa.RecordBatch, column: _Values, places: Index, times: Index) -> pa.Array:
    """The values of a column at steps. `places`: of each step that of the value before it, -1 of none."""
    mask, source = places < 0, held.column(held.schema.get_field_index(column.name))
    if not len(column.rows):
        return pa.nulls(len(places), pa.float64() if column.linear else source.type)
    rows = column.rows[places]
    if not column.linear:
        return source.take(pa.array(rows, mask=mask))
    numbers = source.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)
    begin, end = column.times[places], column.nexts[places]
    low, high = numbers[rows], numbers[column.rows[np.minimum(places + 1, len(column.rows) - 1)]]
    with np.errstate(invalid="ignore", over="ignore"):
        line = low + (high - low) * ((times - begin) / np.maximum(end - begin, 1))
    return pa.array(np.where(times == begin, low, line), mask=mask)

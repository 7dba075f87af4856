"""Reproducible made-up records, of any columns or of one random integer."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputOperator, OutputPort, Schema, State
from ridgeline.api.support.event_time import EventTime
from ridgeline.operators.generators import Column, integers

_MOST_ROWS = 2**20
"""In a window; the others follow in the next ones."""
_NOT_BEGUN = -1


class EventGenerator(EventTime, InputOperator):
    """Emit made-up records: for examples, tests and benchmarks.

    `columns`: how each column is made, by its name: `integers(1, 6)`, `uniform(0, 1)`, `normal(100, 15)`,
    `choice(["a", "b"], weights=[9, 1])`, `sequence()`, `times("2026-01-01", every="10ms", late_by="5s")`, all
    of `ridgeline.operators.generators`. A value depends only on `seed`, the column's name and the number of
    its record. So all runs, attempts and partitions make the same records.

    `per_second`: records a second; time counts from the first window. Default: `per_window` records a window,
    as fast as possible. `count`: records in all; default: without end. Record i belongs to partition i modulo
    their number.

    `timestamp`: the column with the records' times. `lateness`: as of `FileReplayInput`, such as `late_by`.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.operators import EventGenerator
        >>> from ridgeline.operators.generators import choice, integers, sequence
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> columns = {"id": sequence(1), "user": choice(["ann", "bob"]), "cents": integers(1, 99)}
        >>> app = Application("shop")
        >>> orders = app.read("orders", EventGenerator(columns, count=3, seed=7))
        >>> sink = orders.write("sink", CollectorSink())
        >>> [(row["id"], row["user"]) for row in run_local(app).collected("sink")]
        [(1, 'ann'), (2, 'ann'), (3, 'ann')]
    """

    progress_unit = "records"
    output = OutputPort(Any)

    columns: dict[str, Column] = Field(min_length=1)
    per_second: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    per_window: int = Field(default=1_000, ge=1, le=_MOST_ROWS)
    count: int | None = Field(default=None, ge=0)
    seed: int = 0

    position = State(0, moves="same")
    """How many records all partitions together have made; the same in each."""
    began = State(_NOT_BEGUN, moves="same")
    """When the first window began, in microseconds since 1970."""

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse times of a column that has none."""
        faults = super().property_faults()
        if self.timestamp is not None:
            named = self.columns.get(self.timestamp)
            if named is None or not pa.types.is_timestamp(named.kind):
                faults.append(("timestamp", self.timestamp, "must be a column of `times`"))
        return faults

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns, none of them null."""
        return pa.schema([pa.field(name, one.kind, nullable=False) for name, one in self.columns.items()])

    def emit_tuples(self) -> None:
        """Emit this partition's records of those that are due; finish after the last one."""
        start = self.position
        stop = start + min(_MOST_ROWS, max(0, self._due() - start))
        if self.count is not None:
            stop = max(start, min(stop, self.count))
        if stop > start:
            schema = self.output.schema.arrow
            partition, partitions = self.context.partition, self.context.partitions
            own = pa.array(range((partition - start) % partitions, stop - start, partitions), pa.int64())
            arrays = [
                one.values(self.seed ^ zlib.crc32(name.encode()) << 32, start, stop).take(own)
                for name, one in self.columns.items()
            ]
            self.output.emit_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
        self.position = stop
        if self.count is not None and stop >= self.count:
            self.finish()

    def _due(self) -> int:
        """How many records are to be made by the end of the window, those that were made included."""
        if self.per_second is None:
            return self.position + self.per_window
        now = self.context.window_time_microseconds
        if self.began == _NOT_BEGUN:
            self.began = now
        seconds = max(0.0, (now - self.began) / 1_000_000 + self.context.window_seconds)
        due = int(self.per_second * seconds + 1e-6)
        return int(min(due, self.position + self.context.engine.ask_budget()))

    def is_paced(self) -> bool:
        """True: so many a window, or a second; then what is due and not made waits, if it is unbounded."""
        return self.per_second is None or self.count is not None

    def progress(self) -> tuple[float, float | None]:
        """This partition's share of records emitted and still to be emitted.

        Without `count` these are the ones that are due, None without `per_second`.
        """
        made, left = self.position, None
        if self.count is not None:
            left = self.count - made
        elif self.per_second is not None:
            passed = self.context.clock.wall() - self.began / 1_000_000
            left = 0 if self.began == _NOT_BEGUN else int(self.per_second * passed) - made
        of = self.context.partitions
        return made / of, None if left is None else max(0, left) / of


class RandomInteger(NamedTuple):
    """One random integer.

    Example:
        >>> RandomInteger(42)
        RandomInteger(value=42)
    """

    value: int


class RandomEventGenerator(InputOperator):
    """Emit random integers from `minimum` to `maximum`, both included.

    `tuples_per_window`: tuples a window, over all partitions. `count`: tuples in all; None: without end. The
    sequence depends on `seed` only. Each window's part of it is divided among the partitions in contiguous
    ranges. Read in the order of partitions they are the same sequence, whatever their number.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.operators import RandomEventGenerator
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> app = Application("dice")
        >>> generator = RandomEventGenerator(minimum=1, maximum=6, tuples_per_window=3, count=5)
        >>> dice = app.add_operator("dice", generator)
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("rolls", dice.integer_data, sink.input)
        >>> run = run_local(app)
        >>> [[roll["value"] for roll in run.collected("sink", window)] for window in run.window_ids]
        [[2, 1, 2], [5, 2]]
    """

    progress_unit = "records"
    integer_data = OutputPort(RandomInteger)

    minimum: int = Field(default=0, ge=-(2**62), le=2**62)
    maximum: int = Field(default=99, ge=-(2**62), le=2**62)
    tuples_per_window: int = Field(default=1_000, ge=1, le=10**9)
    count: int | None = Field(default=None, ge=0)
    seed: int = 0

    position = State(0, moves="same")  # how many all partitions together have made; the same in each

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a `minimum` above `maximum`."""
        if self.minimum <= self.maximum:
            return []
        return [("minimum", self.minimum, f"must not be above `maximum`, which is {self.maximum}")]

    def emit_tuples(self) -> None:
        """Emit this partition's range of the window's numbers; finish after the last one."""
        start, stop = self.position, self.position + self.tuples_per_window
        if self.count is not None:
            stop = min(stop, self.count)
        size, partition, partitions = max(0, stop - start), self.context.partition, self.context.partitions
        first, last = start + size * partition // partitions, start + size * (partition + 1) // partitions
        if last > first:
            values = integers(self.minimum, self.maximum).values(self.seed, first, last)
            self.integer_data.emit_batch(pa.RecordBatch.from_arrays([values], names=["value"]))
        self.position = max(start, stop)
        if self.count is not None and self.position >= self.count:
            self.finish()

    def is_paced(self) -> bool:
        """True: so many a window."""
        return True

    def progress(self) -> tuple[float, float | None]:
        """This partition's share of tuples emitted and still to be emitted; None without `count`."""
        of = self.context.partitions
        return self.position / of, None if self.count is None else max(0, self.count - self.position) / of

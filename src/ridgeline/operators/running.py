"""Aggregates by key of all records so far."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort
from ridgeline.api.context import OperatorContext
from ridgeline.api.support.duration import PositiveDuration
from ridgeline.api.times import Microseconds
from ridgeline.operators._divided import (
    Columns,
    ForgettingOperator,
    TogetherCodec,
)
from ridgeline.operators._exact import Index
from ridgeline.operators.aggregate import Aggregate
from ridgeline.operators.aggregate.rules import Rows
from ridgeline.operators.windows.columns import AggregatingOperator, Result
from ridgeline.operators.windows.columns import Columns as Aggregates


class Running(AggregatingOperator, ForgettingOperator):
    """Aggregate all records of each key so far; emit the aggregates of keys that have new records.

    Input: any stream with columns. Output: the key's columns, and those of `values`. `key`: a column, or
    several; `()`: all records together. `values`: the aggregates by the name of their column, see
    `ridgeline.operators.aggregate`, but those of windows. A null is no value of a column.

    `emit="changes"`: at the end of a window the aggregates of each key with new records. `emit="records"`:
    for each record the aggregates that have it and those that came before it, in the order of records.

    `ttl`: the time to live. A key is forgotten once so much time has passed since its newest record, and
    begins again with its next one. `ttl_by="clock"`: by the time at which windows begin. `ttl_by="record"`:
    by the watermark and the times of records; raises RidgelineError if the stream has no times.

    State: for each key the parts of its aggregates.

    Partitions: by key. Round robin is refused with RidgelineError. Without a key, one partition gets all.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Running, aggregate
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Payment(NamedTuple):
        ...     account: str
        ...     cents: int
        >>> payments = [("ann", 5), ("bob", 7), ("ann", 2)]
        >>> values = {"total": aggregate.sum("cents"), "highest": aggregate.max("cents")}
        >>> app = Application("totals")
        >>> source = app.add_operator("source", ListInput(Payment, payments))
        >>> totals = app.add_operator("totals", Running("account", values=values, emit="records"))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("payments", source.output, totals.input)
        >>> app.add_stream("totals", totals.output, sink.input)
        >>> [tuple(row.values()) for row in run_local(app).collected("sink")]
        [('ann', 5, 5), ('bob', 7, 7), ('ann', 7, 5)]
    """

    lives = "ttl"
    state_depends_on = ("key", "values", "ttl_by")

    input = InputPort(Any, codec=TogetherCodec())
    output = OutputPort(Any)

    key: Columns
    values: dict[str, Aggregate] = Field(min_length=1)
    emit: Literal["changes", "records"] = "changes"
    ttl: PositiveDuration | None = None
    ttl_by: Literal["clock", "record"] = "clock"

    totals = KeyedState(tuple)
    """By key, when it was last written, in microseconds since 1970, and the parts of its aggregates."""

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse what the base refuses, and aggregates of windows."""
        faults = super().property_faults()
        for one in self.values.values():
            if one.kind in ("window_start", "window_end", "is_final"):
                faults.append(("values", one, "must be of records: there are no windows here"))
        return faults

    @property
    def by_clock(self) -> bool:
        """As `ttl_by` says."""
        return self.ttl_by == "clock"

    def setup(self, context: OperatorContext) -> None:
        """Take the rules of the aggregates, too."""
        super().setup(context)
        self.aggregates = Aggregates(self, self.values, counted=False)

    @input.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        """Add the records of a batch to the aggregates of their keys."""
        if not len(batch):
            return
        codes, keys = self.own_keys(batch)
        times = self.living_times(batch)
        touched = np.full(len(keys), self.now)
        if not self.by_clock:
            np.maximum.at(touched, codes, times)
        if self.emit == "records":
            self._add_each(batch, times, codes, keys, touched.tolist())
        else:
            self._add_all(batch, times, codes, keys, touched.tolist())

    def _before(self, key: Any) -> tuple[Any, ...] | None:
        """The parts of a key, unless its time is over."""
        found: tuple[Any, ...] | None = self.totals.get(key)
        if found is None or (self.live is not None and found[0] + self.live <= self.now):
            return None
        return found[1:]

    def _add_all(
        self, batch: pa.RecordBatch, times: Microseconds, codes: Index, keys: list[Any], touched: list[int]
    ) -> None:
        """Add the records of each key at once."""
        rows = np.argsort(times, kind="stable")
        new = self.aggregates.parts(Rows(batch, rows, times[rows], codes[rows], len(keys)))
        nothing = (None,) * len(self.values)
        new = self.aggregates.merged_all([self._before(key) or nothing for key in keys], new)
        self.aggregates.check(new, lambda place: self._tuple_of(keys[place]))
        for key, time, after in zip(keys, touched, new, strict=True):
            self.totals[key] = (time, *after)

    def _add_each(
        self, batch: pa.RecordBatch, times: Microseconds, codes: Index, keys: list[Any], touched: list[int]
    ) -> None:
        """Add one record after the other, and emit the aggregates after each."""
        rows = np.arange(len(batch))
        new = self.aggregates.parts(Rows(batch, rows, times, rows, len(batch)))
        latest: list[Any] = [self._before(key) for key in keys]
        found = []
        for code, parts in zip(codes.tolist(), new, strict=True):
            before, key = latest[code], self._tuple_of(keys[code])
            latest[code] = after = parts if before is None else self.aggregates.merged(before, parts)
            found.append(Result(0, 0, key, after))
        self.aggregates.check([one.parts for one in found], lambda place: found[place].key)
        for key, time, after in zip(keys, touched, latest, strict=True):
            self.totals[key] = (time, *(after or ()))
        self.aggregates.emit(found, final=True)

    def _tuple_of(self, key: Any) -> tuple[Any, ...]:
        return (key,) if len(self.key_names) == 1 else key

    def end_window(self) -> None:
        """Emit the aggregates of keys with new records; forget keys whose time is over."""
        if self.emit == "changes":
            changed = self.totals.changed()
            results = [Result(0, 0, self._tuple_of(key), value[1:]) for key, value in changed]
            self.aggregates.emit(results, final=True)
        now, live = self.now, self.live or 0
        self.forget(self.totals, lambda value: value[0] + live <= now)

"""Join of each record with the newest one of another stream that is not later."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, Schema, State, metric
from ridgeline.api.context import OperatorContext
from ridgeline.api.points import OutputPoint
from ridgeline.api.support.duration import duration_faults, parse_duration
from ridgeline.api.times import EARLIEST, LATEST, Times
from ridgeline.operators._divided import DividedOperator, row_keys
from ridgeline.operators._joined import (
    On,
    Row,
    arrays_of,
    has_null,
    left_columns,
    pair_schema,
    right_columns,
    rows_of,
)
from ridgeline.operators._window_parts import filtered

_NEVER = np.iinfo(np.int64).max
_LAST = LATEST - 366 * 86_400_000_000
_SWEEPS = 8
Entry = tuple[int, Row]
"""A record's time in microseconds since 1970, and its columns."""
_TIME = itemgetter(0)


class AsOfJoin(DividedOperator):
    """Join each record of one stream with the newest record of another that is not later than it.

    Inputs: `left` and `right`, streams with record times. Output: the columns of `left`, then those of
    `right` without its key; a name that both have gets the `suffix`. A result has the time of its record of
    `left`. It comes once the watermark has passed that time, since only then no better partner can come. So
    results do not depend on the order in which records come. Of equal times of `right` the record that came
    last counts.

    `on`: a column that both sides have, several, or a mapping such as `{"trade": "symbol"}` from columns of
    `left` to those of `right`. A key with a null in it equals no other. `within`: how much older the record
    of `right` may be; None: any age. `how`: "left" gives nulls to records without a partner, "inner" leaves
    them out.

    A record is late if it is older than the watermark was when its streaming window began. Late records, and
    those without a time, are counted and go to the error ports `late_left` and `late_right`. Raises
    RidgelineError for streams without record times.

    State: records of `left` until the watermark has passed them. Of `right`, for each key those since the
    watermark and one before; with `within` that goes an eighth of it after its end, at most. The metric
    `held_records` says how many keys of `right` there are, and how many of `left` wait.

    Partitions: by `on`, the same on both sides. Round robin is refused with RidgelineError: a record would
    not meet its partner.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import AsOfJoin
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Trade = NamedTuple("Trade", [("symbol", str), ("shares", int), ("time", datetime)])
        >>> Quote = NamedTuple("Quote", [("symbol", str), ("bid", float), ("time", datetime)])
        >>> def at(second):
        ...     return datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC)
        >>> trades = [("A", 10, at(3)), ("A", 20, at(5)), ("B", 30, at(5))]
        >>> quotes = [("A", 2.5, at(4)), ("A", 2.0, at(1))]
        >>> app = Application("trades")
        >>> trades = app.add_operator("trades", ListInput(Trade, trades, "time", lateness="5s"))
        >>> quotes = app.add_operator("quotes", ListInput(Quote, quotes, "time", lateness="5s"))
        >>> join = app.add_operator("join", AsOfJoin("symbol"))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("trades", trades.output, join.left)
        >>> app.add_stream("quotes", quotes.output, join.right)
        >>> app.add_stream("priced", join.output, sink.input)
        >>> [(row["symbol"], row["shares"], row["bid"]) for row in run_local(app).collected("sink")]
        [('A', 10, 2.0), ('A', 20, 2.5), ('B', 30, None)]
    """

    left = InputPort(Any)
    right = InputPort(Any)
    output = OutputPort(Any)
    late_left = OutputPort(Any, late=True, optional=True)
    late_right = OutputPort(Any, late=True, optional=True)

    on: On
    within: float | str | None = None
    how: Literal["left", "inner"] = Field(default="left", kw_only=True)
    suffix: str = Field(default="_right", kw_only=True)

    waiting = KeyedState(tuple)
    """By key the records of `left` that the watermark has not passed, in the order of their times."""
    known = KeyedState(tuple)
    """By key the records of `right` that may still be the newest of one of `left`, the oldest first."""
    due = State(_NEVER, moves="least")
    """The time of the oldest record of `left` that waits."""
    sweep_at = State(_NEVER, moves="least")
    """When records of `right` that are too old are looked for next."""

    @classmethod
    def keys_of(cls, given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """`on`, of each side."""
        return {"left": left_columns(given.get("on")), "right": right_columns(given.get("on"))}

    @metric(help="Keys of the right side, and keys of the left side with records that wait.")
    def held_records(self) -> int:
        """The number of keys that are held."""
        return len(self.known) + len(self.waiting)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, and what is no duration."""
        return [*self.key_faults("on"), *duration_faults(self, "within")]

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of both sides. Raises SchemaError for what a stream does not have."""
        super().derived_schema(port, inputs)
        return pair_schema(port, inputs, self.on, self.how, self.suffix)

    def needs_times(self) -> str:
        """To find the newest record."""
        return "joins records"

    def setup(self, context: OperatorContext) -> None:
        """Read the durations."""
        self.oldest = None if self.within is None else round(parse_duration(self.within) * 1_000_000)

    @left.process_batch
    def take_left(self, batch: pa.RecordBatch) -> None:
        """Let the records of a batch wait for the watermark."""
        found = self._taken(batch, left_columns(self.on), self.late_left, batch.schema.names)
        for key, entries in found.items():
            if self.how == "left" or not has_null(key):
                self.waiting[key] = _merged(self.waiting.get(key, ()), entries)
                self.due = min(self.due, self.waiting[key][0][0])

    @right.process_batch
    def take_right(self, batch: pa.RecordBatch) -> None:
        """Keep the records of a batch, of which records of `left` may be."""
        names = right_columns(self.on)
        rest = [name for name in batch.schema.names if name not in names]
        for key, entries in self._taken(batch, names, self.late_right, rest).items():
            if not has_null(key):
                self._keep(key, _merged(self.known.get(key, ()), entries))

    def _taken(
        self, batch: pa.RecordBatch, names: Sequence[str], late: OutputPoint, columns: Sequence[str]
    ) -> dict[Any, list[Entry]]:
        """The records of a batch by key, with these columns; late ones are emitted on `late`."""
        times, watermark = self.record_times(batch, "joins records"), self.context.watermark_microseconds
        there = (times >= max(EARLIEST, watermark)) & (times < _LAST)
        if not there.all():
            late.emit_batch(filtered(batch, ~there), rows=~there)
            batch, times = filtered(batch, there), times[there]
        self.refuse_strays(batch, names)
        codes, keys = row_keys(batch, names)
        found: dict[Any, list[Entry]] = {}
        rows = rows_of(batch, columns)
        for code, time, row in zip(codes.tolist(), times.tolist(), rows, strict=True):
            found.setdefault(keys[code], []).append((time, row))
        return found

    def _keep(self, key: Any, entries: tuple[Entry, ...]) -> None:
        """Keep the records of `right` of a key that may still count: those since the watermark, and one.

        In an application window records of `left` that the watermark has passed may still wait.
        """
        watermark = min(self.context.watermark_microseconds, self.due)
        entries = entries[max(0, bisect_right(entries, watermark, key=_TIME) - 1) :]
        if self.oldest is not None:
            entries = entries[bisect_right(entries, watermark - self.oldest - 1, key=_TIME) :]
            if entries:
                self.sweep_at = min(self.sweep_at, entries[0][0] + self.oldest + 1)
        if not entries:
            self.known.pop(key, None)
        elif self.known.get(key) != entries:
            self.known[key] = entries

    def end_window(self) -> None:
        """Emit the records of `left` that the watermark has passed."""
        watermark = self.context.watermark_microseconds
        if watermark > self.due:
            self._emit_due(watermark)
        if watermark >= self.sweep_at and self.oldest is not None:
            self.sweep_at = _NEVER
            for key, entries in list(self.known.items()):
                self._keep(key, entries)
            if self.sweep_at != _NEVER:
                self.sweep_at = max(self.sweep_at, watermark + max(1, self.oldest // _SWEEPS))

    def _emit_due(self, watermark: int) -> None:
        """Emit the records of `left` that the watermark has passed, in the order of their times."""
        over: list[tuple[int, Row, Row | None]] = []
        self.due, passed = _NEVER, dict[Any, tuple[Entry, ...]]()
        for key, entries in list(self.waiting.items()):
            count = bisect_right(entries, watermark - 1, key=_TIME)
            if count:
                known = () if has_null(key) else self.known.get(key, ())
                for time, row in entries[:count]:
                    place = bisect_right(known, time, key=_TIME) - 1
                    fits = place >= 0 and (self.oldest is None or known[place][0] >= time - self.oldest)
                    if fits or self.how == "left":
                        over.append((time, row, known[place][1] if fits else None))
                if count == len(entries):
                    del self.waiting[key]
                else:
                    self.waiting[key] = entries[count:]
                if known:
                    passed[key] = known
            if count < len(entries):
                self.due = min(self.due, entries[count][0])
        for key, known in passed.items():
            self._keep(key, known)
        if over:
            over.sort(key=_TIME)
            schema = self.output.schema.arrow
            fields, width = list(schema), len(over[0][1])
            columns = arrays_of([row for _, row, _ in over], fields[:width])
            columns += arrays_of([row for _, _, row in over], fields[width:])
            times = np.array([time for time, *_ in over], np.int64)
            self.output.emit_timed(pa.RecordBatch.from_arrays(columns, schema=schema), Times(times))


def _merged(held: tuple[Entry, ...], new: Sequence[Entry]) -> tuple[Entry, ...]:
    """Both in the order of their times; of equal times in that in which they came."""
    return tuple(sorted((*held, *new), key=_TIME))

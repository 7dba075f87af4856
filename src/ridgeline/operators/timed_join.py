"""Joins of two streams by their times: in one window, near to each other, or the newest one before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, Schema, State, metric
from ridgeline.api.cells.cell import Declaration
from ridgeline.api.context import OperatorContext
from ridgeline.api.points import OutputPoint
from ridgeline.api.support.duration import Duration, parse_duration
from ridgeline.api.times import EARLIEST, LATEST, Microseconds, Times
from ridgeline.operators._divided import SWEEPS, DividedOperator, refuse_strays, row_keys
from ridgeline.operators._exact import Index
from ridgeline.operators._joined import On, fitted, left_columns, others, pair_schema, right_columns
from ridgeline.operators._row_blocks import (
    Block,
    Blocks,
    Name,
    Sorted,
    blocks_state,
    count_of,
    decoded,
    merged,
)
from ridgeline.operators._vectors import Mask, filtered
from ridgeline.operators.windows import Sliding
from ridgeline.operators.windows.columns import NEVER

_MOST_PAIRS = 1 << 18
"""The most results that are made at once."""


class Met(NamedTuple):
    """A block that is held, and for each record of a batch which of its records meet it.

    Those at the places `first` to `last`, exclusively, of `held.sorted`; for each record of the batch in the
    order in which these came.
    """

    name: Name
    held: Block
    first: Index
    last: Index


class TimedJoin(DividedOperator):
    """The base of joins of two streams by key and record times."""

    shaped_by = "on"
    state_depends_on: ClassVar[Sequence[str]] = ("left", "right", "on")

    left = InputPort(Any)
    right = InputPort(Any)
    output = OutputPort(Any)
    late_left = OutputPort(Any, late=True, optional=True)
    late_right = OutputPort(Any, late=True, optional=True)

    on: On
    how: Literal["inner", "left", "full", "anti"] = Field(default="inner", kw_only=True)
    suffix: str = Field(default="_right", kw_only=True)

    left_rows = KeyedState(bytes)
    """The records of `left` that are held, in blocks (see `Blocks`)."""
    right_rows = KeyedState(bytes)
    sweep_at = State(NEVER, moves="least")
    """When records whose time is over are looked for next."""

    @classmethod
    def keys_of(cls, given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """`on`, of each side."""
        return {"left": left_columns(given.get("on")), "right": right_columns(given.get("on"))}

    @classmethod
    def states_of(cls, keys: Mapping[str, Sequence[str]]) -> dict[str, Declaration]:
        """The records of both sides, divided by their keys."""
        return {f"{side}_rows": blocks_state(keys[side]) for side in ("left", "right")}

    @metric(help="Records that are held.")
    def held_records(self) -> int:
        """The number of records of both sides that are held."""
        return count_of(self.left_rows) + count_of(self.right_rows)

    def setup(self, context: OperatorContext) -> None:
        """Take the blocks of both sides."""
        self.sides = (
            Blocks(self, "left_rows", left_columns(self.on)),
            Blocks(self, "right_rows", right_columns(self.on)),
        )

    def needs_times(self) -> str:
        """To know which records meet."""
        return "joins records"

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of both sides. Raises SchemaError for what a stream does not have."""
        super().derived_schema(port, inputs)
        if not {"left", "right"} <= inputs.keys():
            return None
        if port.startswith("late_"):
            return inputs[port.removeprefix("late_")].type
        return pair_schema(inputs["left"], inputs["right"], self.on, self.how, self.suffix)

    @left.process_batch
    def take_left(self, batch: pa.RecordBatch) -> None:
        """Join the records of a batch of `left`."""
        self._take(batch, left_columns(self.on), self.late_left, is_left=True)

    @right.process_batch
    def take_right(self, batch: pa.RecordBatch) -> None:
        """Join the records of a batch of `right`."""
        self._take(batch, right_columns(self.on), self.late_right, is_left=False)

    def _take(self, batch: pa.RecordBatch, names: Sequence[str], late: OutputPoint, *, is_left: bool) -> None:
        """Join the records of a batch of one side that are not late. `names`: the columns of its key."""
        batch, times = self.on_time(batch, late, "joins records")
        if not len(batch):
            return
        block = Block(self._held_columns(batch, is_left=is_left), times, names)
        if self.context.partitions > 1:
            refuse_strays(self, block.hashes, lambda row: row_keys(batch.slice(row, 1), names)[1][0])
        self._join(batch, block, is_left=is_left)

    def _join(self, batch: pa.RecordBatch, block: Block, *, is_left: bool) -> None:
        """Join the records of a batch. `block`: those of its columns that are held."""
        raise NotImplementedError

    def _held_columns(self, batch: pa.RecordBatch, *, is_left: bool) -> pa.RecordBatch:
        """The columns that are held: all of `left`; of `right` only its key where no other is emitted."""
        anti = self.how == "anti" and not is_left
        return decoded(batch, right_columns(self.on) if anti else batch.schema.names)


class PairJoin(TimedJoin):
    """Join two streams by key; subclasses say which times meet, and how long a record may meet others."""

    state_depends_on: ClassVar[Sequence[str]] = (*TimedJoin.state_depends_on, "how")

    @property
    def outer(self) -> tuple[bool, bool]:
        """Whether records of each side are emitted that meet none."""
        return self.how != "inner", self.how == "full"

    # What subclasses say ------------------------------------------------------------------------------------

    def spans(self, times: Microseconds) -> tuple[Microseconds, Microseconds]:
        """For each record the first and the last time that it meets."""
        raise NotImplementedError

    def ends(self, times: Microseconds) -> Microseconds:
        """When no record can meet these any more, by the watermark."""
        raise NotImplementedError

    def over_before(self, watermark: int) -> int:
        """Records before this time are over, by the watermark."""
        raise NotImplementedError

    @property
    def pause(self) -> int:
        """How much later, by the watermark, records whose time is over are looked for again."""
        return 1

    def _join(self, batch: pa.RecordBatch, block: Block, *, is_left: bool) -> None:
        """Join the records of a batch of one side with those of the other that are held, and hold them."""
        met = self._meet(block, is_left=is_left)
        if met:
            counts = np.sum([one.last - one.first for one in met], axis=0)
            if self.how != "anti":
                self._emit_pairs(batch, block.times, counts, met, is_left=is_left)
            block.met = counts > 0
        self._hold(block, is_left=is_left)

    def _meet(self, block: Block, *, is_left: bool) -> list[Met]:
        """Find the records of the other side that those of a block meet, and note that they have met one."""
        found = []
        low, high = self.spans(block.times)
        first_time, last_time = int(low.min()), int(high.max())
        for name, held in self.sides[is_left].all():
            if held.newest < first_time or held.oldest > last_time:
                continue
            rows = block.sorted.rows
            first, last = held.find(block.sorted, low[rows], high[rows])
            if not (last > first).any():
                continue
            if self.outer[is_left]:
                self.sides[is_left].mark(name, held, _covered(held.sorted, first, last))
            every = np.zeros((2, len(block)), np.int64)
            every[:, rows] = first, last
            found.append(Met(name, held, *every))
        return found

    def _hold(self, block: Block, *, is_left: bool) -> None:
        """Hold the records of a block; those that can meet none only if they are emitted alone."""
        if len(block.sorted.rows) < len(block) and not self.outer[not is_left]:
            block = block.with_keys()
        if len(block):
            self.sides[not is_left].add(block)
            self.sweep_at = min(self.sweep_at, int(self.ends(np.array([block.oldest]))[0]))

    def _emit_pairs(
        self, batch: pa.RecordBatch, times: Microseconds, counts: Index, met: Sequence[Met], *, is_left: bool
    ) -> None:
        """Emit records of a batch with those that they meet; a result has the later of both times.

        In the order of the batch, and for each record in the order of the times of what it meets.
        """
        schema = self.output.schema.arrow
        fields, keys = list(schema), right_columns(self.on)
        for begin, end in _portions(counts):
            rows, partners, partner_times = _pairs(met, begin, end)
            mine = batch.take(pa.array(rows))
            newest = np.maximum(times[rows], partner_times)
            right = partners if is_left else mine
            added = [right.column(field.name) for field in others(right.schema, keys)]
            columns = [*(mine if is_left else partners).columns, *added]
            pairs = pa.RecordBatch.from_arrays(fitted(columns, fields), schema=schema)
            self.output.emit_timed(pairs, Times(newest))

    def end_window(self) -> None:
        """Let go of records whose time is over, and emit those that have met none, if asked for."""
        watermark = self.context.watermark_microseconds
        if watermark < self.sweep_at:
            return
        before = NEVER if watermark >= LATEST else self.over_before(watermark)
        alone = []
        for side, wanted in zip(self.sides, self.outer, strict=True):
            over = side.let_go(before)
            alone.append([rest for one in over if wanted and len(rest := one.chosen(~one.met))])
        left = [time for side in self.sides if (time := side.next_time()) is not None]
        due = int(self.ends(np.array([min(left)]))[0]) if left else NEVER
        self.sweep_at = max(due, watermark + self.pause) if left else NEVER
        if any(alone):
            self._emit_alone(*[merged(blocks) if blocks else None for blocks in alone])

    def _emit_alone(self, left: Block | None, right: Block | None) -> None:
        """Emit records that have met none, in the order of their times; of one time those of `left` first."""
        schema = self.output.schema.arrow
        fields, batches, times = list(schema), [], []
        for block in (left, right):
            if block is None:
                continue
            times.append(block.times)
            # for each field of the results the column that has its values, if there is one
            names: list[str | None] = list(block.batch.schema.names)
            if block is right:
                places = dict(zip(left_columns(self.on), right_columns(self.on), strict=True))
                added = [field.name for field in others(block.batch.schema, right_columns(self.on))]
                names = [*(places.get(field.name) for field in fields[: len(fields) - len(added)]), *added]
            columns = [
                pa.nulls(len(block), field.type) if name is None else block.batch.column(name)
                for field, name in zip_longest(fields, names)
            ]
            batches.append(pa.RecordBatch.from_arrays(fitted(columns, fields), schema=schema))
        every = np.concatenate(times)
        order = np.argsort(every, kind="stable")
        self.output.emit_timed(pa.concat_batches(batches).take(pa.array(order)), Times(every[order]))


def _covered(own: Sorted, first: Index, last: Index) -> Index:
    """The rows of a block that lie in one of some ranges of places."""
    edges = np.zeros(len(own.rows) + 1, np.int64)
    np.add.at(edges, first, 1)
    np.add.at(edges, last, -1)
    return own.rows[np.cumsum(edges)[:-1] > 0]


def _portions(counts: Index) -> Iterator[tuple[int, int]]:
    """Ranges of records that have not too many results together."""
    ends = np.cumsum(counts)
    begin, done = 0, 0
    while done < ends[-1]:
        end = max(begin + 1, int(np.searchsorted(ends, done + _MOST_PAIRS, side="right")))
        if ends[end - 1] > done:
            yield begin, end
        begin, done = end, int(ends[end - 1])


def _pairs(met: Sequence[Met], begin: int, end: int) -> tuple[Index, pa.RecordBatch, Microseconds]:
    """The results of a range of records: their numbers, what they meet, and the times of that."""
    rows, partners, times = [], [], []
    for _, held, first, last in met:
        counts = last[begin:end] - first[begin:end]
        own = np.repeat(np.arange(begin, end), counts)
        if len(own):
            offsets = np.arange(len(own)) - np.repeat(np.cumsum(counts) - counts, counts)
            places = held.sorted.rows[first[own] + offsets]
            rows.append(own)
            partners.append(held.batch.take(pa.array(places)))
            times.append(held.times[places])
    if len(rows) == 1:
        return rows[0], partners[0], times[0]
    every, every_time = np.concatenate(rows), np.concatenate(times)
    order = np.lexsort((every_time, every))
    return every[order], pa.concat_batches(partners).take(pa.array(order)), every_time[order]


class WindowJoin(PairJoin):
    """Join two streams: records of one key that are in the same tumbling window of record time.

    As `WithinJoin`, but for when records meet. `windows`: `tumbling("1m")`, also with a zone. A pair comes as
    soon as both are there. A record that meets none comes once the watermark has passed the end of its
    window. It is late if its window had ended when its streaming window began.

    State: each record, until the watermark has passed the end of its window. It may be held until half of
    those that came with it are over. Results may be older than the watermark by the length of a window; the
    watermark that is passed on allows for it.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import WindowJoin, tumbling
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Bid = NamedTuple("Bid", [("symbol", str), ("bid", float), ("time", datetime)])
        >>> Ask = NamedTuple("Ask", [("symbol", str), ("ask", float), ("time", datetime)])
        >>> def at(minute, second):
        ...     return datetime(2026, 1, 1, 12, minute, second, tzinfo=UTC)
        >>> bids = ListInput(Bid, [("A", 1.0, at(0, 59)), ("A", 2.0, at(1, 0))], "time", lateness="5s")
        >>> asks = ListInput(Ask, [("A", 3.0, at(1, 58))], "time", lateness="5s")
        >>> app = Application("quotes")
        >>> bids, asks = app.add_operator("bids", bids), app.add_operator("asks", asks)
        >>> join = app.add_operator("join", WindowJoin("symbol", tumbling("1m")))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("bids", bids.output, join.left)
        >>> app.add_stream("asks", asks.output, join.right)
        >>> app.add_stream("pairs", join.output, sink.input)
        >>> [(row["bid"], row["ask"]) for row in run_local(app).collected("sink")]
        [(2.0, 3.0)]
    """

    state_depends_on = (*PairJoin.state_depends_on, "windows")

    windows: Sliding

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, and windows that overlap."""
        faults = super().property_faults()
        if self.windows.slide != self.windows.size:
            faults.append(("windows", self.windows, "must be tumbling"))
        return faults

    def setup(self, context: OperatorContext) -> None:
        """Results may be as old as a window is long."""
        super().setup(context)
        context.watermark_delay = self.windows.longest

    def spans(self, times: Microseconds) -> tuple[Microseconds, Microseconds]:
        """All of each record's window."""
        starts = self.windows.last_starts(times)
        return starts, self.windows.ends(starts) - 1

    def ends(self, times: Microseconds) -> Microseconds:
        """The end of each record's window."""
        return self.windows.ends(self.windows.last_starts(times))

    def over_before(self, watermark: int) -> int:
        """Those before the window in which the watermark is."""
        return int(self.windows.last_starts(np.array([watermark]))[0])

    def is_late(self, times: Microseconds, watermark: int) -> npt.NDArray[np.bool_]:
        """Those whose window has ended."""
        return self.ends(times) <= watermark


class WithinJoin(PairJoin):
    """Join two streams: records of one key whose times are at most `within` apart.

    Inputs: `left` and `right`, streams with record times. Output: for each pair the columns of `left`, then
    those of `right` without its key; a name that both have gets the `suffix`. A pair comes as soon as both
    are there, and has the later of their times.

    `on`: a column that both sides have, several, or a mapping such as `{"id": "order"}` from columns of
    `left` to those of `right`. A key with a null in it equals no other. `how` is "inner" for the pairs only.
    It is "left" for each record of `left` that meets none too, with nulls. It is "full" for those of `right`
    as well, and "anti" for only the records of `left` that meet none. A record that meets none has its own
    time. It comes once the watermark is `within` past it, at most an eighth of `within` later.

    A record is late if it is older than the watermark was when its streaming window began. Late records, and
    those without a time, are counted and go to the error ports `late_left` and `late_right`. Raises
    RidgelineError for streams without record times.

    State: each record, until the watermark is `within` past it, at most an eighth later. It may be held until
    half of those that came with it are over. The metric `held_records` says how many are. A stream that
    stands still holds the watermark back, and so the records of the other: declare `idle_after` at its input.

    Partitions: by `on`, the same on both sides. Round robin is refused with RidgelineError: a record would
    not meet its partners.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import WithinJoin
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> View = NamedTuple("View", [("user", str), ("page", str), ("time", datetime)])
        >>> Order = NamedTuple("Order", [("user", str), ("cents", int), ("time", datetime)])
        >>> def at(minute):
        ...     return datetime(2026, 1, 1, 12, minute, tzinfo=UTC)
        >>> views = [("ann", "/a", at(0)), ("ann", "/b", at(9)), ("bob", "/a", at(9))]
        >>> app = Application("orders")
        >>> views = app.add_operator("views", ListInput(View, views, "time", lateness="1m"))
        >>> orders = [("ann", 5, at(12)), ("cyd", 7, at(12))]
        >>> orders = app.add_operator("orders", ListInput(Order, orders, "time", lateness="1m"))
        >>> join = app.add_operator("join", WithinJoin("user", "10m", how="left"))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("views", views.output, join.left)
        >>> app.add_stream("orders", orders.output, join.right)
        >>> app.add_stream("pairs", join.output, sink.input)
        >>> for row in run_local(app).collected("sink"):
        ...     print(row["user"], row["page"], row["cents"])
        ann /b 5
        ann /a None
        bob /a None
    """

    within: Duration

    def setup(self, context: OperatorContext) -> None:
        """Records that meet none are emitted when the watermark has passed them by that much."""
        super().setup(context)
        self.width = round(parse_duration(self.within) * 1_000_000)
        if any(self.outer):
            context.watermark_delay = self.width + self.pause

    @property
    def pause(self) -> int:
        """An eighth of `within`."""
        return max(1, self.width // SWEEPS)

    def spans(self, times: Microseconds) -> tuple[Microseconds, Microseconds]:
        """From `within` before to `within` after each record."""
        return times - self.width, times + self.width

    def ends(self, times: Microseconds) -> Microseconds:
        """Once the watermark is more than `within` past them."""
        return times + self.width + 1

    def over_before(self, watermark: int) -> int:
        """Those that the watermark has passed by more than `within`."""
        return watermark - self.width


class AsOfJoin(TimedJoin):
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
    watermark and one before; with `within` none that is older than it. At most as many again are let go of
    later, many at once. The metric `held_records` says how many there are.

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

    within: Duration | None = None
    how: Literal["left", "inner"] = Field(default="left", kw_only=True)

    due = State(NEVER, moves="least")
    """The time of the oldest record of `left` that waits."""

    def setup(self, context: OperatorContext) -> None:
        """Read the durations.

        Of `left` the records are held that the watermark has not passed, of `right` those that may still be
        the newest of one of them.
        """
        super().setup(context)
        self.waiting, self.known = self.sides
        self.oldest = None if self.within is None else round(parse_duration(self.within) * 1_000_000)

    def _join(self, batch: pa.RecordBatch, block: Block, *, is_left: bool) -> None:
        """Let records of `left` wait for the watermark; keep those of `right`."""
        if not is_left or self.how == "inner":
            block = block.with_keys()
        if not len(block):
            return
        self.sides[not is_left].add(block)
        if is_left:
            self.due = min(self.due, block.oldest)
        elif self.oldest is not None:
            self.sweep_at = min(self.sweep_at, block.oldest + self.oldest + 1)

    def end_window(self) -> None:
        """Emit the records of `left` that the watermark has passed."""
        watermark = self.context.watermark_microseconds
        if watermark > self.due:
            over = self.waiting.let_go(watermark)
            due = self.waiting.next_time()
            self.due = NEVER if due is None else due
            if over:
                self._emit(merged(over))
        self._forget(min(watermark, self.due))

    def _emit(self, block: Block) -> None:
        """Emit records of `left`, in the order of their times; of equal times as they came."""
        order = np.argsort(block.times, kind="stable")
        block = Block(block.batch.take(pa.array(order)), block.times[order], block.names)
        rows = block.sorted.rows
        times = block.times[rows]
        low = np.full(len(times), EARLIEST) if self.oldest is None else times - self.oldest
        # for each record the number of the block with its partner, the place there, and the partner's time
        best = np.full((3, len(block)), -1, np.int64)
        best[2] = -NEVER
        blocks = [held for _, held in self.known.all()]
        for number, held in enumerate(blocks):
            first, last = held.find(block.sorted, low, times)
            there = last > first
            places = held.sorted.rows[last[there] - 1]
            found, own = held.times[places], rows[there]
            newer = found >= best[2, own]  # of equal times that of the later block
            best[0, own[newer]] = number
            best[1:, own[newer]] = np.stack([places[newer], found[newer]])
        self._emit_pairs(block, blocks, best[0], best[1])

    def _emit_pairs(self, block: Block, blocks: Sequence[Block], numbers: Index, places: Index) -> None:
        """Emit records with their partners: each in a block of a number, -1 for none, at a place."""
        batch, times = block.batch, block.times
        if self.how == "inner":
            there = numbers >= 0
            batch, times, numbers, places = (
                filtered(batch, there),
                times[there],
                numbers[there],
                places[there],
            )
        if not len(times):
            return
        schema = self.output.schema.arrow
        fields = list(schema)
        partners, where, count = [], np.full(len(times), -1, np.int64), 0
        for number in np.unique(numbers[numbers >= 0]).tolist():
            own = np.flatnonzero(numbers == number)
            partners.append(blocks[number].batch.take(pa.array(places[own])))
            where[own] = np.arange(count, count + len(own))
            count += len(own)
        if partners:
            found = pa.concat_batches(partners).take(pa.array(where, mask=where < 0))
            keys = right_columns(self.on)
            added = [found.column(field.name) for field in others(found.schema, keys)]
        else:
            added = [pa.nulls(len(times), field.type) for field in fields[batch.num_columns :]]
        results = pa.RecordBatch.from_arrays(fitted([*batch.columns, *added], fields), schema=schema)
        self.output.emit_timed(results, Times(times))

    def _forget(self, watermark: int) -> None:
        """Forget the records of `right` that no record of `left` can meet any more.

        `watermark`: no record of `left` is before it. In an application window those may still wait that the
        watermark itself has passed.
        """
        too_old = self.oldest is not None and watermark >= self.sweep_at
        for name, held in list(self.known.all()):
            if too_old or (held.newest <= watermark and not held.settled):
                held.settled = held.newest <= watermark
                self.known.keep(name, held, self._useful(held, watermark))
        if too_old and self.oldest is not None:
            due = self.known.next_time()
            self.sweep_at = NEVER
            if due is not None:
                after = watermark + max(1, self.oldest // SWEEPS)
                self.sweep_at = max(due + self.oldest + 1, after)

    def _useful(self, held: Block, watermark: int) -> Mask:
        """Which records may still be the newest of one of `left`: those since the watermark, and one."""
        own = held.sorted
        times, useful = held.times[own.rows], np.zeros(len(held), np.bool_)
        last = np.ones(len(times), np.bool_)
        last[:-1] = (own.groups[1:] != own.groups[:-1]) | (times[1:] > watermark)
        if self.oldest is not None:
            last &= times >= watermark - self.oldest
        useful[own.rows[last]] = True
        return useful

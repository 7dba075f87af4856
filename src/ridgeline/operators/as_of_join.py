"""Join of each record with the newest one of another stream that is not later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, Schema, State, metric
from ridgeline.api.cells.cell import Declaration
from ridgeline.api.context import OperatorContext
from ridgeline.api.points import OutputPoint
from ridgeline.api.support.duration import Duration, parse_duration
from ridgeline.api.times import EARLIEST, Times
from ridgeline.operators._divided import DividedOperator, row_keys
from ridgeline.operators._joined import On, fitted, left_columns, others, pair_schema, right_columns
from ridgeline.operators._row_blocks import (
    Block,
    Blocks,
    Mask,
    blocks_state,
    count_of,
    decoded,
    merged,
    one_batch,
)
from ridgeline.operators._window_parts import filtered
from ridgeline.operators.key_value import Index, refuse_strays

_NEVER = np.iinfo(np.int64).max
_SWEEPS = 8


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

    shaped_by = "on"
    state_depends_on = ("left", "right", "on")

    left = InputPort(Any)
    right = InputPort(Any)
    output = OutputPort(Any)
    late_left = OutputPort(Any, late=True, optional=True)
    late_right = OutputPort(Any, late=True, optional=True)

    on: On
    within: Duration | None = None
    how: Literal["left", "inner"] = Field(default="left", kw_only=True)
    suffix: str = Field(default="_right", kw_only=True)

    left_rows = KeyedState(bytes)
    """The records of `left` that the watermark has not passed, in blocks (see `Blocks`)."""
    right_rows = KeyedState(bytes)
    """The records of `right` that may still be the newest of one of `left`."""
    due = State(_NEVER, moves="least")
    """The time of the oldest record of `left` that waits."""
    sweep_at = State(_NEVER, moves="least")
    """When records of `right` that are too old are looked for next."""

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

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of both sides. Raises SchemaError for what a stream does not have."""
        super().derived_schema(port, inputs)
        return pair_schema(port, inputs, self.on, self.how, self.suffix)

    def needs_times(self) -> str:
        """To find the newest record."""
        return "joins records"

    def setup(self, context: OperatorContext) -> None:
        """Read the durations, and take the blocks of both sides."""
        self.oldest = None if self.within is None else round(parse_duration(self.within) * 1_000_000)
        self.waiting = Blocks(self, "left_rows", left_columns(self.on))
        self.known = Blocks(self, "right_rows", right_columns(self.on))

    @left.process_batch
    def take_left(self, batch: pa.RecordBatch) -> None:
        """Let the records of a batch wait for the watermark."""
        block = self._taken(batch, left_columns(self.on), self.late_left)
        if self.how == "inner":
            block = _with_keys(block)
        if len(block):
            self.waiting.add(block)
            self.due = min(self.due, block.oldest)

    @right.process_batch
    def take_right(self, batch: pa.RecordBatch) -> None:
        """Keep the records of a batch, of which records of `left` may be."""
        block = _with_keys(self._taken(batch, right_columns(self.on), self.late_right))
        if len(block):
            self.known.add(block)
            if self.oldest is not None:
                self.sweep_at = min(self.sweep_at, block.oldest + self.oldest + 1)

    def _taken(self, batch: pa.RecordBatch, names: Sequence[str], late: OutputPoint) -> Block:
        """The records of a batch; late ones are emitted on `late`. `names`: the columns of the key."""
        batch, times = self.on_time(batch, late, "joins records")
        block = Block(decoded(batch, batch.schema.names), times, names)
        if self.context.partitions > 1:
            refuse_strays(self, block.hashes, lambda row: row_keys(batch.slice(row, 1), names)[1][0])
        return block

    def end_window(self) -> None:
        """Emit the records of `left` that the watermark has passed."""
        watermark = self.context.watermark_microseconds
        if watermark > self.due:
            over = self.waiting.let_go(watermark)
            due = self.waiting.next_time()
            self.due = _NEVER if due is None else due
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
        best[2] = -_NEVER
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
            found = one_batch(partners).take(pa.array(where, mask=where < 0))
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
            self.sweep_at = _NEVER
            if due is not None:
                after = watermark + max(1, self.oldest // _SWEEPS)
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


def _with_keys(block: Block) -> Block:
    """The records whose keys have no null."""
    there = np.zeros(len(block), np.bool_)
    there[block.sorted.rows] = True
    return block.chosen(there)

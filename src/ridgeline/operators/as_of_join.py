"""Join of each record with the newest one of another stream that is not later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import State
from ridgeline.api.context import OperatorContext
from ridgeline.api.support.duration import Duration, parse_duration
from ridgeline.api.times import EARLIEST, Times
from ridgeline.operators._divided import SWEEPS
from ridgeline.operators._exact import Index
from ridgeline.operators._joined import fitted, others, right_columns
from ridgeline.operators._pair_join import TimedJoin
from ridgeline.operators._row_blocks import Block, merged
from ridgeline.operators._window_parts import Mask, filtered
from ridgeline.operators.windows.kind import NEVER


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

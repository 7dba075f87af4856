"""The bases of joins of two streams by their times, and of those whose records meet if their times do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, Schema, State, metric
from ridgeline.api.cells.cell import Declaration
from ridgeline.api.context import OperatorContext
from ridgeline.api.points import OutputPoint
from ridgeline.api.times import LATEST, Microseconds, Times
from ridgeline.operators._divided import DividedOperator, row_keys
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
from ridgeline.operators.key_value import refuse_strays
from ridgeline.operators.windows.kind import NEVER

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

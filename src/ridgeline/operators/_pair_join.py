"""The base of joins of two streams whose records meet if their times do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, Schema, State, metric
from ridgeline.api.points import OutputPoint
from ridgeline.api.times import EARLIEST, LATEST, Microseconds, Times
from ridgeline.operators._divided import DividedOperator, row_keys
from ridgeline.operators._joined import (
    On,
    Row,
    arrays_of,
    as_stored,
    has_null,
    left_columns,
    others,
    pair_schema,
    right_columns,
    rows_of,
)
from ridgeline.operators._window_parts import filtered
from ridgeline.operators.key_value import Index

_NEVER = np.iinfo(np.int64).max
_LAST = LATEST - 366 * 86_400_000_000
Entry = tuple[int, bool, Row]
"""A record that is held: its time in microseconds since 1970, whether it has met one, its columns."""


class Held(NamedTuple):
    """Records that are held, and may meet some of a batch.

    `entries`: those of one group of the batch after the other. `counts`: how many each group has. `names`:
    the entries of the state that they are from, each with how many it has.
    """

    entries: list[Entry]
    counts: list[int]
    names: list[tuple[Row, int]]


class PairJoin(DividedOperator):
    """Join two streams by key; subclasses say which times meet, and how long a record may meet others."""

    wants_outer: ClassVar[Mapping[str, tuple[bool, bool]]] = {
        "inner": (False, False),
        "left": (True, False),
        "full": (True, True),
        "anti": (True, False),
    }
    """By `how`, whether records of each side are emitted that meet none."""

    left = InputPort(Any)
    right = InputPort(Any)
    output = OutputPort(Any)
    late_left = OutputPort(Any, late=True, optional=True)
    late_right = OutputPort(Any, late=True, optional=True)

    on: On
    how: Literal["inner", "left", "full", "anti"] = Field(default="inner", kw_only=True)
    suffix: str = Field(default="_right", kw_only=True)

    held_left = KeyedState(tuple, moves_by=lambda name: name[1:])
    """By (slice of time, *key) the records that are held, the oldest first."""
    held_right = KeyedState(tuple, moves_by=lambda name: name[1:])
    held_count = State(0, moves="sum")
    """How many records are held."""
    sweep_at = State(_NEVER, moves="least")
    """When records whose time is over are looked for next."""

    # What subclasses say ------------------------------------------------------------------------------------

    def slices(self, times: Microseconds) -> Microseconds:
        """The slice of time that each record is held in."""
        raise NotImplementedError

    def near(self, begin: int) -> Sequence[int]:
        """The slices of time in which records of this one may find partners, the oldest first."""
        raise NotImplementedError

    def spans(self, times: Microseconds) -> tuple[Microseconds, Microseconds]:
        """For each record the first and the last time that it meets."""
        raise NotImplementedError

    def ends(self, times: Microseconds) -> Microseconds:
        """When no record can meet these any more, by the watermark."""
        raise NotImplementedError

    def slice_ends(self, begin: int) -> tuple[int, int]:
        """The first and the last end that records in a slice of time may have."""
        raise NotImplementedError

    def is_late(self, times: Microseconds, watermark: int) -> npt.NDArray[np.bool_]:
        """Which records came too late, by the watermark of the window before."""
        raise NotImplementedError

    @property
    def pause(self) -> int:
        """How much later, by the watermark, records whose time is over are looked for again."""
        return 1

    @classmethod
    def keys_of(cls, given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """`on`, of each side."""
        return {"left": left_columns(given.get("on")), "right": right_columns(given.get("on"))}

    @metric(help="Records that are held.")
    def held_records(self) -> int:
        """The number of records of both sides that are held."""
        return self.held_count

    def needs_times(self) -> str:
        """To know which records meet."""
        return "joins records"

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of both sides. Raises SchemaError for what a stream does not have."""
        super().derived_schema(port, inputs)
        return pair_schema(port, inputs, self.on, self.how, self.suffix)

    @left.process_batch
    def take_left(self, batch: pa.RecordBatch) -> None:
        """Join the records of a batch of `left` with those of `right` that are held."""
        self._take(batch, left_columns(self.on), self.late_left, is_left=True)

    @right.process_batch
    def take_right(self, batch: pa.RecordBatch) -> None:
        """Join the records of a batch of `right` with those of `left` that are held."""
        self._take(batch, right_columns(self.on), self.late_right, is_left=False)

    def _take(self, batch: pa.RecordBatch, names: Sequence[str], late: OutputPoint, *, is_left: bool) -> None:
        """Join the records of a batch of one side, hold them, and emit late ones on `late`.

        `names`: the columns of its key.
        """
        times = self.record_times(batch, "joins records")
        there = (times >= EARLIEST) & (times < _LAST)
        there &= ~self.is_late(np.where(there, times, EARLIEST), self.context.watermark_microseconds)
        if not there.all():
            late.emit_batch(filtered(batch, ~there), rows=~there)
            batch, times = filtered(batch, there), times[there]
        if not len(batch):
            return
        self.refuse_strays(batch, names)
        codes, keys = row_keys(batch, names)
        slices = self.slices(times)
        order = np.lexsort((times, slices, codes))
        begins = np.append(
            0, np.flatnonzero((np.diff(codes[order]) != 0) | (np.diff(slices[order]) != 0)) + 1
        )
        firsts = order[begins]
        found = [
            (slice_, keys[code])
            for slice_, code in zip(slices[firsts].tolist(), codes[firsts].tolist(), strict=True)
        ]
        groups = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(order))))
        met = self._meet(
            batch, times, order, groups, self._candidates(found, is_left=is_left), is_left=is_left
        )
        self._hold(batch, times, order, np.append(begins, len(order)), found, met, is_left=is_left)

    def _candidates(self, groups: Sequence[tuple[int, Any]], *, is_left: bool) -> Held:
        """Find the records of the other side that may meet those of each group: (slice of time, key)."""
        other, near = self.held_right if is_left else self.held_left, self.near
        held = Held([], [], [])
        for begin, key in groups:
            before = len(held.entries)
            if not has_null(key):
                name = key if isinstance(key, tuple) else (key,)
                for beside in near(begin):
                    entries = other.get((beside, *name))
                    if entries:
                        held.entries.extend(entries)
                        held.names.append(((beside, *name), len(entries)))
            held.counts.append(len(held.entries) - before)
        return held

    def _meet(
        self,
        batch: pa.RecordBatch,
        times: Microseconds,
        order: Index,
        groups: Index,
        held: Held,
        *,
        is_left: bool,
    ) -> npt.NDArray[np.bool_]:
        """Emit the records of a batch with those that they meet; returns which have met one, in `order`.

        `groups`: of each record in `order`, the number of its group.
        """
        count = len(held.entries)
        if not count:
            return np.zeros(len(order), np.bool_)
        theirs = np.fromiter(map(itemgetter(0), held.entries), np.int64, count)
        of_group = np.repeat(np.arange(len(held.counts)), held.counts)
        low, high = self.spans(times[order])
        # all points of time in one order: a record meets those between its first and its last one
        every = np.concatenate([theirs, low, high])
        side = np.repeat([1, 0, 2], [count, len(order), len(order)])
        placed = np.lexsort((side, every, np.concatenate([of_group, groups, groups])))
        before = np.empty(len(every), np.int64)
        before[placed] = np.cumsum(side[placed] == 1)
        sorted_held = placed[side[placed] == 1]
        first, last = before[count : count + len(order)], before[count + len(order) :]
        counts = last - first
        if self.how != "anti" and counts.any():
            own = np.repeat(np.arange(len(order)), counts)
            offsets = np.arange(len(own)) - np.repeat(np.cumsum(counts) - counts, counts)
            places = sorted_held[first[own] + offsets]
            partners = [held.entries[place][2] for place in places.tolist()]
            self._emit_pairs(batch, times, order[own], theirs[places], partners, is_left=is_left)
        if self.wants_outer[self.how][1 if is_left else 0] and counts.any():
            covered = np.zeros(count + 1, np.int64)
            np.add.at(covered, first, 1)
            np.add.at(covered, last, -1)
            met = np.empty(count, np.bool_)
            met[sorted_held] = np.cumsum(covered)[:-1] > 0
            self._mark(held, met, is_left=is_left)
        return counts > 0

    def _mark(self, held: Held, met: npt.NDArray[np.bool_], *, is_left: bool) -> None:
        """Note which of the records that are held have met one."""
        other = self.held_right if is_left else self.held_left
        place = 0
        for name, count in held.names:
            own = met[place : place + count]
            if own.any():
                entries = other[name]  # of another group they may be marked already
                other[name] = tuple(
                    entry if entry[1] or not new else (entry[0], True, entry[2])
                    for new, entry in zip(own.tolist(), entries, strict=True)
                )
            place += count

    def _hold(
        self,
        batch: pa.RecordBatch,
        times: Microseconds,
        order: Index,
        begins: Index,
        groups: Sequence[tuple[int, Any]],
        met: npt.NDArray[np.bool_],
        *,
        is_left: bool,
    ) -> None:
        """Hold the records of a batch. `begins`: of each group in `order`; `met`: in `order`."""
        names = batch.schema.names
        if not is_left:
            names = [name for name in names if name not in right_columns(self.on) and self.how != "anti"]
        rows = rows_of(batch, names)
        entries: list[Entry] = [
            (time, flag, rows[row])
            for time, flag, row in zip(times[order].tolist(), met.tolist(), order.tolist(), strict=True)
        ]
        alone = self.wants_outer[self.how][0 if is_left else 1]
        state, count = self.held_left if is_left else self.held_right, 0
        for (begin, key), first, last in zip(groups, begins[:-1].tolist(), begins[1:].tolist(), strict=True):
            if not alone and has_null(key):
                continue
            name = (begin, *key) if isinstance(key, tuple) else (begin, key)
            new = entries[first:last]
            before = state.get(name)
            if before is None:
                state[name] = tuple(new)
            elif before[-1][0] <= new[0][0]:
                state[name] = (*before, *new)
            else:
                state[name] = tuple(sorted((*before, *new), key=itemgetter(0)))
            count += len(new)
        if count:
            self.held_count += count
            self.sweep_at = min(self.sweep_at, int(self.ends(times).min()))

    def _emit_pairs(
        self,
        batch: pa.RecordBatch,
        times: Microseconds,
        rows: Index,
        partner_times: Microseconds,
        partners: Sequence[Row],
        *,
        is_left: bool,
    ) -> None:
        """Emit records of a batch with their partners; a result has the later of both times."""
        schema = self.output.schema.arrow
        fields, mine = list(schema), batch.take(pa.array(rows))
        if is_left:
            columns = [*mine.columns, *arrays_of(partners, fields[batch.num_columns :])]
        else:
            own = [mine.column(field.name) for field in others(mine.schema, right_columns(self.on))]
            columns = [*arrays_of(partners, fields[: len(fields) - len(own)]), *own]
        newest = np.maximum(times[rows], partner_times)
        self.output.emit_timed(pa.RecordBatch.from_arrays(columns, schema=schema), Times(newest))

    def end_window(self) -> None:
        """Let go of records whose time is over, and emit those that have met none, if asked for."""
        watermark = self.context.watermark_microseconds
        if watermark < self.sweep_at:
            return
        wants, first_end, gone = self.wants_outer[self.how], _NEVER, 0
        over: list[tuple[int, bool, Row, Row]] = []
        ends: dict[int, tuple[int, int]] = {}
        for state, wanted, is_left in ((self.held_left, wants[0], True), (self.held_right, wants[1], False)):
            for name, entries in list(state.items()):
                first, last = ends.get(name[0]) or ends.setdefault(name[0], self.slice_ends(name[0]))
                count = 0
                if last <= watermark:
                    count = len(entries)
                elif first <= watermark:
                    times = np.fromiter(map(itemgetter(0), entries), np.int64, len(entries))
                    count = int(np.searchsorted(self.ends(times), watermark, side="right"))
                if count < len(entries):
                    first_end = min(first_end, first if not count else watermark + 1)
                if count:
                    gone += count
                    if wanted:
                        alone = [(time, row) for time, met, row in entries[:count] if not met]
                        over += [(time, is_left, name[1:], row) for time, row in alone]
                    if count == len(entries):
                        del state[name]
                    else:
                        state[name] = entries[count:]
        if gone:
            self.held_count -= gone
        self.sweep_at = _NEVER if first_end == _NEVER else max(first_end, watermark + self.pause)
        if over:
            self._emit_alone(sorted(over, key=itemgetter(0)))

    def _emit_alone(self, over: Sequence[tuple[int, bool, Row, Row]]) -> None:
        """Emit records that have met none: (time, of the left side, key, columns) each."""
        schema = self.output.schema.arrow
        if self.how == "anti":
            columns = arrays_of([row for _, _, _, row in over], list(schema))
        else:
            _, is_left, _, row = over[0]
            width = len(row) if is_left else len(schema) - len(row)
            lefts: list[Row | None] = []
            fields = list(schema)
            keys = [schema.get_field_index(name) for name in left_columns(self.on)]
            for _, is_left, key, row in over:
                if is_left:
                    lefts.append(row)
                else:
                    values: list[Any] = [None] * width
                    for place, value in zip(keys, key, strict=True):
                        values[place] = as_stored(value, fields[place].type)
                    lefts.append(tuple(values))
            rights = [None if is_left else row for _, is_left, _, row in over]
            columns = [*arrays_of(lefts, fields[:width]), *arrays_of(rights, fields[width:])]
        times = np.array([time for time, *_ in over], np.int64)
        self.output.emit_timed(pa.RecordBatch.from_arrays(columns, schema=schema), Times(times))

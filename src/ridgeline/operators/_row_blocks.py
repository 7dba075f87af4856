"""Records that a join holds, in columns: blocks of rows that are found by key and time.

A `Block` is a batch of records as they came, with an index that is made when it is first asked for. `Blocks`
keeps those of one side in a keyed state, each as the bytes of an Arrow stream. A few windows write small
blocks, which are merged to larger ones later. So a record is written again only as often as the logarithm of
how many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api import KeyedState, Operator
from ridgeline.api.cells.keyed_declaration import Owns
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.codec import Hashes, hash_columns
from ridgeline.api.columns.arrow_stream import arrow_stream
from ridgeline.api.columns.casting import is_text
from ridgeline.api.times import Microseconds
from ridgeline.operators._exact import Index
from ridgeline.operators._vectors import Mask, distinct, first_rows, numbered

Name = tuple[Any, ...]
"""In state: ("rows", number, count), ("met", number) or ("until",)."""
_ROWS, _MET, _UNTIL = "rows", "met", ("until",)
_SHARE = 3
"""Blocks are merged once the later ones have so many times the records of the first."""
_MOST_ROWS = 1 << 20
"""Blocks of more records are not merged."""
_MOST_BYTES = 1 << 28
"""Nor are those that have more bytes together."""
_TIME = "\0time"
_LARGEST = 1 << 62
_FEW = 1 << 16
_BEFORE_ALL = -(1 << 62)


class Sorted(NamedTuple):
    """The records of a block whose keys have no null, by key and time; of equal times as they came.

    `rows`: their places in the block. `groups`: of each record the number of its key. `hashes` and `keys`: of
    each key, in the order of hashes.
    """

    rows: Index
    groups: Index
    hashes: Hashes
    keys: list[pa.Array]


class Block:
    """Records in the order in which they came.

    `names`: the columns of their key. `met`: which have met one; none if it is left out.
    """

    def __init__(
        self, batch: pa.RecordBatch, times: Microseconds, names: Sequence[str], met: Mask | None = None
    ) -> None:
        self.batch = batch
        self.times = times
        self.names = names
        self.met: Mask = np.zeros(len(times), np.bool_) if met is None else met
        self.settled = False
        """Nothing more goes, unless blocks are merged: for those who keep the newest records."""

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def hashes(self) -> Hashes:
        """The hash of each record's key, as streams are divided by it."""
        return hash_columns(self.batch, self.names)

    @cached_property
    def oldest(self) -> int:
        """The least time."""
        return int(self.times.min())

    @cached_property
    def newest(self) -> int:
        """The greatest time."""
        return int(self.times.max())

    @cached_property
    def sorted(self) -> Sorted:
        """The records by key and time."""
        columns = [self.batch.column(name) for name in self.names]
        there = np.ones(len(self), np.bool_)
        for column in columns:
            if column.null_count:
                there &= column.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(there)
        if not len(rows):
            return Sorted(rows, rows, np.zeros(0, np.uint64), [])
        codes, count = _numbered(columns if there.all() else _taken(columns, rows))
        known = _taken(columns, rows[first_rows(codes, count)])
        hashes = hash_columns(pa.record_batch(known, list(self.names)), self.names)
        order = np.argsort(hashes, kind="stable")
        numbers = np.empty(count, np.int64)
        numbers[order] = np.arange(count)
        groups, times = numbers[codes], self.times[rows]
        if (times[1:] < times[:-1]).any():
            by = np.argsort(times, kind="stable")
            rows, groups = rows[by], groups[by]
        # a stable sort of 16 bits is a radix sort
        by = np.argsort(groups.astype(np.uint16) if count <= _FEW else groups, kind="stable")
        return Sorted(rows[by], groups[by], hashes[order], _taken(known, order))

    @cached_property
    def _places(self) -> tuple[Index, Microseconds | None]:
        """A number for each record of `sorted` that grows with key and time; the times that these count."""
        times, groups = self.times[self.sorted.rows], self.sorted.groups
        span = self.newest - self.oldest + 2
        if span < _LARGEST // (len(self) + 1):
            return groups * span + (times - self.oldest), None
        ordered = np.sort(times)
        return groups * (len(ordered) + 2) + np.searchsorted(ordered, times), ordered

    def find(self, sought: Sorted, low: Microseconds, high: Microseconds) -> tuple[Index, Index]:
        """The records that have the keys of others, and times from `low` to `high`, of each of the others.

        For each of these the places in `sorted.rows` of those that it meets, from the first on, and behind
        the last.
        """
        first, last = np.zeros(len(sought.rows), np.int64), np.zeros(len(sought.rows), np.int64)
        own = self.sorted
        if not len(own.rows) or not len(sought.rows):
            return first, last
        groups = self._groups(sought)[sought.groups]
        rows = np.flatnonzero(groups >= 0)
        groups = groups[rows]
        low, high = low[rows], high[rows]
        numbers, ordered = self._places
        if ordered is None:
            span = self.newest - self.oldest + 2
            begin = np.clip(low, self.oldest, self.oldest + span - 1) - self.oldest
            end = np.clip(high, self.oldest - 1, self.newest) - self.oldest
        else:  # ranks of times, as the times themselves are too far apart
            span = len(ordered) + 2
            begin = np.searchsorted(ordered, low)
            end = np.searchsorted(ordered, high, side="right") - 1
        first[rows] = np.searchsorted(numbers, groups * span + begin)
        last[rows] = np.maximum(np.searchsorted(numbers, groups * span + end, side="right"), first[rows])
        return first, last

    def _groups(self, sought: Sorted) -> Index:
        """For each key of `sought` its number here; -1 for one that is not here."""
        own = self.sorted
        begins = np.searchsorted(own.hashes, sought.hashes)
        ends = np.searchsorted(own.hashes, sought.hashes, side="right")
        found = np.full(len(begins), -1, np.int64)
        for step in range(int((ends - begins).max())):  # several keys may have one hash
            asked = np.flatnonzero((begins + step < ends) & (found < 0))
            places = begins[asked] + step
            same = equal_keys(_taken(own.keys, places), _taken(sought.keys, asked))
            found[asked[same]] = places[same]
        return found

    def with_keys(self) -> Block:
        """The records whose keys have no null."""
        there = np.zeros(len(self), np.bool_)
        there[self.sorted.rows] = True
        return self.chosen(there)

    def chosen(self, mask: Mask) -> Block:
        """The records of a mask."""
        if mask.all():
            return self
        batch = self.batch.filter(pa.array(mask))
        return Block(batch, self.times[mask], self.names, self.met[mask])


def merged(blocks: Sequence[Block]) -> Block:
    """The records of all blocks, those of earlier ones first."""
    if len(blocks) == 1:
        return blocks[0]
    return Block(
        pa.concat_batches([block.batch for block in blocks]),
        np.concatenate([block.times for block in blocks]),
        blocks[0].names,
        np.concatenate([block.met for block in blocks]),
    )


def decoded(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Columns of a batch; dictionary columns as what they stand for."""
    columns = [batch.column(name) for name in names]
    plain = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in columns
    ]
    fields = [
        pa.field(name, column.type, nullable=batch.schema.field(name).nullable)
        for name, column in zip(names, plain, strict=True)
    ]
    return pa.RecordBatch.from_arrays(plain, schema=pa.schema(fields))


# Keys -------------------------------------------------------------------------------------------------------


def _taken(columns: Sequence[pa.Array], rows: Index) -> list[pa.Array]:
    places = pa.array(rows)
    return [column.take(places) for column in columns]


def equal_keys(ones: Sequence[pa.Array], others: Sequence[pa.Array]) -> Mask:
    """Which rows of two sides have equal keys. There are no nulls; all NaN are equal."""
    found: Mask = np.ones(len(ones[0]), np.bool_)
    if not len(found):
        return found  # also of columns of nulls alone, which are not compared
    for one, other in zip(ones, others, strict=True):
        found &= _equal(one, other)
    return found


def _equal(one: pa.Array, other: pa.Array) -> Mask:
    """Which values of two columns are equal, as in Python; all NaN are."""
    if is_text(one.type) != is_text(other.type):  # Arrow would take bytes for text
        return np.zeros(len(one), np.bool_)
    try:
        equal = pc.equal(one, other)
    except pa.ArrowException:  # a value of one has no place in the other's type
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        same = (a == b or (a != a and b != b) for a, b in pairs)  # noqa: PLR0124  two NaN
        return np.fromiter(map(bool, same), np.bool_, len(one))
    if pa.types.is_floating(one.type) and pa.types.is_floating(other.type):
        equal = pc.or_(equal, pc.and_(pc.is_nan(one), pc.is_nan(other)))
    found: Mask = equal.to_numpy(zero_copy_only=False)
    return found


def _numbered(columns: Sequence[pa.Array]) -> tuple[Index, int]:
    """For each row the number of its key, and how many keys there are."""
    codes, count = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        values, index = distinct(column)
        found, codes = numbered(codes * len(values) + index, count * len(values))
        count = len(found)
    return codes, count


# In state ---------------------------------------------------------------------------------------------------


class Blocks:
    """The blocks of one side in a keyed state of an operator.

    `state`: the name of the state. `names`: the columns of the key.
    """

    def __init__(self, operator: Operator, state: str, names: Sequence[str]) -> None:
        self._operator = operator
        self._state = state
        self._names = names
        self._known: dict[Name, tuple[bytes, bytes | None, Block]] = {}

    @property
    def _cell(self) -> KeyedCell[Name, bytes]:
        cell: KeyedCell[Name, bytes] = getattr(self._operator, self._state)
        return cell

    def all(self) -> Iterator[tuple[Name, Block]]:
        """The blocks, those whose records came first before others, with their names."""
        cell = self._cell
        names = sorted(name for name in cell if name[0] == _ROWS)
        for gone in self._known.keys() - set(names):
            del self._known[gone]
        for name in names:
            data, met = cell[name], cell.get((_MET, name[1]))
            known = self._known.get(name)
            if known is None or known[0] is not data or known[1] is not met:
                known = data, met, _block(data, met, self._names)
                self._known[name] = known
            yield name, known[2]

    def add(self, block: Block) -> None:
        """Hold records, and merge blocks if there are many."""
        held = list(self.all())
        number = held[-1][0][1] + 1 if held else 0
        after, much, begin = len(block), block.batch.nbytes, len(held)
        for place in range(len(held) - 1, -1, -1):
            size = len(held[place][1])
            much += held[place][1].batch.nbytes
            if size > _MOST_ROWS or size + after > 2 * _MOST_ROWS or much > _MOST_BYTES:
                break
            if after >= _SHARE * size:
                begin = place
            after += size
        if begin < len(held):
            until = _until(self._cell)
            number = held[begin][0][1]
            rest = [one.chosen(one.times >= until) for _, one in held[begin:]]
            block = merged([*rest, block])
            for name, _ in held[begin:]:
                self._remove(name)
        self._put(number, block)

    def mark(self, name: Name, block: Block, rows: Index) -> None:
        """Note that records of a block have met one."""
        if block.met[rows].all():
            return
        block.met = block.met.copy()
        block.met[rows] = True
        data = np.packbits(block.met).tobytes()
        self._cell[_MET, name[1]] = data
        self._known[name] = self._known[name][0], data, block

    def let_go(self, before: int) -> list[Block]:
        """The records before a time that had not gone; no longer held, or soon."""
        until, found = _until(self._cell), []
        for name, block in list(self.all()):
            if block.oldest >= before:
                continue
            over = block.times < before
            found.append(block.chosen(over & (block.times >= until)))
            self.keep(name, block, ~over)
        if self._cell:
            self._cell[_UNTIL] = before.to_bytes(8, "little", signed=True)
        if all(name == _UNTIL for name in self._cell):
            self._cell.pop(_UNTIL, None)
        return [block for block in found if len(block)]

    def keep(self, name: Name, block: Block, mask: Mask) -> None:
        """Forget the records that are not in a mask, once they are half of the block."""
        left = int(np.count_nonzero(mask))
        if 2 * left <= len(block) and left < len(block):
            self._remove(name)
            if left:
                self._put(name[1], block.chosen(mask))

    def next_time(self) -> int | None:
        """The least time of a record that is held and not over; None without one."""
        until, found = _until(self._cell), []
        for _, block in self.all():
            if block.oldest >= until:
                found.append(block.oldest)
            elif block.newest >= until:
                found.append(int(block.times[block.times >= until].min()))
        return min(found, default=None)

    def _put(self, number: int, block: Block) -> None:
        name, data, met = (_ROWS, number, len(block)), _bytes(block), None
        self._cell[name] = data
        if block.met.any():
            met = self._cell[_MET, number] = np.packbits(block.met).tobytes()
        self._known[name] = data, met, block

    def _remove(self, name: Name) -> None:
        del self._cell[name]
        self._cell.pop((_MET, name[1]), None)
        self._known.pop(name, None)


def blocks_state(names: Sequence[str]) -> KeyedState[Name, bytes]:
    """The declaration of a state for `Blocks`. `names`: the columns of the key."""
    return KeyedState(bytes, moves_to=partial(divide_blocks, tuple(names)))


def count_of(cell: Iterable[Name]) -> int:
    """How many records there are in a state of `Blocks`."""
    return sum(name[2] for name in cell if name[0] == _ROWS)


def _until(cell: Mapping[Name, bytes]) -> int:
    """Records before it are over, and gone or about to go."""
    data = cell.get(_UNTIL)
    return _BEFORE_ALL if data is None else int.from_bytes(data, "little", signed=True)


def _bytes(block: Block) -> bytes:
    """The records of a block and their times, as an Arrow stream."""
    batch = block.batch
    fields = [*batch.schema, pa.field(_TIME, pa.int64())]
    whole = pa.RecordBatch.from_arrays([*batch.columns, pa.array(block.times)], schema=pa.schema(fields))
    return bytes(arrow_stream([whole]).to_pybytes())


def _block(data: bytes, met: bytes | None, names: Sequence[str]) -> Block:
    """The block in state."""
    with pa.ipc.open_stream(data) as stream:
        whole = stream.read_next_batch()
    times = whole.column(_TIME).to_numpy()
    last = whole.num_columns - 1
    batch = pa.RecordBatch.from_arrays(whole.columns[:last], schema=pa.schema(list(whole.schema)[:last]))
    if met is None:
        return Block(batch, times, names)
    return Block(batch, times, names, np.unpackbits(np.frombuffer(met, np.uint8), count=len(times)) != 0)


def divide_blocks(
    names: Sequence[str],
    held: Sequence[Mapping[Name, bytes]],
    owns: Sequence[Owns],
) -> list[dict[Name, bytes]]:
    """The blocks of some partitions for others: each record goes where the tuples with its key go.

    `names`: the columns of the key. `held`: the state of each partition. `owns`: for each partition after,
    which hashes are its own.
    """
    found: list[dict[Name, bytes]] = [{} for _ in owns]
    number = 0
    for cell in held:
        until = _until(cell)
        for name in sorted(name for name in cell if name[0] == _ROWS):
            block = _block(cell[name], cell.get((_MET, name[1])), names)
            block = block.chosen(block.times >= until)
            for target, own in zip(found, owns, strict=True):
                part = block.chosen(own(block.hashes)) if len(block) else block
                if len(part):
                    target[_ROWS, number, len(part)] = _bytes(part)
                    if part.met.any():
                        target[_MET, number] = np.packbits(part.met).tobytes()
            number += 1
    return found

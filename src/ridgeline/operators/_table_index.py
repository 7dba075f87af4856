"""The rows of a table in columns, beside the state that holds them: a batch is joined with them at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.columns.nulls import one
from ridgeline.operators._divided import row_keys
from ridgeline.operators._joined import arrays_of, fitted, has_null
from ridgeline.operators.key_value import Index, last_rows

_MOST_ROWS = 1_000_000
_MOST_BYTES = 1 << 28
"""Larger tables are not held a second time."""
_SPARSE = 4
"""A list of all whole numbers between the least and the greatest key has at most so many for each key."""
_WORTH = 8
"""Tuples joined since the table has changed, times this: from as many as rows on, columns are worth it."""
_BATCHES = 8
"""A table of so many batches is better asked key by key than compared with each of them."""


class _Near(NamedTuple):
    """Places by whole numbers as keys, from the least key on, and one more at the end: -1, for no key."""

    least: int
    places: Index

    def find(self, column: pa.Array) -> Index:
        wanted = column.to_numpy().astype(np.int64, copy=False) - self.least
        # what lies outside, before it too, finds the last one
        return self.places[np.minimum(wanted.view(np.uint64), np.uint64(len(self.places) - 1))]


class _Listed(NamedTuple):
    """All keys, and their places, and one more at the end: -1, for no key."""

    keys: pa.Array
    places: Index

    def find(self, column: pa.Array) -> Index:
        found = pc.index_in(column.cast(self.keys.type), value_set=self.keys).fill_null(-1)
        return self.places[found.to_numpy()]


class TableIndex:
    """Columns of a table, and where in them the row of each key is.

    It is made of a state, and follows what is noted. A state that was restored meanwhile is read again.
    """

    def __init__(self) -> None:
        self._stamp: object = None
        self._fields: Sequence[pa.Field] = ()
        self._places: dict[Any, int] = {}
        self._parts: list[Sequence[pa.Array]] = []
        self._rows = 0
        self._quick: _Near | _Listed | None = None
        self._listed = False
        self._joined = 0
        self._bytes = 0

    def is_of(self, state: KeyedCell[Any, Any]) -> bool:
        """True if it has the rows that the state has."""
        return state.stamp is self._stamp

    def holds(self, state: KeyedCell[Any, Any], fields: Sequence[pa.Field], count: int) -> bool:
        """Read the state, unless that was done, for a batch of so many tuples. `fields`: its columns.

        False if there is too much to hold, or too few tuples were joined since the table has changed.
        """
        self._joined += count
        if len(state) > _MOST_ROWS or self._bytes > _MOST_BYTES:
            self._forget()
        elif self._joined * _WORTH < len(state):
            return False
        elif not self.is_of(state):
            self._read(state, fields)
        return self.is_of(state)

    def _forget(self) -> None:
        self._stamp, self._places, self._parts, self._quick = None, {}, [], None

    def _read(self, state: KeyedCell[Any, Any], fields: Sequence[pa.Field]) -> None:
        """Take in all rows of a state."""
        pairs = [(key, row) for key, row in state.items() if not has_null(key)]
        self._fields, self._stamp = fields, state.stamp
        self._places = {key: place for place, (key, _) in enumerate(pairs)}
        self._parts, self._rows = [arrays_of([row for _, row in pairs], fields)], len(pairs)
        self._changed()

    def note(
        self, codes: Index, keys: Sequence[Any], columns: Sequence[pa.Array], gone: Sequence[bool]
    ) -> None:
        """Take in rows that came, in their columns, where none are joined also none.

        `codes`: for each row the number of its key. `gone`: whether it deletes it.
        """
        last = last_rows(codes, len(keys))
        begin = self._rows
        for key, row in zip(keys, last.tolist(), strict=True):
            if gone[row]:
                self._places.pop(one(key), None)
            elif not has_null(key):
                self._places[one(key)] = begin + row
        self._parts.append(fitted(columns[: len(self._fields)], self._fields))
        self._rows += len(codes)
        # few parts, each less than half as large as the one before: a row is copied a few times in all
        while len(self._parts) > 1 and _size(self._parts[-2]) <= 2 * _size(self._parts[-1]):
            self._parts[-2:] = [_one_part(self._parts[-2:])]
        if self._rows > 2 * len(self._places) + 1_000:
            kept = pa.array(np.fromiter(self._places.values(), np.int64, len(self._places)))
            self._parts = [[column.take(kept) for column in self.columns()]]
            self._places = dict(zip(self._places, range(len(kept)), strict=True))
            self._rows = len(kept)
        self._joined = 0
        self._changed()

    def _changed(self) -> None:
        """There are other rows: nothing is listed, and there may be too many."""
        self._quick, self._listed = None, False
        self._bytes = sum(map(_size, self._parts))
        if len(self._places) > _MOST_ROWS or self._bytes > _MOST_BYTES:
            self._forget()

    def columns(self) -> Sequence[pa.Array]:
        """The columns of all rows."""
        if len(self._parts) > 1:
            self._parts = [_one_part(self._parts)]
        return self._parts[0]

    def places(self, batch: pa.RecordBatch, names: Sequence[str]) -> Index:
        """For each row of a batch where the row of its key is, -1 if there is none."""
        column = batch.column(names[0])
        if not self._listed and self._joined >= len(self._places) and len(names) == 1:
            self._quick, self._listed = self._in_arrays(column.type), True
        quick = self._quick
        if isinstance(quick, _Near) and not column.null_count:
            return quick.find(column)
        if isinstance(quick, _Listed) and _BATCHES * len(column) >= len(self._places):
            return quick.find(column)
        codes, keys = row_keys(batch, names)
        found = np.fromiter(map(self._places.get, keys, repeat(-1)), np.int64, len(keys))
        return found[codes]

    def _in_arrays(self, kind: pa.DataType) -> _Near | _Listed | None:
        """The keys in arrays for columns of a type; None if they are neither whole numbers nor texts."""
        kinds = set(map(type, self._places))
        places = np.fromiter(chain(self._places.values(), (-1,)), np.int64, len(self._places) + 1)
        if kinds == {str} and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            return _Listed(pa.array(list(self._places), kind), places)
        if kinds != {int} or not pa.types.is_signed_integer(kind):
            return None
        least, most = min(self._places), max(self._places)
        if least < -(2**62) or most >= 2**62:
            return None
        keys = np.fromiter(self._places, np.int64, len(self._places))
        if most - least > _SPARSE * len(keys) + 1_000:
            return _Listed(pa.array(keys), places)
        near = np.full(most - least + 2, -1, np.int64)
        near[keys - least] = places[:-1]
        return _Near(least, near)


def _size(part: Sequence[pa.Array]) -> int:
    """Bytes of the columns of some rows."""
    return sum(column.nbytes for column in part)


def _one_part(parts: Sequence[Sequence[pa.Array]]) -> list[pa.Array]:
    """The columns of the rows of all parts."""
    return [pa.concat_arrays(list(columns)) for columns in zip(*parts, strict=True)]

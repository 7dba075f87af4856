"""Join of a stream with a table: the latest row of each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, compress, repeat
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, Schema, metric
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.columns.nulls import one
from ridgeline.api.context import OperatorContext
from ridgeline.api.partitioner import StickyPartitioner
from ridgeline.operators._divided import DividedOperator, row_keys
from ridgeline.operators._exact import Index
from ridgeline.operators._joined import (
    On,
    arrays_of,
    fitted,
    has_null,
    left_columns,
    others,
    pair_schema,
    right_columns,
    rows_of,
)
from ridgeline.operators._vectors import filtered, last_rows
from ridgeline.operators.by_key import check_deleted, deletions

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


class TableJoin(DividedOperator):
    """Join a stream with a table, which is the latest row of each key of another stream.

    Inputs: `table`, the rows of the table, and `input`, the stream. In each streaming window the rows of the
    table that came in it count before the first tuple of the stream. A row that comes in a later window
    changes no result that was emitted. Output: the columns of `input`, then those of `table` without its key;
    a name that both have gets the `suffix`. A result has the time of its tuple of `input`.

    `on`: a column that both sides have, several, or a mapping such as `{"customer": "id"}` from columns of
    `input` to those of `table`. A key with a null in it equals no other. `how`: "inner" leaves out tuples
    without a row, "left" gives them nulls, "anti" has these tuples only, without columns of the table.

    `deleted`: a column of booleans of `table`, true in a row that deletes its key. The column is not joined.

    `broadcast`: all partitions hold the whole table, and the stream is divided round robin. It is for small
    tables: each partition writes all of it.

    State: the latest row of each key; the metric `held_rows` says how many. Up to a million rows are in
    memory a second time, as columns.

    Partitions: by `on`, the same on both sides. Round robin is refused with RidgelineError, unless
    `broadcast`: a tuple would not meet its row.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import TableJoin
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Order(NamedTuple):
        ...     customer: str
        ...     cents: int
        >>> class Customer(NamedTuple):
        ...     id: str
        ...     country: str
        >>> orders = ListInput(Order, [("ann", 5), ("bob", 7), END_WINDOW, ("ann", 9)])
        >>> customers = ListInput(Customer, [("ann", "CH"), END_WINDOW, ("ann", "NO")])
        >>> app = Application("shop")
        >>> orders = app.add_operator("orders", orders)
        >>> customers = app.add_operator("customers", customers)
        >>> known = app.add_operator("known", TableJoin(on={"customer": "id"}, how="left"))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("orders", orders.output, known.input)
        >>> app.add_stream("customers", customers.output, known.table)
        >>> app.add_stream("known", known.output, sink.input)
        >>> for row in run_local(app).collected("sink"):
        ...     print(row["customer"], row["cents"], row["country"])
        ann 5 CH
        bob 7 None
        ann 9 NO
    """

    shaped_by = "on"
    state_depends_on = ("table", "on", "deleted", "broadcast")

    # ports are processed in the order in which they are declared: the table before the stream
    table = InputPort(Any)
    input = InputPort(Any)
    output = OutputPort(Any)

    on: On
    how: Literal["inner", "left", "anti"] = "inner"
    deleted: str | None = Field(default=None, kw_only=True)
    broadcast: bool = Field(default=False, kw_only=True)
    suffix: str = Field(default="_right", kw_only=True)

    latest = KeyedState(tuple, default=())
    """By key, the values of the table's other columns."""
    replica = KeyedState(tuple, default=(), moves="same")
    """The same with `broadcast`, in all partitions."""

    @classmethod
    def keys_of(cls, given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """`on`, of each side; none with `broadcast`."""
        if given.get("broadcast"):
            return {}
        return {"table": right_columns(given.get("on")), "input": left_columns(given.get("on"))}

    def __post_init__(self) -> None:
        """With `broadcast` the stream is divided, and the table goes to all."""
        if self.broadcast:
            vars(self)["partitioner_default"] = StickyPartitioner("input")

    @metric(help="Rows of the table.")
    def held_rows(self) -> int | None:
        """The number of keys that have a row."""
        return None if self.broadcast and self.context.partition else len(self.rows)

    @property
    def rows(self) -> KeyedCell[Any, Any]:
        """The state that holds the table."""
        return self.replica if self.broadcast else self.latest

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of both sides. Raises SchemaError for what a stream does not have."""
        if port != "output" or not {"input", "table"} <= inputs.keys():
            return None
        check_deleted(inputs["table"], self.deleted)
        first, second = inputs["input"], inputs["table"]
        return pair_schema(first, second, self.on, self.how, self.suffix, [self.deleted])

    def _fields(self, table: pa.Schema) -> list[pa.Field]:
        """The columns of the table that are joined."""
        return others(table, (*right_columns(self.on), self.deleted))

    def setup(self, context: OperatorContext) -> None:
        """Read the properties."""
        self.mine, self.theirs = left_columns(self.on), right_columns(self.on)
        self.index = TableIndex()

    @table.process_batch
    def note(self, batch: pa.RecordBatch) -> None:
        """Take rows into the table."""
        codes, keys = row_keys(batch, self.theirs) if self.broadcast else self.own_keys(batch, self.theirs)
        names = [field.name for field in self._fields(batch.schema)]
        rows = rows_of(batch, names)
        gone = deletions(batch, self.deleted)
        new = [None if over else row for row, over in zip(rows, gone, strict=True)]
        last = dict(zip(codes.tolist(), new, strict=True))
        for code, row in last.items():
            if row is None:
                self.rows.pop(keys[code], None)
        # a row without columns must differ from none
        rest = [(keys[code], row or (True,)) for code, row in last.items() if row is not None]
        if rest:
            self.rows.put_many(*zip(*rest, strict=True))
        if self.index.is_of(self.rows):
            self.index.note(codes, keys, [batch.column(name) for name in names], gone)

    @input.process_batch
    def join(self, batch: pa.RecordBatch) -> None:
        """Emit the tuples of a batch with their rows."""
        schema = self.output.schema.arrow
        fields = [] if self.how == "anti" else list(schema)[batch.num_columns :]
        if not self.broadcast:
            self.refuse_strays(batch, self.mine)
        places, columns = self._find(batch, fields)
        there = places >= 0
        if self.how == "anti":
            self.output.emit_batch(filtered(batch, ~there), rows=~there)
            return
        chosen = pa.array(places, mask=~there)
        columns = [*batch.columns, *(column.take(chosen) for column in columns)]
        joined = pa.RecordBatch.from_arrays(columns, names=schema.names)
        if self.how == "inner":
            joined = filtered(joined, there)
        joined = pa.RecordBatch.from_arrays(joined.columns, schema=schema)
        self.output.emit_batch(joined, rows=None if self.how == "left" else there)

    def _find(self, batch: pa.RecordBatch, fields: Sequence[pa.Field]) -> tuple[Index, Sequence[pa.Array]]:
        """For each row of a batch the place of its row, or -1; and the table's columns of these fields."""
        if self.index.holds(self.rows, fields, len(batch)):
            return self.index.places(batch, self.mine), self.index.columns()
        codes, keys = row_keys(batch, self.mine)
        rows = self.rows.get_many(keys).tolist()
        there = np.fromiter(map(bool, rows), np.bool_, len(rows))
        there &= ~np.fromiter(map(has_null, keys), np.bool_, len(keys))
        places = np.where(there, np.cumsum(there) - 1, -1)
        return places[codes], arrays_of(list(compress(rows, there.tolist())), fields)

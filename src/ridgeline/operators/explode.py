"""Lists as rows, and structs as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api import InputPort, Operator, OutputPort, Schema, SchemaError
from ridgeline.operators._divided import Columns, check_columns, columns_of


class Explode(Operator):
    """Turn each row into one for each item of a list: `Explode("items")`.

    Input: a stream whose `column` is a list. Output: its columns, with an item in the place of the list. Rows
    with an empty list or null are left out; with `keep_empty` they come once, with null. Each row has the
    time of the row that it came from.

    Partitions: round robin.

    Example:
        >>> import pyarrow as pa
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Explode
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> baskets = pa.schema([("id", pa.int64()), ("items", pa.list_(pa.string()))])
        >>> app = Application("baskets")
        >>> source = app.add_operator("source", ListInput(baskets, [(1, ["a", "b"]), (2, []), (3, ["c"])]))
        >>> explode = app.add_operator("explode", Explode("items"))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("baskets", source.output, explode.input)
        >>> app.add_stream("items", explode.output, sink.input)
        >>> [tuple(row.values()) for row in run_local(app).collected("sink")]
        [(1, 'a'), (1, 'b'), (3, 'c')]
    """

    input = InputPort(Any)
    output = OutputPort(Any)

    column: str
    keep_empty: bool = False

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of the input, with an item for the list. Raises SchemaError for what is no list."""
        if "input" not in inputs:
            return None
        check_columns(inputs["input"], [self.column], "`column`")
        given = inputs["input"].arrow
        field = given.field(self.column)
        types = pa.types
        if not (types.is_list(field.type) or types.is_large_list(field.type)):
            raise SchemaError(f"`{self.column}` is {field.type}, which is no list; name a column that is one")
        item = field.type.value_field
        own = pa.field(field.name, item.type, item.nullable or self.keep_empty)
        return given.set(given.get_field_index(self.column), own)

    @input.process_batch
    def explode(self, batch: pa.RecordBatch) -> None:
        """Emit the items of the rows of a batch."""
        lists = batch.column(self.column)
        parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
        items = pc.list_flatten(lists)
        if self.keep_empty:
            empty = np.setdiff1d(np.arange(len(batch)), parents)
            order = np.argsort(np.concatenate([parents, empty]), kind="stable")
            parents = np.concatenate([parents, empty])[order]
            items = pa.concat_arrays([items, pa.nulls(len(empty), items.type)]).take(pa.array(order))
        columns = [
            items if name == self.column else column.take(pa.array(parents))
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        exploded = pa.RecordBatch.from_arrays(columns, schema=self.output.schema.arrow)
        self.output.emit_batch(exploded, rows=parents)


class Flatten(Operator):
    """Put the fields of structs in the place of the structs, at every depth: `Flatten()`.

    Input: any stream with columns. Output: a field `city` of a column `address` is the column `address_city`,
    with `separator` between the names. It is null where the struct is. `columns`: only these; default: all.
    Raises SchemaError if two columns would have one name.

    Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Flatten
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Address = NamedTuple("Address", [("street", str), ("city", str)])
        >>> User = NamedTuple("User", [("name", str), ("address", Address)])
        >>> app = Application("users")
        >>> source = app.add_operator("source", ListInput(User, [User("ann", Address("A 1", "Bern"))]))
        >>> flatten = app.add_operator("flatten", Flatten())
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("users", source.output, flatten.input)
        >>> app.add_stream("flat", flatten.output, sink.input)
        >>> run_local(app).collected("sink")
        [{'name': 'ann', 'address_street': 'A 1', 'address_city': 'Bern'}]
    """

    input = InputPort(Any)
    output = OutputPort(Any)

    columns: Columns | None = None
    separator: str = "_"

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns, with fields for structs. Raises SchemaError for two of one name."""
        if "input" not in inputs:
            return None
        names = columns_of(self.columns)
        check_columns(inputs["input"], names, "`columns`")
        fields: list[pa.Field] = []
        for field in inputs["input"].arrow:
            fields += self._fields(field) if not names or field.name in names else [field]
        double = next((one.name for one in fields if [two.name for two in fields].count(one.name) > 1), None)
        if double is not None:
            raise SchemaError(
                f"the column `{double}` would be there twice; give another `separator`, or rename it before"
            )
        return pa.schema(fields)

    def _fields(self, field: pa.Field) -> list[pa.Field]:
        if not pa.types.is_struct(field.type):
            return [field]
        return [
            part.with_nullable(nullable=part.nullable or field.nullable)
            for own in field.type
            for part in self._fields(own.with_name(f"{field.name}{self.separator}{own.name}"))
        ]

    def _arrays(self, column: pa.Array) -> list[pa.Array]:
        if not pa.types.is_struct(column.type):
            return [column]
        # `flatten` has the nulls of the struct in its fields, which `field` has not
        return [array for part in column.flatten() for array in self._arrays(part)]

    @input.process_batch
    def flatten(self, batch: pa.RecordBatch) -> None:
        """Emit the rows of a batch with the fields of their structs."""
        names = columns_of(self.columns)
        arrays: list[pa.Array] = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            arrays += self._arrays(column) if not names or name in names else [column]
        self.output.emit_batch(pa.RecordBatch.from_arrays(arrays, schema=self.output.schema.arrow))

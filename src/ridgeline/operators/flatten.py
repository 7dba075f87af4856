"""The fields of structs as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ridgeline.api import InputPort, Operator, OutputPort, Schema, SchemaError
from ridgeline.operators._divided import Columns, check_columns, columns_of


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

"""Write each tuple as a text: the reverse of `Parse`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import RidgelineError, Schema, SchemaError
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import shorten
from ridgeline.operators._checking import CheckingOperator, fitting
from ridgeline.operators._divided import Columns, check_columns, columns_of
from ridgeline.operators.shaping._writers import Writer, WrittenFormat, writer_of


class Format(CheckingOperator):
    """Write each tuple as a text: the reverse of `Parse`.

    Input: any stream with columns. Output: the columns of `keep`, which are taken over, and the texts in
    `column`. `columns`: which ones are written; default: all. Each output row has the time of its input row.

    `format`:

    - "json": an object.
    - "csv": the values in the order of the columns, with this `delimiter`; null is nothing, an empty text
      is `""`.
    - "key_value": `user=ann cents=5 text="a b"`; null is left out.
    - "template": `template`, such as `"{user} paid {cents:>6}"`, with Python's formats; null is nothing.
    - "avro": bytes. `written`: the Avro schema; default: that of the columns. With `schema_id` they stand
      behind the framing of a schema registry. It needs fastavro.

    Values are written by the rules of files, see docs/values.md; `Parse` reads them back. A row that cannot
    be written, such as one with the end of a line in CSV, goes to the error port `bad`. It has all columns of
    the input, and the `reason`. If no stream reads `bad`, it is an error.

    Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Format
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Payment(NamedTuple):
        ...     user: str
        ...     cents: int
        >>> app = Application("payments")
        >>> source = app.add_operator("source", ListInput(Payment, [("ann", 5), ("bob lee", 7)]))
        >>> write = app.add_operator("write", Format("key_value"))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("payments", source.output, write.input)
        >>> app.add_stream("lines", write.output, sink.input)
        >>> [row["text"] for row in run_local(app).collected("sink")]
        ['user=ann cents=5', 'user="bob lee" cents=7']
    """

    format: WrittenFormat = "json"
    column: str = "text"
    columns: Columns | None = Field(default=None, kw_only=True)
    keep: Columns = Field(default=(), kw_only=True)
    template: str | None = Field(default=None, kw_only=True)
    delimiter: str = Field(default=",", min_length=1, max_length=1, kw_only=True)
    written: str | dict[str, Any] | None = Field(default=None, kw_only=True)
    schema_id: int | None = Field(default=None, ge=0, lt=2**32, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse what is of another format, a missing template, and a column that is there twice."""
        if (self.template is None) == (self.format == "template"):
            lacking = self.template is None
            rule = "must be given for the format template" if lacking else "is of the format template alone"
            return [("template", self.template, rule)]
        for name in ("written", "schema_id"):
            if getattr(self, name) is not None and self.format != "avro":
                return [(name, getattr(self, name), "is of the format avro alone")]
        if self.column in columns_of(self.keep):
            return [("column", self.column, "must not have the name of a column of `keep`")]
        return []

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns that are kept, and the texts. Raises SchemaError for what cannot be written."""
        if "input" not in inputs:
            return None
        given = inputs["input"]
        check_columns(given, [*columns_of(self.columns), *columns_of(self.keep)], "`columns` or `keep`")
        try:
            self._writer(given)
        except SchemaError:
            raise
        except RidgelineError as error:
            raise SchemaError(str(error)) from error
        if port == "bad":
            return self.bad_schema(given.arrow)
        kept = [given.arrow.field(name) for name in columns_of(self.keep)]
        kind = pa.binary() if self.format == "avro" else pa.string()
        return pa.schema([*kept, pa.field(self.column, kind, nullable=False)])

    def _names(self, schema: pa.Schema) -> list[str]:
        """The columns that are written."""
        return schema.names if self.columns is None else list(columns_of(self.columns))

    def _writer(self, given: Schema) -> Writer:
        """The writer of tuples. Raises SchemaError, RidgelineError."""
        names = self._names(given.arrow)
        columns = given if names == given.arrow.names else Schema(pa.schema(map(given.arrow.field, names)))
        return writer_of(
            self.format,
            columns,
            delimiter=self.delimiter,
            template=self.template,
            written=self.written,
            schema_id=self.schema_id,
        )

    def setup(self, context: OperatorContext) -> None:
        """Make the writer."""
        self.kept = columns_of(self.keep)
        self.writer = self._writer(self.input.schema)

    def take(self, batch: pa.RecordBatch) -> None:
        """Emit the texts of a batch. Raises RidgelineError for a row without one that no stream reads."""
        written = batch.select(self._names(batch.schema))
        found = fitting(range(len(batch)), lambda begin, end: self.writer(written.slice(begin, end - begin)))
        good = np.array(self.emit_bad(batch, found.reasons, lambda row: self._misfit(batch, row)), np.int64)
        schema = self.output.schema.arrow
        columns = [batch.column(name).take(pa.array(good)) for name in self.kept]
        columns.append(pa.array(chain.from_iterable(found.batches), schema.field(self.column).type))
        self.output.emit_batch(pa.RecordBatch.from_arrays(columns, schema=schema), rows=good)

    def _misfit(self, batch: pa.RecordBatch, row: int) -> str:
        return f"{shorten(batch.slice(row, 1).to_pylist()[0])} cannot be written as {self.format}"

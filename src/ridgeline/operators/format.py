"""Write each tuple as a text: the reverse of `Parse`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import Schema, SchemaError
from ridgeline.api.columns.casting import is_bytes
from ridgeline.api.errors import shorten
from ridgeline.operators._divided import Columns, check_columns, columns_of
from ridgeline.operators._json import json_lines, value_texts
from ridgeline.operators.files._parsers import csv_reads
from ridgeline.operators.validate import CheckingOperator, fitting

WrittenFormat = Literal["json", "csv", "key_value"]
_ENDS = re.compile(r"[\r\n]")
_QUOTED_PAIR = re.compile(r'[\s="\\]')
_NO_KEY = re.compile(r'[\s="]')


def _check_flat(format: WrittenFormat, columns: Sequence[pa.Field]) -> None:
    """Raise SchemaError for columns that a line of values cannot have."""
    for field in columns:
        if not csv_reads(field.type):
            what = f"`{field.name}` is {field.type}, which {format} does not have"
            raise SchemaError(f"{what}; make columns or rows of it before, or take json")
        if format == "key_value" and (not field.name or _NO_KEY.search(field.name)):
            raise SchemaError(f"`{field.name}` cannot be a key; rename the column")


def _lines(batch: pa.RecordBatch) -> list[list[str | None]]:
    """The texts of each column. Raises ValueError for one with the end of a line."""
    found = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if is_bytes(column.type):
            column = column.cast(pa.string())  # noqa: PLW2901  CSV has bytes as they are; raises for no UTF-8
        texts = value_texts(column)
        wrong = next((one for one in texts if one is not None and _ENDS.search(one)), None)
        if wrong is not None:
            raise ValueError(f"column `{name}`: {wrong!r} has the end of a line in it")
        found.append(texts)
    return found


def _csv(batch: pa.RecordBatch, delimiter: str) -> list[str]:
    def cell(text: str | None) -> str:
        if text is None:
            return ""
        quoted = not text or delimiter in text or '"' in text
        return '"' + text.replace('"', '""') + '"' if quoted else text

    columns = [list(map(cell, texts)) for texts in _lines(batch)]
    return [delimiter.join(row) for row in zip(*columns, strict=True)]


def _pairs(batch: pa.RecordBatch) -> list[str]:
    def pair(name: str, text: str | None) -> str | None:
        if text is None:
            return None
        if not text or _QUOTED_PAIR.search(text):  # an empty text is told from null by its quotes
            text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return f"{name}={text}"

    rows = zip(*_lines(batch), strict=True)
    pairs = ([pair(*one) for one in zip(batch.schema.names, row, strict=True)] for row in rows)
    return [" ".join(one for one in row if one is not None) for row in pairs]


class Format(CheckingOperator):
    """Write each tuple as a text: the reverse of `Parse`.

    Input: any stream with columns. Output: the columns of `keep`, which are taken over, and the texts in
    `column`. `columns`: which ones are written; default: all. Each output row has the time of its input row.

    `format`:

    - "json": an object.
    - "csv": the values in the order of the columns, with this `delimiter`; null is nothing, an empty text
      is `""`.
    - "key_value": `user=ann cents=5 text="a b"`; null is left out.

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
        >>> write = app.add_operator("write", Format("csv"))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("payments", source.output, write.input)
        >>> app.add_stream("lines", write.output, sink.input)
        >>> [row["text"] for row in run_local(app).collected("sink")]
        ['ann,5', 'bob lee,7']
    """

    format: WrittenFormat = "json"
    column: str = "text"
    columns: Columns | None = Field(default=None, kw_only=True)
    keep: Columns = Field(default=(), kw_only=True)
    delimiter: str = Field(default=",", min_length=1, max_length=1, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a column that is there twice."""
        if self.column in columns_of(self.keep):
            return [("column", self.column, "must not have the name of a column of `keep`")]
        return []

    def derived(self, given: Schema) -> object:
        """The columns that are kept, and the texts. Raises SchemaError for what cannot be written."""
        check_columns(given, [*columns_of(self.columns), *columns_of(self.keep)], "`columns` or `keep`")
        if self.format != "json":
            _check_flat(self.format, [given.arrow.field(name) for name in self._names(given.arrow)])
        kept = [given.arrow.field(name) for name in columns_of(self.keep)]
        return pa.schema([*kept, pa.field(self.column, pa.string(), nullable=False)])

    def _names(self, schema: pa.Schema) -> list[str]:
        """The columns that are written."""
        return schema.names if self.columns is None else list(columns_of(self.columns))

    def _texts(self, batch: pa.RecordBatch) -> list[str]:
        """A text of each row. Raises ValueError, RidgelineError if one of them has none."""
        if self.format == "csv":
            return _csv(batch, self.delimiter)
        if self.format == "key_value":
            return _pairs(batch)
        return json_lines(pa.table(batch)).decode().split("\n")[:-1]

    def take(self, batch: pa.RecordBatch) -> None:
        """Emit the texts of a batch. Raises RidgelineError for a row without one that no stream reads."""
        written = batch.select(self._names(batch.schema))
        found = fitting(range(len(batch)), lambda begin, end: self._texts(written.slice(begin, end - begin)))
        good = np.array(self.emit_bad(batch, found.reasons, lambda row: self._misfit(batch, row)), np.int64)
        schema = self.output.schema.arrow
        columns = [batch.column(name).take(pa.array(good)) for name in columns_of(self.keep)]
        columns.append(pa.array(chain.from_iterable(found.batches), schema.field(self.column).type))
        self.output.emit_batch(pa.RecordBatch.from_arrays(columns, schema=schema), rows=good)

    def _misfit(self, batch: pa.RecordBatch, row: int) -> str:
        return f"{shorten(batch.slice(row, 1).to_pylist()[0])} cannot be written as {self.format}"

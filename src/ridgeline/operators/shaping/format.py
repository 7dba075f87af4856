"""Write each tuple as a text: the reverse of `Parse`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from string import Formatter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import RidgelineError, Schema, SchemaError
from ridgeline.api.columns.casting import is_bytes, is_text, to_python
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import did_you_mean, shorten
from ridgeline.operators._checking import CheckingOperator, fitting
from ridgeline.operators._divided import Columns, check_columns, columns_of
from ridgeline.operators._json import json_lines
from ridgeline.operators._replay_parsers import csv_reads
from ridgeline.operators.payloads import encoder_of
from ridgeline.operators.payloads._avro import AvroEncoder, avro_schema_of

_START, _END = len('{"v":'), -1


def value_texts(column: pa.Array) -> list[str | None]:
    """The text of each value; None of null.

    A text is itself. Others are as in JSON, without quotes; NaN and the infinities are `nan` and `inf`.

    >>> value_texts(pa.array([1.5, None, float("nan")])), value_texts(pa.array(["a b"]))
    (['1.5', None, 'nan'], ['a b'])
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_text(column.type):
        texts: list[str | None] = column.to_pylist()
        return texts
    if pa.types.is_floating(column.type):
        return [None if value is None else repr(value) for value in column.cast(pa.float64()).to_pylist()]
    lines = json_lines(pa.table({"v": column})).decode().split("\n")[:-1]
    found = [line[_START:_END] for line in lines]
    bare = [text[1:-1] if text[:1] == '"' else text for text in found]
    valid = column.is_valid().to_pylist()
    return [text if there else None for text, there in zip(bare, valid, strict=True)]


WrittenFormat = Literal["json", "csv", "key_value", "template", "avro"]
Writer = Callable[[pa.RecordBatch], "Sequence[str | bytes]"]
"""Makes a text of each row. Raises ValueError if one of them has none."""
_ENDS = re.compile(r"[\r\n]")
_NO_PAIR = re.compile(r'[\s="\\]')
_NO_NAME = re.compile(r'[\s="]')


def writer_of(
    format: WrittenFormat,
    columns: Schema,
    *,
    delimiter: str = ",",
    template: str | None = None,
    written: Any = None,
    schema_id: int | None = None,
) -> Writer:
    """The writer of a format. Raises SchemaError for columns that it cannot have, RidgelineError."""
    schema = columns.arrow
    if format == "json":
        encode = encoder_of("json", columns, name=columns.name)
        return lambda batch: [bytes(line or b"").decode() for line in encode(batch)]
    if format == "avro":
        avro = avro_schema_of(columns, columns.name) if written is None else written
        return AvroEncoder(schema, avro, schema_id)
    if format == "template":
        return _template(template or "", schema)
    _check_flat(format, schema)
    if format == "csv":
        return lambda batch: _csv(batch, delimiter)
    return _pairs


def _check_flat(format: str, columns: pa.Schema) -> None:
    """Raise SchemaError for columns that a line of values cannot have."""
    for field in columns:
        if not csv_reads(field.type):
            what = f"`{field.name}` is {field.type}, which {format} does not have"
            raise SchemaError(f"{what}; make columns or rows of it before, or take json")
        if format == "key_value" and (not field.name or _NO_NAME.search(field.name)):
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
    def value(text: str) -> str:
        if text and not _NO_PAIR.search(text):
            return text
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    pairs = [
        [None if text is None else f"{name}={value(text)}" for text in texts]
        for name, texts in zip(batch.schema.names, _lines(batch), strict=True)
    ]
    return [" ".join(pair for pair in row if pair is not None) for row in zip(*pairs, strict=True)]


def _template(template: str, columns: pa.Schema) -> Writer:
    """The writer of a template. Raises SchemaError for a name that is no column."""
    pieces: list[tuple[str, str | None, str]] = []
    try:
        for literal, name, spec, conversion in Formatter().parse(template):
            if conversion:
                raise SchemaError(
                    f"`!{conversion}` is no part of a template; give a format such as `{{{name}:>5}}`"
                )
            pieces.append((literal, name, spec or ""))
    except ValueError as error:
        raise SchemaError(f"{template!r} is no template: {error}; a brace is `{{{{`") from error
    for _, name, _ in pieces:
        if name is not None and name not in columns.names:
            raise SchemaError(
                f"`template` names `{name}`, which is no column; {did_you_mean(name, columns.names)}"
            )

    def write(batch: pa.RecordBatch) -> list[str]:
        parts: list[Sequence[str]] = []
        for literal, name, spec in pieces:
            parts.append([literal] * len(batch))
            if name is None:
                continue
            column = batch.column(batch.schema.get_field_index(name))
            if not spec:
                parts.append([text or "" for text in value_texts(column)])
                continue
            try:
                parts.append(["" if one is None else format(one, spec) for one in to_python(column)])
            except TypeError as error:
                raise ValueError(str(error)) from error
        return ["".join(row) for row in zip(*parts, strict=True)] if parts else [""] * len(batch)

    return write


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

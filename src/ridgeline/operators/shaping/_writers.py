"""Rows as texts or bytes, one each: JSON, CSV, `key=value`, templates, Avro."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from string import Formatter
from typing import Any, Literal

import pyarrow as pa

from ridgeline.api import Schema, SchemaError
from ridgeline.api.columns.casting import is_bytes, is_text, to_python
from ridgeline.api.errors import did_you_mean
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
            raise SchemaError(f"{what}; flatten or explode it before, or take json")
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

"""What makes rows of lines: text, CSV, JSON lines."""

from __future__ import annotations

import base64
import csv
import json
import re
from collections.abc import Sequence
from datetime import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from ridgeline.api.errors import RidgelineError, did_you_mean, shorten
from ridgeline.api.schema import Schema
from ridgeline.operators._json import UNITS_PER_SECOND, from_json, is_binary, is_list

_ZONED = r":\d\d[.\d]*\s*(Z|[+-]\d\d(:?\d\d)?)$"


class TextParser:
    """Each line is a row of the one column."""

    has_header = False
    blank_lines_are_rows = True

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def read_header(self, file: str, line: bytes) -> None:
        """There is none."""

    def describe(self) -> str:
        """What a line should be."""
        return "UTF-8 text"

    def parse(self, lines: bytes, count: int) -> pa.RecordBatch:
        """The lines without their ends."""
        text = lines.decode().split("\n") if count else []
        if b"\r" in lines:
            text = [line.removesuffix("\r") for line in text]
        return pa.RecordBatch.from_arrays([pa.array(text, self._schema.arrow.field(0).type)], schema=self._schema.arrow)


class CsvParser:
    """Lines of separated values, under a header that says which column is which."""

    has_header = True
    blank_lines_are_rows = False

    def __init__(self, schema: Schema, delimiter: str, null_values: Sequence[str]) -> None:
        self._schema = schema
        self._delimiter = delimiter
        self._parse_options = pyarrow.csv.ParseOptions(delimiter=delimiter)
        self._convert_options = pyarrow.csv.ConvertOptions(
            column_types={field.name: _csv_type(field.type) for field in schema.arrow},
            include_columns=schema.arrow.names,
            null_values=list(null_values),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        self._names: list[str] = []

    def read_header(self, file: str, line: bytes) -> None:
        """Take the columns' names. Raises RidgelineError if one of the schema is missing."""
        header = line.decode(errors="replace").rstrip("\r")
        self._names = [name.strip() for name in next(csv.reader([header], delimiter=self._delimiter), [])]
        for name in self._schema.arrow.names:
            if name not in self._names:
                message = (
                    f"file `{file}` has no column `{name}`; its header is {shorten(header)}; {did_you_mean(name, self._names)} "
                    "Name the columns of `schema` as the header does, or set `delimiter`"
                )
                raise RidgelineError(message)

    def describe(self) -> str:
        """What a line should be."""
        return f"a {self._schema.describe()}"

    def parse(self, lines: bytes, count: int) -> pa.RecordBatch:
        """The rows, with the columns of the schema."""
        if not count:
            return self._schema.encode([])
        if b'"' in lines and any(line.count(b'"') % 2 and self._is_open(line) for line in lines.split(b"\n")):
            message = "a quoted value goes over the end of the line, which is not supported"
            raise ValueError(message)
        options = pyarrow.csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(lines) + 1)
        try:
            table = pyarrow.csv.read_csv(pa.BufferReader(lines), options, self._parse_options, self._convert_options)
        except pa.ArrowInvalid as error:
            raise ValueError(self._named(str(error))) from error
        if table.num_rows != count:
            message = f"{count} lines are {table.num_rows} rows; write one row a line"
            raise ValueError(message)
        return _finish(self._schema, table)

    def _is_open(self, line: bytes) -> bool:
        """True if a quote is not closed within the line."""
        try:
            list(csv.reader([line.decode(errors="replace")], delimiter=self._delimiter, strict=True))
        except csv.Error as error:
            return "unexpected end of data" in str(error)
        return False

    def _named(self, error: str) -> str:
        """The error's text with the column's name in place of its number."""
        found = re.match(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error (.*)", error, re.DOTALL)
        return f"column `{self._names[int(found[1])]}` cannot be converted {found[2]}" if found else error


class JsonParser:
    """Each line is a JSON object. Fields that it lacks are null; those that the schema lacks are passed over."""

    has_header = False
    blank_lines_are_rows = False

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        fields = [pa.field(field.name, _json_type(field.type)) for field in schema.arrow]
        self._fast = all(_arrow_reads(field.type) for field in fields)
        explicit = pa.schema(fields) if self._fast else None
        self._options = pyarrow.json.ParseOptions(explicit_schema=explicit, unexpected_field_behavior="ignore")

    def read_header(self, file: str, line: bytes) -> None:
        """There is none."""

    def describe(self) -> str:
        """What a line should be."""
        return f"a JSON object for {self._schema.describe()}"

    def parse(self, lines: bytes, count: int) -> pa.RecordBatch:
        """The rows, with the columns of the schema."""
        if not count:
            return self._schema.encode([])
        if not self._fast:
            return self._parse_slowly(lines, count)
        options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        table = pyarrow.json.read_json(pa.BufferReader(lines), options, self._options)
        if table.num_rows != count:
            message = f"{count} lines are {table.num_rows} objects; write one object a line"
            raise ValueError(message)
        return _finish(self._schema, table)

    def _parse_slowly(self, lines: bytes, count: int) -> pa.RecordBatch:
        """For types within types that pyarrow's reader does not know."""
        objects = [json.loads(line) for line in lines.split(b"\n") if line.strip()]
        if len(objects) != count or not all(isinstance(item, dict) for item in objects):
            message = "not one object a line"
            raise ValueError(message)
        try:
            values = [[from_json(field.type)(item.get(field.name)) for item in objects] for field in self._schema.arrow]
            columns = [pa.array(column, field.type) for column, field in zip(values, self._schema.arrow, strict=True)]
        except AttributeError as error:
            raise ValueError(str(error)) from error
        return pa.RecordBatch.from_arrays(columns, schema=self._schema.arrow)


def csv_reads(kind: pa.DataType) -> bool:
    """True if a CSV file can hold a column of this type."""
    return not pa.types.is_nested(kind)


def _csv_type(kind: pa.DataType) -> pa.DataType:
    """The type as which pyarrow reads a CSV column that becomes one of this type."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_dictionary(kind):
        return _csv_type(kind.value_type)
    return pa.float64() if pa.types.is_duration(kind) else kind


def _json_type(kind: pa.DataType) -> pa.DataType:
    """The type as which pyarrow reads a JSON field that becomes a column of this type."""
    types = pa.types
    if types.is_dictionary(kind):
        return _json_type(kind.value_type)
    if types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind) or is_binary(kind):
        return pa.string()
    return pa.float64() if types.is_duration(kind) else kind


def _arrow_reads(kind: pa.DataType) -> bool:
    """True if pyarrow's JSON reader makes this type of what our writer writes for it."""
    types = pa.types
    if is_list(kind):
        return types.is_list(kind) and _arrow_reads(kind.value_type)
    if types.is_struct(kind):
        return all(_arrow_reads(field.type) for field in kind)
    plain = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_string(kind)
    return bool(plain or types.is_decimal128(kind))


def _finish(schema: Schema, table: pa.Table) -> pa.RecordBatch:
    """One batch in the schema, of a table with the columns as they were read."""
    table = table.combine_chunks()
    arrays = []
    for field in schema.arrow:
        try:
            arrays.append(_column(table.column(field.name).combine_chunks(), field.type))
        except (pa.ArrowException, ValueError) as error:
            message = f"column `{field.name}` cannot be converted to {field.type}: {error}"
            raise ValueError(message) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def _column(column: Any, kind: pa.DataType) -> pa.Array:  # noqa: PLR0911  one type after the other
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    types = pa.types
    if column.type == kind:
        return column
    if types.is_timestamp(kind):
        return _timestamps(column, kind)
    if types.is_duration(kind):
        units = pc.round(pc.multiply(column, float(UNITS_PER_SECOND[kind.unit])))
        return units.cast(pa.int64()).cast(kind)
    if types.is_time(kind):
        return pa.array([None if value is None else time.fromisoformat(value) for value in column.to_pylist()], kind)
    if is_binary(kind):
        return pa.array([None if value is None else base64.b64decode(value, validate=True) for value in column.to_pylist()], kind)
    if types.is_dictionary(kind):
        return _column(column, kind.value_type).dictionary_encode().cast(kind)
    return column.cast(kind)


def _timestamps(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """ISO 8601 text, date only or with a time, as timestamps; without a zone it is UTC."""
    naive = pa.timestamp(kind.unit)
    if not kind.tz:
        return text.cast(naive)
    zoned = pc.match_substring_regex(text, _ZONED)
    if pc.all(zoned, min_count=0).as_py():
        return text.cast(kind)
    if not pc.any(zoned, min_count=0).as_py():
        return text.cast(naive).cast(kind)
    nothing = pa.scalar(None, pa.string())
    return pc.coalesce(pc.if_else(zoned, text, nothing).cast(kind), pc.if_else(zoned, nothing, text).cast(naive).cast(kind))

"""Parse lines into rows: text, CSV, JSON lines."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from ridgeline.api.columns.casting import is_bytes, is_text, refuse_changing
from ridgeline.api.columns.nulls import MisplacedNullError, optional_columns, refuse_nulls
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.value_arrays import maker
from ridgeline.api.errors import RidgelineError, SchemaError, did_you_mean
from ridgeline.api.operator import port_schema
from ridgeline.operators._json import Doubled, arrow_reads, parse_line, read_type, value_of, whole
from ridgeline.operators._texts import convert, float_of, holds_odd_floats, odd_floats
from ridgeline.operators.files._lines import LineParser, scan
from ridgeline.operators.files._listing import checked_columns, refuse_folders

_NO_OBJECT = "not one object a line"
_FEW = 32
"""The most lines of JSON that are parsed one by one, which is faster."""
_UNUSUAL = re.compile(rb"\r|\\u|\d[eE]\+?\d\d|\d{300}")
"""Arrow's reader refuses some of these also in fields that are no column: half characters, huge numbers."""


class TextParser(LineParser):
    """Each line is a row with one column."""

    blank_lines_are_rows = True

    def describe(self) -> str:
        """The expected form of a line."""
        return "UTF-8 text"

    def parse(self, lines: bytes, count: int) -> pa.RecordBatch:
        """Return the lines without their line ends."""
        text = lines.decode().split("\n") if count else []
        if b"\r" in lines:
            text = [line.removesuffix("\r") for line in text]
        return pa.RecordBatch.from_arrays(
            [pa.array(text, self._schema.arrow.field(0).type)], schema=self._schema.arrow
        )


class CsvParser(LineParser):
    """Lines of separated values, below a header with the columns' names."""

    has_header = True

    def __init__(self, schema: Schema, delimiter: str, null_values: Sequence[str]) -> None:
        super().__init__(schema)
        self._delimiter = delimiter
        self.quoting = delimiter.encode()
        self._null_values = list(null_values)
        optional = optional_columns(schema)
        self._texts = [
            field.name for field in schema.arrow if field.name not in optional and is_textual(field.type)
        ]
        self._names: list[str] = []
        self._there: list[str] = []
        """The columns of the schema that the file has."""
        self._over_lines = False

    def read_header(self, file: str, line: bytes) -> None:
        """Read the columns' names. Raises RidgelineError if a column of the schema is missing or doubled."""
        header = line.decode(errors="replace").rstrip("\r")
        if "\r" in header:
            raise RidgelineError(
                f"file `{file}` cannot be read: its lines end with a carriage return alone; "
                "write `\\n` or `\\r\\n`"
            )
        self._names = [name.strip() for name in next(csv.reader([header], delimiter=self._delimiter), [])]
        self._there = checked_columns(file, self._schema, self._names, header)

    @property
    def fields(self) -> int:
        """The number of columns; 0 before the header was read."""
        return len(self._names)

    def describe(self) -> str:
        """The expected form of a line."""
        return f"a {self._schema.describe()}"

    def parse(self, lines: bytes, count: int) -> pa.RecordBatch:
        """Return the rows, with the columns of the schema."""
        if not count:
            return self._schema.encode([])
        self._over_lines = self._goes_over_lines(lines)
        table = self._read(lines, self._there, nulls=True)
        if table.num_rows != count:
            raise ValueError(f"{count} lines are {table.num_rows} rows; write one row a line")
        if texts := [name for name in self._texts if table.column(name).null_count]:
            exact = self._read(lines, texts, nulls=False)
            for name in texts:
                table = table.set_column(table.schema.get_field_index(name), name, exact.column(name))
        self._check_numbers(lines, table)
        for field in self._schema.arrow:
            if field.name not in self._there:
                table = table.append_column(field.name, pa.nulls(count, field.type))
        return _finish(self._schema, table)

    def _check_numbers(self, lines: bytes, table: pa.Table) -> None:
        """Raise ValueError for a number that is not what its text says: pyarrow reads 1e400, and 0x10."""
        odd: dict[str, pa.Array | None] = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_integer(column.type) and (b"0x" in lines or b"0X" in lines):
                odd[name] = None
            elif pa.types.is_floating(column.type):
                mask = odd_floats(whole(column), lines)
                if mask is not None:
                    odd[name] = mask
        if not odd:
            return
        texts = self._read(lines, list(odd), nulls=True, as_text=True)
        for name, mask in odd.items():
            column = whole(texts.column(name))
            try:
                for text in (column if mask is None else column.filter(mask)).drop_null().to_pylist():
                    (_no_hexadecimal if mask is None else float_of)(text)
            except ValueError as error:
                raise ValueError(f"column `{name}` cannot be converted: {error}") from error

    def _read(self, lines: bytes, names: list[str], *, nulls: bool, as_text: bool = False) -> pa.Table:
        """Read these columns. `nulls`: whether text can be null. `as_text`: whatever their types are."""
        text = (
            lines + b"\n"
        )  # without it Arrow takes an empty last value for quoted if another one of its line is
        options = pyarrow.csv.ReadOptions(
            column_names=self._names, use_threads=False, block_size=len(text) + 1
        )
        convert = pyarrow.csv.ConvertOptions(
            column_types={
                name: pa.string() if as_text else _csv_type(self._schema.arrow.field(name).type)
                for name in names
            },
            include_columns=names,
            null_values=self._null_values,
            strings_can_be_null=nulls,
            quoted_strings_can_be_null=False,
        )
        parse = pyarrow.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=self._over_lines)
        try:
            return pyarrow.csv.read_csv(pa.BufferReader(text), options, parse, convert)
        except pa.ArrowInvalid as error:
            raise ValueError(self._named(str(error))) from error

    def _goes_over_lines(self, lines: bytes) -> bool:
        """Whether values have line ends in them. Raises ValueError if the last quote is not closed."""
        over, quoted = False, False
        for line in lines.split(b"\n") if b'"' in lines else ():
            if quoted or line.count(b'"') % 2:
                quoted = scan(line, self.quoting, quoted=quoted).open
                over = over or quoted
        if quoted:
            raise ValueError("a quote is not closed")
        return over

    def _named(self, error: str) -> str:
        """Replace the column's number in an error's text by its name."""
        found = re.match(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error (.*)", error, re.DOTALL)
        return f"column `{self._names[int(found[1])]}` cannot be converted {found[2]}" if found else error


class JsonParser(LineParser):
    """Each line is a JSON object.

    Missing optional fields are null; fields that the schema lacks are ignored.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        fields = [pa.field(field.name, read_type(field.type)) for field in schema.arrow]
        self._fast = [field for field in fields if arrow_reads(field.type)]
        self._others = [field for field in fields if not arrow_reads(field.type)]
        self._are_plain = all(_is_plain(field.type) for field in fields)
        self._options = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(self._fast), unexpected_field_behavior="ignore"
        )

    def look_at(self, file: str, lines: bytes) -> None:
        """Refuse an optional field that none of these lines has, if they have one of a similar name."""
        absent = [
            name for name in sorted(optional_columns(self._schema)) if f'"{name}"'.encode() not in lines
        ]
        if not absent:
            return
        refuse_folders(file, absent)
        found = {key for line in lines.split(b"\n") for key in _keys(line)}
        for name in absent:
            if name not in found and (
                advice := did_you_mean(name, found - set(self._schema.arrow.names))
            ).startswith("did you mean"):
                raise RidgelineError(
                    f"no line of file `{file}` has the field `{name}`; {advice} "
                    "Name the fields of `schema` as the file does, or leave the field out of `schema`"
                )

    def describe(self) -> str:
        """The expected form of a line."""
        return f"a JSON object for {self._schema.describe()}"

    def parse(self, lines: bytes, count: int) -> pa.RecordBatch:
        """Return the rows, with the columns of the schema."""
        if not count:
            return self._schema.encode([])
        lines.decode()  # Arrow does not look whether it is UTF-8
        try:
            return self._parse(lines, count)
        except MisplacedNullError as error:
            keys = _keys(lines) if count == 1 else {error.field}
            if error.field in keys or error.field not in self._schema.arrow.names:
                raise
            advice = did_you_mean(error.field, keys - set(self._schema.arrow.names) or keys)
            raise ValueError(f"field `{error.field}` is missing; {advice}") from error

    def _parse(self, lines: bytes, count: int) -> pa.RecordBatch:
        """Parse by pyarrow's reader, which looks at whole lines; it has no maps, and changes some floats."""
        if not lines.lstrip().startswith(b"{"):  # of lines that are all `null` Arrow's reader dies
            raise ValueError(_NO_OBJECT)
        if count <= _FEW and self._are_plain and not _UNUSUAL.search(lines):
            # Arrow's reader hands them to a thread, which may wait for a core; it says what is wrong
            with suppress(ValueError, TypeError):
                few = pa.table(self._parse_lines(lines, count, self._fast))
                return _finish(self._schema, few)
        found = self._parse_lines(lines, count, self._others)
        options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        table = pyarrow.json.read_json(pa.BufferReader(lines), options, self._options)
        if table.num_rows != count:
            raise ValueError(f"{count} lines are {table.num_rows} objects; write one object a line")
        if not _an_object_a_line(lines, count):
            raise ValueError(_NO_OBJECT)
        odd = [field for field in self._fast if holds_odd_floats(whole(table.column(field.name)), lines)]
        table = table.drop_columns([field.name for field in odd])
        for name, column in {**found, **self._parse_lines(lines, count, odd)}.items():
            table = table.append_column(name, column)
        return _finish(self._schema, table)

    def _parse_lines(self, lines: bytes, count: int, fields: list[pa.Field]) -> dict[str, pa.Array]:
        """Parse these fields line by line."""
        if not fields:
            return {}
        try:
            objects = [parse_line(line) for line in lines.split(b"\n") if line.strip()]
            if len(objects) != count or not all(isinstance(item, dict) for item in objects):
                raise ValueError(_NO_OBJECT)
            for name in (item.double for item in objects if isinstance(item, Doubled)):
                if name in self._schema.arrow.names:
                    raise ValueError(f"`{name}` is given twice")
            found = {}
            for field in fields:
                value = value_of(field.type)
                found[field.name] = maker(field.type)([value(item.get(field.name)) for item in objects])
        except (AttributeError, ArithmeticError, RecursionError) as error:
            raise ValueError(
                f"{type(error).__name__}: {error}" if isinstance(error, ArithmeticError) else str(error)
            ) from error
        return found


def _an_object_a_line(lines: bytes, count: int) -> bool:
    """True if each of `count` lines is one object, so begins and ends with a brace.

    `lines` are known to be `count` JSON objects one after the other.
    """
    text = lines.strip()
    if not (text.startswith(b"{") and text.endswith(b"}")):
        return False
    if text.count(b"}\n{") + text.count(b"}\r\n{") + 1 == count:
        return True
    found = [line for line in map(bytes.strip, text.split(b"\n")) if line]
    return len(found) == count and all(line.startswith(b"{") and line.endswith(b"}") for line in found)


def _keys(line: bytes) -> set[str]:
    """The field names of the JSON object on a line; empty if it is no object."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return set()
    return set(value) if isinstance(value, dict) else set()


def _no_hexadecimal(text: str) -> None:
    if "x" in text.lower():
        raise ValueError(f"invalid value '{text}', which is hexadecimal")


def schema_faults(operator: Any, formats: Collection[str | None]) -> list[tuple[str, object, str]]:
    """Why the property `schema` of an input of files does not fit their formats."""
    try:
        declared = port_schema(operator, "output")
    except SchemaError:
        return []  # reported with the port
    if declared is None or declared.pickled:
        rule = "must have columns: a NamedTuple, a dataclass or a `pyarrow.Schema`"
        return [("schema", operator.schema, rule)]
    faults: list[tuple[str, object, str]] = []
    schema = declared.arrow
    if "text" in formats and not (len(schema) == 1 and is_text(schema.field(0).type)):
        rule = "must have one column, a `str`, for `format` text"
        faults.append(("schema", declared.describe(), rule))
    if "csv" in formats:
        rule = "is a column that CSV cannot hold; use another `format`"
        odd = [field for field in schema if not csv_reads(field.type)]
        faults += [("schema", f"{field.name}: {field.type}", rule) for field in odd]
    return faults


def csv_reads(kind: pa.DataType) -> bool:
    """True if a CSV file can have a column of this type."""
    return not pa.types.is_nested(kind)


def _csv_type(kind: pa.DataType) -> pa.DataType:
    """The type with which pyarrow reads a CSV column that becomes one of this type."""
    if pa.types.is_timestamp(kind) or pa.types.is_decimal256(kind):
        return pa.string()
    if pa.types.is_dictionary(kind):
        return _csv_type(kind.value_type)
    if pa.types.is_duration(kind):
        return pa.decimal128(38, 9)
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.decimal128(38, kind.scale) if pa.types.is_decimal(kind) else kind


def _finish(schema: Schema, table: pa.Table) -> pa.RecordBatch:
    """Convert a table with the columns as they were read into one batch of the schema."""
    table = table.combine_chunks()
    arrays = []
    for field in schema.arrow:
        try:
            arrays.append(convert(whole(table.column(field.name)), field.type))
        except (pa.ArrowException, ValueError) as error:
            raise ValueError(f"column `{field.name}` cannot be converted to {field.type}: {error}") from error
    return _checked(schema, arrays)


def _checked(schema: Schema, arrays: list[pa.Array]) -> pa.RecordBatch:
    """A batch of these columns. Raises MisplacedNullError."""
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
    refuse_nulls(schema, batch)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        refuse_changing(column, name)
    return batch


def _is_plain(kind: pa.DataType) -> bool:
    """True for the types of numbers, booleans and texts with which Arrow's reader reads most fields."""
    types = pa.types
    return bool(
        types.is_integer(kind) or types.is_float64(kind) or types.is_boolean(kind) or types.is_string(kind)
    )


def is_textual(kind: pa.DataType) -> bool:
    """True for texts and bytes, also where they are encoded as a dictionary."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return is_text(value) or is_bytes(value)

"""Rows as the text that PostgreSQL's COPY takes, and the types of their columns."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ridgeline.operators._json import json_column

_ROW = re.compile(rb'(?:[^"\n]|"(?:[^"]|"")*")*\n')
_INTEGERS = {"int2", "int4", "int8"}
_NUMBERS = _INTEGERS | {"numeric", "float4", "float8", "money"}
_TEXTS = {"text", "varchar", "bpchar", "name", "citext"}
_TIMES = {"timestamp", "timestamptz"}
_NOT_OF_TEXT = _NUMBERS | {"bool", "bytea", *_TIMES, "date", "time", "timetz", "interval"}


def postgres_type(kind: pa.DataType) -> str:
    """The type of a column that is made for an Arrow type."""
    is_ = pa.types
    if is_.is_dictionary(kind):
        return postgres_type(kind.value_type)
    names: dict[Callable[[pa.DataType], bool], str] = {
        is_.is_boolean: "boolean",
        is_.is_uint8: "smallint",
        is_.is_int8: "smallint",
        is_.is_int16: "smallint",
        is_.is_uint16: "integer",
        is_.is_int32: "integer",
        is_.is_uint32: "bigint",
        is_.is_int64: "bigint",
        is_.is_uint64: "numeric(20,0)",
        is_.is_float16: "real",
        is_.is_float32: "real",
        is_.is_float64: "double precision",
        is_.is_date: "date",
        is_.is_time: "time",
        is_.is_duration: "interval",
        is_.is_binary: "bytea",
        is_.is_large_binary: "bytea",
        is_.is_fixed_size_binary: "bytea",
        is_.is_nested: "jsonb",
    }
    if is_.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if is_.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return next((name for matches, name in names.items() if matches(kind)), "text")


def fits(kind: pa.DataType, column: str) -> bool:  # noqa: PLR0911  a case each
    """Whether the values of an Arrow type can be written to a column of a type of PostgreSQL, by its name.

    That of a single value is not looked at: it may be too large.
    """
    is_ = pa.types
    if is_.is_dictionary(kind):
        return fits(kind.value_type, column)
    if column in _TEXTS or is_.is_null(kind):
        return True
    if is_.is_integer(kind):
        return column in _NUMBERS or column == "oid"
    if is_.is_floating(kind) or is_.is_decimal(kind):
        return column in _NUMBERS - _INTEGERS
    if is_.is_boolean(kind):
        return column == "bool"
    if is_.is_timestamp(kind):
        return column in _TIMES
    if is_.is_string(kind) or is_.is_large_string(kind):
        return column not in _NOT_OF_TEXT
    if is_.is_nested(kind):
        return column in {"json", "jsonb"}
    own = {"date": {"date", *_TIMES}, "time": {"time"}, "interval": {"interval"}, "bytea": {"bytea"}}
    return column in own.get(postgres_type(kind), {column})


def copy_text(batch: pa.RecordBatch) -> bytes:
    """The rows as CSV for COPY: null is nothing, all else is in quotes.

    Raises ValueError for a row that PostgreSQL has no value for: it names row, column and remedy.
    """
    columns = [_text(name, column, batch) for name, column in zip(batch.schema.names, batch, strict=True)]
    out = io.BytesIO()
    options = pa.csv.WriteOptions(include_header=False, quoting_style="all_valid", batch_size=65_536)
    pa.csv.write_csv(pa.RecordBatch.from_arrays(columns, batch.schema.names), out, options)
    return out.getvalue()


def split_rows(text: bytes) -> list[bytes]:
    """The rows of such a text."""
    return _ROW.findall(text)


def _text(name: str, column: Any, batch: pa.RecordBatch) -> Any:  # noqa: PLR0911  a case each
    """A column that is written as CSV as PostgreSQL reads it."""
    kind, is_ = column.type, pa.types
    if is_.is_dictionary(kind):
        return _text(name, column.dictionary_decode(), batch)
    if is_.is_string(kind) or is_.is_large_string(kind):
        bad = pc.match_substring(column, "\0")
        if pc.any(bad).as_py():
            row = batch.slice(pc.index(bad, True).as_py(), 1).to_pylist()[0]
            msg = f"column `{name}` has a NUL character, which PostgreSQL's text cannot have, in row {row}"
            msg = f"{msg}; replace it upstream"
            raise ValueError(msg)
        return column
    if is_.is_nested(kind):
        return json_column(column)
    if postgres_type(kind) == "bytea":
        values = column.to_pylist()
        return pa.array([None if one is None else f"\\x{one.hex()}" for one in values], pa.string())
    if is_.is_duration(kind):
        micros = column.cast(pa.duration("us"), safe=False).cast(pa.int64()).to_pylist()
        return pa.array([None if one is None else f"{one} microseconds" for one in micros], pa.string())
    if is_.is_timestamp(kind) and kind.unit == "ns":
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    if is_.is_timestamp(kind) and kind.tz not in {None, "UTC"}:
        return column.cast(pa.timestamp(kind.unit, "UTC"))
    if is_.is_float16(kind):
        return column.cast(pa.float32())
    return column

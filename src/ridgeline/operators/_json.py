"""Arrow columns as JSON values and back.

The forms of values:
- a timestamp: ISO 8601 text (`2026-01-01T00:00:00.000000Z`; without `Z` if the column has no time zone)
- a date or a time of day: ISO 8601 text
- a duration: a number of seconds
- a decimal: text
- bytes: base64 text
- NaN and the infinities, which JSON does not have: null
- a map: an object with its keys as text
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.casting import is_bytes

UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def json_lines(table: pa.Table) -> bytes:
    """Encode a table as UTF-8, one JSON object a line, fields in the order of the schema."""
    pieces: list[object] = []
    for number, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        pieces += [_text(f"{',' if number else '{'}{_encode(name)}:"), _json_texts(column.combine_chunks())]
    lines = (
        pc.binary_join_element_wise(*pieces, _text("}\n"), _text("")).to_pylist()
        if pieces
        else ["{}\n"] * table.num_rows
    )
    return "".join(lines).encode()


def is_list(kind: pa.DataType) -> bool:
    """True for every Arrow type of lists, but not for maps."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _json_texts(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Convert a column (Array or ChunkedArray) to a column of JSON texts."""
    kind, types = column.type, pa.types
    if types.is_integer(kind) or types.is_boolean(kind):
        return column.cast(pa.large_string()).fill_null("null")
    values = _json_column(column)
    encode: Callable[[Any], str] = _encode
    if types.is_floating(kind):
        encode = float.__repr__
    elif (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_timestamp(kind)
        or types.is_decimal(kind)
    ):
        encode = json.encoder.encode_basestring
    return pa.array(["null" if value is None else encode(value) for value in values], pa.large_string())


def _text(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())


def _json_column(column: pa.Array | pa.ChunkedArray) -> list[object]:
    """Convert a column to JSON values: bytes and nested types value by value, other types as a whole."""
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        return _json_column(column.cast(kind.value_type))
    if types.is_floating(kind):
        if not pc.all(pc.is_finite(column), min_count=0).as_py():
            column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
    elif types.is_timestamp(kind):
        text = (column.cast(pa.timestamp(kind.unit, "UTC")) if kind.tz else column).cast(pa.string())
        column = pc.replace_substring(text, " ", "T", max_replacements=1)
    elif types.is_date64(kind):
        column = column.cast(pa.date32()).cast(pa.string())
    elif types.is_date(kind) or types.is_time(kind) or types.is_decimal(kind):
        column = column.cast(pa.string())
    elif types.is_duration(kind):
        units = UNITS_PER_SECOND[kind.unit]
        return [None if value is None else value / units for value in column.cast(pa.int64()).to_pylist()]
    elif is_bytes(kind):
        return [
            None if value is None else base64.b64encode(value).decode("ascii") for value in column.to_pylist()
        ]
    elif types.is_nested(kind):
        return [_json_value(value, kind) for value in column.to_pylist()]
    return list(column.to_pylist())


def _json_value(value: Any, kind: pa.DataType) -> object:  # noqa: PLR0911  one type after the other
    """Convert one Python value from Arrow to a JSON value."""
    if value is None:
        return None
    if is_list(kind):
        return [_json_value(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return {
            str(_json_value(key, kind.key_type)): _json_value(item, kind.item_type) for key, item in value
        }
    if pa.types.is_struct(kind):
        return {field.name: _json_value(value[field.name], field.type) for field in kind}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        text = (
            (value.astimezone(UTC) if value.tzinfo else value)
            .replace(tzinfo=None)
            .isoformat("T", "microseconds")
        )
        return f"{text}Z" if value.tzinfo else text
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value / timedelta(seconds=1)
    if isinstance(value, Decimal):
        return str(value)
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def from_json(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return a function from JSON values to the Python values that Arrow takes for a type.

    The function raises ValueError or TypeError for a value that does not fit.
    """
    types = pa.types
    if is_list(kind):
        inner = from_json(kind.value_type)
        return lambda value: None if value is None else [inner(item) for item in value]
    if types.is_map(kind):
        key_of, item_of = from_json(kind.key_type), from_json(kind.item_type)
        return lambda value: (
            None if value is None else [(key_of(key), item_of(item)) for key, item in value.items()]
        )
    if types.is_struct(kind):
        inners = {field.name: from_json(field.type) for field in kind}
        return lambda value: (
            None if value is None else {name: inner(value.get(name)) for name, inner in inners.items()}
        )
    convert = _scalar_reader(kind)
    return lambda value: None if value is None else convert(value)


def _scalar_reader(kind: pa.DataType) -> Callable[[Any], object]:  # noqa: PLR0911  one type after the other
    """As `from_json`, for types that are not nested; nulls are not passed to the function."""
    types = pa.types
    if types.is_timestamp(kind):
        return _read_timestamp if kind.tz else datetime.fromisoformat
    if types.is_date(kind):
        return date.fromisoformat
    if types.is_time(kind):
        return time.fromisoformat
    if types.is_duration(kind):
        return lambda value: timedelta(seconds=value)
    if types.is_decimal(kind):
        return lambda value: Decimal(str(value))
    if is_bytes(kind):
        return lambda value: base64.b64decode(value, validate=True)
    if types.is_integer(kind):
        return _read_key
    return lambda value: value


def _read_timestamp(value: str) -> datetime:
    moment = datetime.fromisoformat(value)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _read_key(value: object) -> object:
    """Read an int, which is text if it was the key of an object."""
    if isinstance(value, (bool, float)):
        message = f"{value} is not a whole number"
        raise TypeError(message)
    return int(value) if isinstance(value, str) else value

"""Families of Arrow's types: what other systems have one type for, or one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ridgeline.api.columns.casting import is_bytes, is_list, is_text

_FAMILIES: Mapping[str, Callable[[pa.DataType], bool]] = {
    "null": pa.types.is_null,
    "boolean": pa.types.is_boolean,
    "integer": pa.types.is_integer,
    "floating": pa.types.is_floating,
    "decimal": pa.types.is_decimal,
    "text": is_text,
    "bytes": is_bytes,
    "timestamp": pa.types.is_timestamp,
    "date": pa.types.is_date,
    "time": pa.types.is_time,
    "duration": pa.types.is_duration,
    "list": is_list,
    "map": pa.types.is_map,
    "struct": pa.types.is_struct,
}
NESTED = ("list", "map", "struct")
NUMBERS = ("integer", "floating", "decimal")
_ZEROS: Mapping[str, Any] = {
    "boolean": False,
    "decimal": Decimal(0),
    "text": "",
    "timestamp": datetime(1970, 1, 1, tzinfo=UTC),
    "date": date(1970, 1, 1),
    "time": time(0),
    "duration": timedelta(0),
    "list": [],
    "map": [],
}


def family(kind: pa.DataType) -> str:
    """The family of a type, for a dictionary that of its values; "other" for what has none.

    >>> family(pa.large_string()), family(pa.dictionary(pa.int8(), pa.time64("us")))
    ('text', 'time')
    """
    kind = plain(kind)
    return next((name for name, has in _FAMILIES.items() if has(kind)), "other")


def plain(kind: pa.DataType) -> pa.DataType:
    """The type of values: of a dictionary that of its values."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def zero(kind: pa.DataType) -> Any:
    """The zero of a type, for a column that may not be null: 0, an empty text, the beginning of 1970."""
    kind = plain(kind)
    if pa.types.is_struct(kind):
        return {field.name: zero(field.type) for field in kind}
    if is_bytes(kind):
        return bytes(kind.byte_width) if pa.types.is_fixed_size_binary(kind) else b""
    return _ZEROS.get(family(kind), 0)

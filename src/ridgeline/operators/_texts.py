"""Texts of files as values: each equals what its text says, or is refused.

CSV and JSON lines are read into a few types, by pyarrow or line by line. Here the columns of the schema are
made of them, by the same rules for both and at every depth.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.columns.casting import (
    cast_exactly,
    is_bytes,
    is_list,
    is_text,
    list_entries,
    lists_of,
    map_entries,
    maps_of,
    nulls_of,
)

DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""The digits after the point of seconds in a unit of time."""
_ZONED = r":\d\d[.\d]*\s*(Z|[+-]\d\d(:?\d\d)?)$"
_HOUR = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")
_WHOLE = re.compile(r"[+-]?\d+")
_NO_ZERO = re.compile(r"[^eE]*[1-9]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SPECIAL = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_LARGEST_EXACT = 2.0**53
_INTEGER_KEY = r"^(0|-?[1-9][0-9]*)$"
_TRUTHS = {"true": True, "True": True, "false": False, "False": False}
_TINY = re.compile(rb"[eE]-0*[3-9]\d\d")


def float_of(text: str) -> float:
    """The float of a text. Raises ValueError for what a float cannot be.

    Digits alone are an integer, which a float must equal. With a point or an exponent they are rounded to the
    nearest float, but not to infinity or zero.
    """
    text = text.strip()
    if _SPECIAL.fullmatch(text):
        return float(text)
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is no number")
    value = float(text)
    if np.isinf(value):
        raise ValueError(f"Number too big to be stored in double: {text}")
    if not value and _NO_ZERO.match(text):
        raise ValueError(f"Number too small to be stored in double: {text}")
    if abs(value) >= _LARGEST_EXACT and _WHOLE.fullmatch(text) and int(text) != int(value):
        raise ValueError(f"no float equals {text}")
    return value


def odd_floats(column: pa.Array, text: bytes) -> pa.Array | None:
    """Where floats may differ from their texts: `float_of` must look at these. None if nowhere.

    `text`: of the whole block. pyarrow makes infinity of too large numbers, and 0 of too small ones.
    """
    mask = pc.or_kleene(pc.greater_equal(pc.abs(column), _LARGEST_EXACT), pc.invert(pc.is_finite(column)))
    zeros = pc.equal(column, 0.0)
    if pc.any(zeros, min_count=0).as_py() and (
        b"0" * 300 in text or ((b"e-" in text or b"E-" in text) and _TINY.search(text))
    ):
        mask = pc.or_(mask, zeros)
    mask = mask.fill_null(False)  # noqa: FBT003  a value
    return mask if pc.any(mask, min_count=0).as_py() else None


def holds_odd_floats(column: Any, text: bytes) -> bool:
    """True if one of the floats in a column, at any depth, may differ from its text."""
    kind = column.type
    if pa.types.is_floating(kind):
        return odd_floats(column, text) is not None
    if pa.types.is_struct(kind):
        return any(holds_odd_floats(part, text) for part in column.flatten())
    return is_list(kind) and holds_odd_floats(list_entries(column)[0], text)


def convert(column: Any, kind: Any) -> pa.Array:  # noqa: PLR0911  one type after the other
    """Convert a column as it was read into the schema's type. Raises ValueError or an Arrow exception."""
    types = pa.types
    if "decimal" in str(column.type):
        column.validate(full=True)  # pyarrow's readers do not count all digits
    if column.type == kind:
        return column
    if types.is_dictionary(kind):
        return cast_exactly(convert(column, kind.value_type), kind)
    if types.is_nested(kind):
        return _convert_nested(column, kind)
    if types.is_duration(kind):
        units = column.cast(pa.decimal128(38, DIGITS[kind.unit]))  # raises for what is finer
        return units.view(pa.decimal128(38, 0)).cast(pa.int64()).cast(kind)
    if types.is_timestamp(kind):
        return _timestamps(column, kind)
    if types.is_date64(kind):
        return column.cast(pa.date32()).cast(kind)
    if types.is_time(kind):
        nanoseconds = pa.array(_each(column, _nanoseconds), pa.int64())
        return cast_exactly(nanoseconds.cast(pa.time64("ns")), kind)
    if is_bytes(kind):
        return pa.array(_each(column, lambda text: base64.b64decode(text, validate=True)), kind)
    if types.is_date(kind) or is_text(kind) or (types.is_decimal(kind) and is_text(column.type)):
        return column.cast(kind)
    return cast_exactly(column, kind)


def _convert_nested(column: Any, kind: Any) -> pa.Array:
    """`convert` of lists, maps and structs."""
    if is_list(kind):
        items, bounds = list_entries(column)
        return lists_of(convert(items, kind.value_type), bounds, nulls_of(column), kind)
    if pa.types.is_map(kind):
        keys, items, bounds = map_entries(column)
        return maps_of(
            _keys(keys, kind.key_type), convert(items, kind.item_type), bounds, nulls_of(column), kind
        )
    parts = [convert(part, field.type) for part, field in zip(column.flatten(), kind, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=nulls_of(column))


def _keys(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Keys of JSON objects, which are texts, as a type. Raises ValueError or an Arrow exception."""
    types = pa.types
    if types.is_integer(kind):
        if not pc.all(pc.match_substring_regex(texts, _INTEGER_KEY), min_count=0).as_py():
            wrong = texts.filter(pc.invert(pc.match_substring_regex(texts, _INTEGER_KEY)))[0]
            raise ValueError(f"the key {wrong.as_py()!r} is not a whole number")
        return texts.cast(kind)
    if types.is_floating(kind):
        return cast_exactly(pa.array(_each(texts, float_of), pa.float64()), kind)
    if types.is_boolean(kind):
        wrong = [text for text in texts.to_pylist() if text not in _TRUTHS]
        if wrong:
            raise ValueError(f"the key {wrong[0]!r} is neither true nor false")
        return pa.array(_each(texts, _TRUTHS.__getitem__), pa.bool_())
    if types.is_duration(kind):
        return convert(texts.cast(pa.decimal128(38, 9)), kind)
    if types.is_decimal(kind):
        return texts.cast(kind)
    return convert(texts, kind)


def _each(column: pa.Array, function: Callable[[str], Any]) -> list[Any]:
    return [None if value is None else function(value) for value in column.to_pylist()]


def _nanoseconds(text: str) -> int:
    """The nanoseconds since midnight of a time of day such as `12:34:56.5`. Raises ValueError."""
    found = _HOUR.fullmatch(text)
    hour, minute, second = (int(found[part] or 0) for part in (1, 2, 3)) if found else (24, 0, 0)
    if found is None or hour > 23 or minute > 59 or second > 59:  # noqa: PLR2004  of a clock
        raise ValueError(f"{text!r} is no time of day without a zone, such as 12:34:56.5")
    return ((hour * 60 + minute) * 60 + second) * 10**9 + int((found[4] or "").ljust(9, "0"))


def _timestamps(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert ISO 8601 text, a date with or without a time, to timestamps; without a zone it is UTC."""
    naive = pa.timestamp(kind.unit)
    if not kind.tz:
        return text.cast(naive)
    zoned = pc.match_substring_regex(text, _ZONED)
    if pc.all(zoned, min_count=0).as_py():
        return text.cast(kind)
    if not pc.any(zoned, min_count=0).as_py():
        return text.cast(naive).cast(kind)
    nothing = pa.scalar(None, pa.string())
    return pc.coalesce(
        pc.if_else(zoned, text, nothing).cast(kind), pc.if_else(zoned, nothing, text).cast(naive).cast(kind)
    )

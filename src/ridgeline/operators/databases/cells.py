"""Values of databases as Arrow columns: none is rounded, cut, or taken for another one."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ridgeline.api.columns.casting import is_bytes, is_text
from ridgeline.operators._json import parse_line, read_type, value_of
from ridgeline.operators._texts import convert

Clean = Callable[[Any], Any]
_FINER = re.compile(r"[.,]\d{7}")
_EXACT = 2**53
FAULTS = (ValueError, TypeError, OverflowError, pa.ArrowException)
"""The errors of `column_of`."""


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values as a column of an Arrow type. Raises one of `FAULTS` for a value that does not fit."""
    if pa.types.is_dictionary(kind):
        return column_of(values, kind.value_type).cast(kind)
    if pa.types.is_nested(kind):
        return _nested(values, kind)
    own, clean = _rules(kind)
    if not {type(value) for value in values} <= {*own, type(None)}:
        values = [None if value is None else clean(value) for value in values]
    return pa.array(values, kind)


def _rules(kind: pa.DataType) -> tuple[tuple[type, ...], Clean]:  # noqa: PLR0911  a case each
    """The Python types of values that are taken as they are, and what makes others fit."""
    is_ = pa.types
    if is_.is_boolean(kind):
        return (bool,), _truth
    if is_.is_integer(kind):
        return (int,), _whole
    if is_.is_floating(kind):
        return (float,), _float
    if is_.is_decimal(kind):
        return (Decimal,), _decimal
    if is_text(kind):
        return (str,), _text
    if is_bytes(kind):
        return (bytes,), _bytes
    if is_.is_date(kind):
        return (dt.date,), _date
    if is_.is_time(kind):
        return (dt.time,), _time
    if is_.is_timestamp(kind):
        return (dt.datetime,), _moment if kind.unit == "ns" else _microseconds
    if is_.is_duration(kind):
        return (dt.timedelta,), _duration
    return (), lambda value: value


def _nested(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Lists, structs and maps: as they are, or from JSON texts."""
    if not any(isinstance(value, (str, bytes)) for value in values):
        return pa.array(values, kind)
    read = value_of(kind)
    texts = [value.encode() if isinstance(value, str) else value for value in values]
    return convert(
        pa.array([None if text is None else read(parse_line(text)) for text in texts], read_type(kind)), kind
    )


def _unfit(value: object, what: str) -> TypeError:
    return TypeError(f"{value!r} is no {what}")


def _truth(value: Any) -> bool:
    number = int.from_bytes(value, "big") if isinstance(value, bytes) else value
    if number not in (0, 1):
        raise _unfit(value, "boolean")
    return bool(number)


def _whole(value: Any) -> int:
    if isinstance(value, bytes):  # a column of bits
        return int.from_bytes(value, "big")
    if isinstance(value, (int, Decimal)) and value == int(value):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    raise _unfit(value, "whole number")


def _float(value: Any) -> float:
    if isinstance(value, int) and abs(value) > _EXACT:
        raise _unfit(value, "float without being rounded")
    if isinstance(value, (int, float, Decimal)):
        return float(value)
    raise _unfit(value, "number")


def _decimal(value: Any) -> Decimal:
    if isinstance(value, (int, Decimal)):
        return Decimal(value)
    if isinstance(value, float):
        return Decimal(repr(value))
    try:
        return Decimal(value)
    except (ArithmeticError, TypeError) as error:
        raise _unfit(value, "decimal") from error


def _text(value: Any) -> str:
    if isinstance(value, (str, uuid.UUID, ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return str(value)
    raise _unfit(value, "text")


def _bytes(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, uuid.UUID):
        return value.bytes
    raise _unfit(value, "bytes")


def _date(value: Any) -> dt.date:
    if isinstance(value, str):
        value = _read(value, dt.date.fromisoformat if ":" not in value else dt.datetime.fromisoformat, "date")
    if isinstance(value, dt.datetime):
        if value.time() != dt.time() or value.tzinfo is not None:
            raise _unfit(str(value), "date")
        return value.date()
    if isinstance(value, dt.date):
        return value
    raise _unfit(value, "date")


def _moment(value: Any) -> dt.datetime:
    if isinstance(value, str):
        value = _read(value, dt.datetime.fromisoformat, "datetime")
    if isinstance(value, dt.datetime):
        return value
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time())
    raise _unfit(value, "datetime")


def _microseconds(value: Any) -> dt.datetime:
    """A time without parts of microseconds: that of pandas, which pyarrow returns, may have some."""
    moment = _moment(value)
    if getattr(moment, "nanosecond", 0):
        raise _unfit(str(value), "datetime of whole microseconds")
    return moment


def _time(value: Any) -> dt.time:
    if isinstance(value, str):
        value = _read(value, dt.time.fromisoformat, "time of day")
    if isinstance(value, dt.timedelta) and dt.timedelta() <= value < dt.timedelta(days=1):
        return (dt.datetime(2000, 1, 1, tzinfo=dt.UTC) + value).time()
    if isinstance(value, dt.time):
        return value
    raise _unfit(str(value), "time of day")


def _duration(value: Any) -> dt.timedelta:
    if isinstance(value, dt.timedelta):
        return value
    if isinstance(value, pa.MonthDayNano):
        months, days, nanoseconds = value
        if not months and not nanoseconds % 1000:
            return dt.timedelta(days=days, microseconds=nanoseconds // 1000)
    elif isinstance(value, int) and not isinstance(value, bool):
        return dt.timedelta(microseconds=value)
    raise _unfit(value, "timedelta")


def _read(text: str, parse: Clean, what: str) -> Any:
    """A text of ISO 8601. Raises TypeError if it is none, or has parts of microseconds."""
    try:
        parsed = parse(text)
    except ValueError as error:
        raise _unfit(text, what) from error
    if _FINER.search(text):
        raise _unfit(text, f"{what} of whole microseconds")
    return parsed

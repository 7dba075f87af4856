"""Which values SQLite would change for a column, by the type that the table declares for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ridgeline.api.columns.casting import is_text

_NUMERIC = {"INTEGER", "NUMERIC", "REAL"}
_NUMBER = re.compile(r"[ \t\n\v\f\r]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[ \t\n\v\f\r]*", re.ASCII)
_EXACT = 2**53
_DIGITS = 15
"""SQLite keeps so many digits where a text becomes a float, and a float a text."""


def affinity(declared: str) -> str:
    """The affinity of a column with a declared type: TEXT, BLOB, INTEGER, REAL or NUMERIC.

    See https://www.sqlite.org/datatype3.html, 3.1.
    """
    declared = declared.upper()
    if "INT" in declared:
        return "INTEGER"
    if any(part in declared for part in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if not declared or "BLOB" in declared:
        return "BLOB"
    return "REAL" if any(part in declared for part in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def changes(kind: pa.DataType, column: str) -> Callable[[Any], bool] | None:
    """Whether SQLite would change a value of an Arrow type, as it is stored; None if it changes none.

    `column`: the affinity of the column.
    """
    is_ = pa.types
    if is_.is_dictionary(kind):
        return changes(kind.value_type, column)
    if column in _NUMERIC and is_text(kind):
        return lambda text: _NUMBER.fullmatch(text) is not None and not _same_text(text, column)
    if column in _NUMERIC and is_.is_decimal(kind):
        return lambda text: not _same_decimal(text, column)
    if column == "REAL" and (is_.is_integer(kind) or is_.is_duration(kind)):
        return lambda number: abs(number) > _EXACT
    if column == "TEXT" and is_.is_floating(kind):
        return lambda number: float(format(number, f".{_DIGITS}g")) != number
    return None


def _same_text(text: str, column: str) -> bool:
    """Whether the number that SQLite makes of a text has this text."""
    number = float(text)
    if column != "REAL" and number.is_integer():
        return text.removeprefix("-").isdigit() and text == str(int(text)) and _is_64_bits(int(text))
    return text == repr(number) and _digits(text) <= _DIGITS


def _same_decimal(text: str, column: str) -> bool:
    """Whether the number that SQLite makes of a decimal has all its digits."""
    if column != "REAL" and text.removeprefix("-").isdigit() and _is_64_bits(int(text)):
        return True
    return _digits(text) <= _DIGITS


def _is_64_bits(number: int) -> bool:
    return -(2**63) <= number < 2**63


def _digits(text: str) -> int:
    """The significant digits of a number."""
    return len("".join(map(str, Decimal(text).as_tuple().digits)).strip("0"))

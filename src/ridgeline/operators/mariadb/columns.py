"""Columns of a table of MariaDB: which type is made, which fits, and which values would be changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.errors import RidgelineError

_LARGEST_DECIMAL, _LARGEST_SCALE = 65, 38
_KEY_CHARACTERS = 768
"""Characters of utf8mb4 that an index of InnoDB holds."""
_EXACT = 2**53
_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint"}
_NUMBERS = {*_INTEGERS, "decimal", "double", "float"}
_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json"}
_OF_TEXT = {*_TEXTS, "enum", "uuid", "inet4", "inet6"}
_BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}


class Column(NamedTuple):
    """A column of a table.

    `kind`: its type without length. `full`: with it. `needs`: rows need a value of it. `nullable`: it may
    be null. `collation`: how texts are compared, "" for all else. `digits`: of a second's fraction.
    """

    kind: str
    full: str
    needs: bool
    nullable: bool
    collation: str
    digits: int

    @property
    def exact(self) -> bool:
        """Whether different values are different keys, too."""
        if self.collation:
            return "nopad_bin" in self.collation or self.collation == "utf8mb4_0900_bin"
        return self.kind in {*_INTEGERS, *_BYTES, "decimal", "date", "datetime", "timestamp", "time"}

    @property
    def members(self) -> list[str]:
        """The texts of an enum."""
        return [text.replace("''", "'") for text in re.findall(r"'((?:[^']|'')*)'", self.full)]


def column_type(kind: pa.DataType, *, keys: int = 0) -> str:
    """The type of a column that is made for an Arrow type. `keys`: it is one of so many columns of the key.

    Raises RidgelineError for a decimal that is too large.
    """
    is_ = pa.types
    if is_.is_dictionary(kind):
        return column_type(kind.value_type, keys=keys)
    if is_.is_decimal(kind):
        scale = max(kind.scale, 0)
        digits = kind.precision - min(kind.scale, 0)
        if digits > _LARGEST_DECIMAL or scale > _LARGEST_SCALE:
            msg = f"MariaDB has no type for {kind}: a decimal has at most {_LARGEST_DECIMAL} digits, "
            raise RidgelineError(msg + f"{_LARGEST_SCALE} of them after the point; cast it upstream")
        return f"decimal({digits},{scale})"
    names: dict[Callable[[pa.DataType], bool], str] = {
        is_.is_boolean: "tinyint(1)",
        is_.is_int8: "tinyint",
        is_.is_uint8: "tinyint unsigned",
        is_.is_int16: "smallint",
        is_.is_uint16: "smallint unsigned",
        is_.is_int32: "int",
        is_.is_uint32: "int unsigned",
        is_.is_int64: "bigint",
        is_.is_uint64: "bigint unsigned",
        is_.is_duration: "bigint",
        is_.is_floating: "double",
        is_.is_date: "date",
        is_.is_time: "time(6)",
        is_.is_timestamp: "datetime(6)",
        is_.is_nested: "json",
    }
    made = next((name for matches, name in names.items() if matches(kind)), "")
    if made:
        return made
    length = min(255, _KEY_CHARACTERS // keys) if keys else 0
    if is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind):
        return f"varbinary({length})" if keys else "longblob"
    return f"varchar({length})" if keys else "longtext"


def fits(kind: pa.DataType, column: Column) -> bool:  # noqa: C901, PLR0911  a case each
    """Whether values of an Arrow type can be written to a column; that of a single value is not looked at."""
    is_, name = pa.types, column.kind
    if is_.is_dictionary(kind):
        return fits(kind.value_type, column)
    if is_.is_null(kind):
        return True
    if is_.is_boolean(kind):
        return name in _INTEGERS or name == "bit"
    if is_.is_integer(kind):
        return name in _NUMBERS - {"float"}
    if is_.is_duration(kind):
        return name in {*_INTEGERS, "decimal"}
    if is_.is_floating(kind):
        return name in {"double", "decimal"} or (name == "float" and kind != pa.float64())
    if is_.is_decimal(kind):
        return name == "decimal"
    if is_.is_timestamp(kind):
        return name == "datetime" or (name == "timestamp" and kind.tz is not None)
    if is_.is_date(kind):
        return name in {"date", "datetime"}
    if is_.is_time(kind):
        return name == "time"
    if is_.is_nested(kind):
        return name in _TEXTS - {"char"}
    if is_.is_string(kind) or is_.is_large_string(kind):
        return name in _OF_TEXT
    return name in _BYTES


def changed(column: Column, kind: pa.DataType, texts: Any) -> Iterator[tuple[Any, str]]:
    """Which values the server would change without a word, as masks, and what it would do to them.

    `texts`: values of an Arrow type as literals of SQL, null for null. Not among them are values that strict
    mode refuses, or that the server warns of. A mask is null for a value that is null.
    """
    is_, name = pa.types, column.kind
    kind = kind.value_type if is_.is_dictionary(kind) else kind
    if not column.nullable and texts.null_count:  # else the time of now, or the next number
        yield texts.is_null(), "is null, and the column may not be"
    if name in {"datetime", "timestamp", "time"} and column.digits < 6 and not is_.is_date(kind):  # noqa: PLR2004
        zeros = "0" * (6 - column.digits)
        yield pc.invert(pc.ends_with(texts, f"{zeros}'")), f"would be cut to {column.full}"
    if name == "double" and is_.is_integer(kind):
        yield pc.greater_equal(pc.abs(texts.cast(pa.float64())), _EXACT), "would be rounded to double"
    if name == "char":
        yield pc.ends_with(texts, " '"), "ends with a space, which char cuts off"
    if name == "binary":
        length = 2 * int(re.sub(r"\D", "", column.full) or 1) + 3
        yield pc.not_equal(pc.binary_length(texts), length), f"would be filled up to {column.full}"
    if name == "enum":
        members = pa.array([literal(member) for member in column.members], texts.type)
        yield pc.and_(pc.invert(pc.is_in(texts, members)), texts.is_valid()), f"is not in {column.full}"


def literal(text: str) -> str:
    """A text as SQL has it, in strict mode with backslashes."""
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0")
    return f"'{escaped}'"


def described(fields: Sequence[pa.Field], key: Sequence[str]) -> list[tuple[str, str]]:
    """Names and types of the columns of a table that is made. Raises RidgelineError."""
    return [
        (field.name, column_type(field.type, keys=len(key) if field.name in key else 0)) for field in fields
    ]

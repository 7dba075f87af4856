"""The types of MariaDB's columns, and the values of rows as its SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.errors import RidgelineError
from ridgeline.connectors.sql.tables import DELETED
from ridgeline.operators._json import json_column
from ridgeline.operators._kinds import NESTED, family

_LARGEST_DECIMAL, _LARGEST_SCALE = 65, 38
_KEY_CHARACTERS = 768
"""Characters of utf8mb4 that an index of InnoDB holds."""
_EXACT = 2**53
_MADE: Mapping[str, str] = {
    "boolean": "tinyint(1)",
    "int8": "tinyint",
    "uint8": "tinyint unsigned",
    "int16": "smallint",
    "uint16": "smallint unsigned",
    "int32": "int",
    "uint32": "int unsigned",
    "int64": "bigint",
    "uint64": "bigint unsigned",
    "duration": "bigint",
    "floating": "double",
    "date": "date",
    "time": "time(6)",
    "timestamp": "datetime(6)",
    **dict.fromkeys(NESTED, "json"),
}
"""The types of columns that are made, by a type of Arrow or its family."""
_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint"}
_NUMBERS = {*_INTEGERS, "decimal", "double", "float"}
_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json"}
_BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_FITTING: Mapping[str, set[str]] = {
    "boolean": {*_INTEGERS, "bit"},
    "integer": _NUMBERS - {"float"},
    "duration": {*_INTEGERS, "decimal"},
    "floating": {"double", "decimal", "float"},
    "decimal": {"decimal"},
    "timestamp": {"datetime", "timestamp"},
    "date": {"date", "datetime"},
    "time": {"time"},
    "text": {*_TEXTS, "enum", "uuid", "inet4", "inet6"},
    **dict.fromkeys(NESTED, _TEXTS - {"char"}),
}
"""The types of columns that a family of Arrow's types can be written to."""
ENGINE = """select t.table_type, t.engine, e.transactions from information_schema.tables t
    left join information_schema.engines e on e.engine = t.engine
    where t.table_schema = %s and t.table_name = %s"""
"""The query for a table's kind and engine, and whether that has transactions."""


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
    if pa.types.is_dictionary(kind):
        return column_type(kind.value_type, keys=keys)
    if pa.types.is_decimal(kind):
        scale = max(kind.scale, 0)
        digits = kind.precision - min(kind.scale, 0)
        if digits > _LARGEST_DECIMAL or scale > _LARGEST_SCALE:
            msg = f"MariaDB has no type for {kind}: a decimal has at most {_LARGEST_DECIMAL} digits, "
            raise RidgelineError(msg + f"{_LARGEST_SCALE} of them after the point; cast it upstream")
        return f"decimal({digits},{scale})"
    if made := _MADE.get(str(kind)) or _MADE.get(family(kind)):
        return made
    length = min(255, _KEY_CHARACTERS // keys) if keys else 0
    if family(kind) == "bytes":
        return f"varbinary({length})" if keys else "longblob"
    return f"varchar({length})" if keys else "longtext"


def fits(kind: pa.DataType, column: Column) -> bool:
    """Whether values of an Arrow type can be written to a column; that of a single value is not looked at."""
    found = family(kind)
    if column.kind == "float" and kind == pa.float64():
        return False
    if column.kind == "timestamp" and found == "timestamp" and kind.tz is None:
        return False
    return found == "null" or column.kind in _FITTING.get(found, _BYTES)


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


_NULL = pa.scalar("NULL", pa.large_string())


def literals(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The values of each column as literals of SQL; null stays null, `DELETED` stays as it is.

    Raises ValueError for a number that MariaDB does not have: it names row, column and remedy.
    """
    columns = [
        column if name == DELETED else _literals(name, column, batch)
        for name, column in zip(batch.schema.names, batch, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def tuples(data: pa.Table, names: Sequence[str]) -> list[str]:
    """The rows of columns of literals as tuples of SQL: `(1,'IBM',1.25e0)`."""
    columns = [pc.fill_null(data.column(name).combine_chunks(), _NULL) for name in names]
    joined = pc.binary_join_element_wise(*columns, pa.scalar(",", pa.large_string()))
    texts: list[str] = joined.to_pylist()
    return [f"({text})" for text in texts]


def _text(value: str) -> pa.Scalar[Any]:
    return pa.scalar(value, pa.large_string())


def _quoted(column: Any) -> Any:
    return pc.binary_join_element_wise(_text("'"), column.cast(pa.large_string()), _text("'"), _text(""))


def _literals(name: str, column: Any, batch: pa.RecordBatch) -> Any:
    """A column as literals."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _literals(name, column.dictionary_decode(), batch)
    found = family(kind)
    if found == "floating":
        return _floats(name, column.cast(pa.float64()), batch)
    if found == "timestamp":
        naive = column.cast(pa.timestamp("us", kind.tz), safe=False)
        return _quoted((naive.cast(pa.timestamp("us", "UTC")) if kind.tz else naive).cast(pa.timestamp("us")))
    return _LITERALS[found](column)


def _of_values(text: Callable[[Any], str]) -> Callable[[Any], Any]:
    """Literals that are made value by value."""
    return lambda column: pa.array(
        [None if one is None else text(one) for one in column.to_pylist()], pa.large_string()
    )


def _escaped(column: Any) -> Any:
    """Texts in quotes."""
    column = column.cast(pa.large_string())
    for plain, escaped in (("\\", "\\\\"), ("'", "''"), ("\0", "\\0")):
        column = pc.replace_substring(column, plain, escaped)
    return _quoted(column)


def _floats(name: str, column: Any, batch: pa.RecordBatch) -> Any:
    """Floats with all their digits. Raises ValueError for NaN and the infinities."""
    wrong = pc.invert(pc.is_finite(column))
    if pc.any(wrong).as_py():
        row = batch.slice(pc.index(wrong, True).as_py(), 1).to_pylist()[0]
        raise ValueError(
            f"column `{name}` is no finite number in row {row}, and MariaDB has no other; replace it upstream"
        )
    return _of_values(_float)(column)


def _float(value: float) -> str:
    text = repr(value)
    return text if "e" in text else f"{text}e0"


_LITERALS: Mapping[str, Callable[[Any], Any]] = {
    "null": lambda column: column.cast(pa.large_string()),
    "boolean": lambda column: column.cast(pa.int8()).cast(pa.large_string()),
    "integer": lambda column: column.cast(pa.large_string()),
    "decimal": _of_values(lambda value: format(value, "f")),
    "duration": lambda column: (
        column.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(pa.large_string())
    ),
    "time": lambda column: _quoted(column.cast(pa.time64("us"), safe=False)),
    "date": lambda column: _quoted(column.cast(pa.date32())),
    "text": _escaped,
    "bytes": _of_values(lambda value: f"x'{value.hex()}'"),
    **dict.fromkeys(NESTED, lambda column: _escaped(json_column(column))),
}
"""How columns become literals, by the family of their type."""

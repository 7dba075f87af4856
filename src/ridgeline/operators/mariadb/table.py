"""The table that `MariaDbOutput` writes to: it is made, or compared with the stream; its rows as SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.errors import RidgelineError
from ridgeline.operators._json import json_column
from ridgeline.operators.databases.tables import DELETED, TableSink
from ridgeline.operators.mariadb.connecting import listed, quoted, quoted_column

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


_COLUMNS = """select column_name, data_type, column_type, is_nullable = 'YES', column_default is null,
    extra, generation_expression, collation_name, datetime_precision
    from information_schema.columns where table_schema = %s and table_name = %s order by ordinal_position"""
_ENGINE = """select t.table_type, t.engine, e.transactions from information_schema.tables t
    left join information_schema.engines e on e.engine = t.engine
    where t.table_schema = %s and t.table_name = %s"""
_UNIQUE = """select index_name, column_name, sub_part from information_schema.statistics
    where table_schema = %s and table_name = %s and non_unique = 0"""


class Table:
    """A table at the server, as it was found.

    `columns`: by name. `sole`: it has no unique index but that of the key.
    """

    def __init__(self, sink: TableSink, execute: Callable[..., Any], database: str) -> None:
        self._sink, self._target, self._execute = sink, sink.target, execute
        schema, dot, name = self._target.name.partition(".")
        self._place = (schema, name) if dot else (database, self._target.name)
        self.columns: Mapping[str, Column] = {}
        self.sole = True

    def settle(self, schema: pa.Schema, version: str) -> None:
        """Make the table if it is missing, and compare it. Raises RidgelineError, with the remedy.

        `version`: what the server says of itself.
        """
        fields = self._sink.written(schema)
        if not self._place[0]:
            self._sink.fault("no database is named", "name one in `url` or `table`")
        self.columns = self._read()
        if not self.columns:
            self._sink.refuse_missing()
            self._create(fields, version)
            self.columns = self._read()
        check_engine(self._sink, self._execute, *self._place)
        table = quoted(self._target.name)
        self._sink.compare(
            fields,
            self.columns,
            fits=fits,
            add=lambda one: (
                f"alter table {table} add column {quoted_column(one.name)} {column_type(one.type)}"
            ),
            shown=lambda column: column.full,
            needed=[name for name, column in self.columns.items() if column.needs],
        )
        if self._target.key:
            self._compare_key()

    def _read(self) -> dict[str, Column]:
        """The columns; none if the table is missing."""
        found = {}
        for name, kind, full, nullable, bare, extra, generated, collation, digits in self._execute(
            _COLUMNS, self._place
        ):
            made = "auto_increment" in (extra or "") or bool(generated)
            needs = bool(bare) and not nullable and not made
            found[name] = Column(
                kind.lower(), full, needs, bool(nullable), collation or "", 6 if digits is None else digits
            )
        return found

    def _create(self, fields: Sequence[Any], version: str) -> None:
        """Make the table, unless another one has just made it."""
        target = self._target
        columns = [_defined(name, kind) for name, kind in described(fields, target.key)]
        if target.key:
            columns.append(f"primary key ({listed(target.key)})")
        collation = "utf8mb4_nopad_bin" if "MariaDB" in version else "utf8mb4_0900_bin"
        options = f"engine = InnoDB character set utf8mb4 collate {collation}"
        self._execute(f"create table if not exists {quoted(target.name)} ({', '.join(columns)}) {options}")

    def _compare_key(self) -> None:
        """Refuse a key without a unique index, and one where another one could be meant."""
        target = self._target
        indexes: dict[str, set[Any]] = {}
        for index, column, part in self._execute(_UNIQUE, self._place):
            indexes.setdefault(index, set()).add((column, part))
        wanted = {(name, None) for name in target.key}
        others = [index for index, columns in indexes.items() if columns != wanted]
        if len(others) == len(indexes):
            self._sink.refuse_key()
        self.sole = not others
        nullable = [name for name in target.key if self.columns[name].nullable]
        if others and nullable:
            what = f"column `{nullable[0]}` of the key may be null, and `{others[0]}` is unique, too"
            self._sink.fault(what, "declare the column as not null")


def _defined(name: str, kind: str) -> str:
    """The definition of a column in SQL."""
    return f"{quoted_column(name)} {kind}"


def check_engine(sink: TableSink, execute: Callable[..., Any], database: str, name: str) -> None:
    """Refuse a view, and a table without transactions: what failed there would stay there."""
    for kind, engine, transactions in execute(_ENGINE, (database, name)):
        if kind not in {"BASE TABLE", "SYSTEM VERSIONED"}:
            sink.fault(f"`{name}` is a {kind.lower()}", "write to the table beneath it")
        if transactions != "YES":
            remedy = f"alter table {quoted(f'{database}.{name}')} engine = InnoDB"
            sink.fault(
                f"the engine of `{name}`, {engine}, has no transactions, so rows could be twice", remedy
            )


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
    columns = [pc.fill_null(_whole(data.column(name)), _NULL) for name in names]
    joined = pc.binary_join_element_wise(*columns, pa.scalar(",", pa.large_string()))
    texts: list[str] = joined.to_pylist()
    return [f"({text})" for text in texts]


def _whole(column: Any) -> Any:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.large_string())


def _text(value: str) -> pa.Scalar[Any]:
    return pa.scalar(value, pa.large_string())


def _quoted(column: Any) -> Any:
    return pc.binary_join_element_wise(_text("'"), column.cast(pa.large_string()), _text("'"), _text(""))


def _literals(name: str, column: Any, batch: pa.RecordBatch) -> Any:  # noqa: C901, PLR0911  a case each
    """A column as literals."""
    kind, is_ = column.type, pa.types
    if is_.is_dictionary(kind):
        return _literals(name, column.dictionary_decode(), batch)
    if is_.is_null(kind):
        return column.cast(pa.large_string())
    if is_.is_boolean(kind):
        return column.cast(pa.int8()).cast(pa.large_string())
    if is_.is_integer(kind):
        return column.cast(pa.large_string())
    if is_.is_floating(kind):
        return _floats(name, column.cast(pa.float64()), batch)
    if is_.is_decimal(kind):
        texts = [None if one is None else format(one, "f") for one in column.to_pylist()]
        return pa.array(texts, pa.large_string())
    if is_.is_duration(kind):
        return column.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(pa.large_string())
    if is_.is_timestamp(kind):
        naive = column.cast(pa.timestamp("us", kind.tz), safe=False)
        return _quoted((naive.cast(pa.timestamp("us", "UTC")) if kind.tz else naive).cast(pa.timestamp("us")))
    if is_.is_time(kind):
        return _quoted(column.cast(pa.time64("us"), safe=False))
    if is_.is_date(kind):
        return _quoted(column.cast(pa.date32()))
    if is_.is_nested(kind):
        return _escaped(json_column(column))
    if is_.is_string(kind) or is_.is_large_string(kind):
        return _escaped(column)
    values = [None if one is None else f"x'{one.hex()}'" for one in column.to_pylist()]
    return pa.array(values, pa.large_string())


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
    values = [None if one is None else _float(one) for one in column.to_pylist()]
    return pa.array(values, pa.large_string())


def _float(value: float) -> str:
    text = repr(value)
    return text if "e" in text else f"{text}e0"

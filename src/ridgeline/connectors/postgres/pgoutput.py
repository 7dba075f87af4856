"""What the plugin `pgoutput` sends, and the values of its columns as Arrow has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.columns.casting import is_bytes, is_text
from ridgeline.api.columns.column import Column as StreamColumn
from ridgeline.api.errors import RidgelineError, shorten
from ridgeline.connectors.postgres.connecting import Adapting, psycopg
from ridgeline.operators._kinds import family

KEEPALIVE = ord("k")
BEGIN, COMMIT, RELATION = ord("B"), ord("C"), ord("R")
INSERT, UPDATE, DELETE, TRUNCATE = ord("I"), ord("U"), ord("D"), ord("T")
HEADER_BYTES = 25
"""The bytes of a frame of WAL data before its message."""
EPOCH_MICROSECONDS = 946_684_800_000_000
"""The begin of PostgreSQL's time, 2000, in microseconds since 1970."""
_OLD, _KEY, _NEW = ord("O"), ord("K"), ord("N")
_TEXT, _NULL = ord("t"), ord("n")
_BEGIN = Struct("!xQqI")
_COMMIT = Struct("!xxQQq")
_KEEPALIVE = Struct("!xQq?")
_STATUS = Struct("!cQQQq?")
_NUMBER = Struct("!I")
_COLUMN = Struct("!Ii")


class _Unchanged:
    """A value of TOAST that an update did not change: the log does not have it."""


UNCHANGED: Final = _Unchanged()
Values = list[Any]
"""The values of a row by column: text as bytes, None for null, or `UNCHANGED`."""


class Begin(NamedTuple):
    """The begin of a transaction: where its commit is, when that was (microseconds since 1970), its id."""

    lsn: int
    time: int
    transaction: int


class Column(NamedTuple):
    """A column of a relation. `key`: it is part of the replica identity."""

    name: str
    oid: int
    key: bool


class Relation(NamedTuple):
    """A table as the changes after this message have it. `identity`: d, n, f or i, as of `pg_class`."""

    oid: int
    name: str
    identity: str
    columns: tuple[Column, ...]

    @property
    def signature(self) -> bytes:
        """A text that differs if columns do."""
        return json.dumps(self).encode()

    @classmethod
    def of_json(cls, data: bytes) -> Relation:
        """From its JSON."""
        oid, name, identity, columns = json.loads(data)
        return cls(oid, name, identity, tuple(Column(*one) for one in columns))


def begin_of(message: bytes) -> Begin:
    """Read the message that begins a transaction."""
    lsn, time, transaction = _BEGIN.unpack_from(message)
    return Begin(lsn, time + EPOCH_MICROSECONDS, transaction)


def commit_end(message: bytes) -> int:
    """The place after a transaction's commit."""
    return int(_COMMIT.unpack_from(message)[1])


def keepalive_of(frame: bytes) -> tuple[int, bool]:
    """The place up to which all is sent, and whether the server wants an answer."""
    lsn, _, wants = _KEEPALIVE.unpack_from(frame)
    return lsn, wants


def status(written: int, flushed: int, time: int, *, asks: bool) -> bytes:
    """The frame that says how far changes are received and committed. `asks`: for a keepalive."""
    return _STATUS.pack(b"r", written, flushed, flushed, time - EPOCH_MICROSECONDS, asks)


def relation_of(message: bytes) -> Relation:
    """Read the description of a table."""
    (oid,) = _NUMBER.unpack_from(message, 1)
    space, at = _text(message, 5)
    name, at = _text(message, at)
    identity = chr(message[at])
    count = int.from_bytes(message[at + 1 : at + 3])
    at += 3
    columns = []
    for _ in range(count):
        key = bool(message[at] & 1)
        column, at = _text(message, at + 1)
        kind, _modifier = _COLUMN.unpack_from(message, at)
        at += _COLUMN.size
        columns.append(Column(column, kind, key))
    return Relation(oid, f"{space}.{name}", identity, tuple(columns))


def relation_id(message: bytes) -> int:
    """The table of an insert, an update or a delete."""
    return int(_NUMBER.unpack_from(message, 1)[0])


def truncated(message: bytes) -> list[int]:
    """The tables of a truncate."""
    (count,) = _NUMBER.unpack_from(message, 1)
    return [_NUMBER.unpack_from(message, 6 + 4 * place)[0] for place in range(count)]


class Change(NamedTuple):
    """A change of a row. `whole`: `old` has all columns, not only those of the replica identity."""

    kind: int
    old: Values | None
    new: Values | None
    whole: bool = False


def change_of(message: bytes) -> Change:
    """Read a change. An unchanged value is taken from the old row, if that has it."""
    kind = message[0]
    if kind == INSERT:
        return Change(kind, None, _row(message, 6)[0])
    if kind == TRUNCATE:
        return Change(kind, None, None)
    old, at, whole = None, 5, False
    if message[5] != _NEW:
        whole = message[5] == _OLD
        old, at = _row(message, 6)
    if kind == DELETE:
        return Change(kind, old, None, whole)
    new, _ = _row(message, at + 1)
    if old is not None and UNCHANGED in new:
        new = [
            before if value is UNCHANGED and (whole or before is not None) else value
            for value, before in zip(new, old, strict=True)
        ]
    return Change(kind, old, new, whole)


def _row(message: bytes, at: int) -> tuple[Values, int]:
    """The values of a row that begins at a place, and where it ends."""
    count = (message[at] << 8) | message[at + 1]
    at += 2
    values: Values = []
    add, size_at = values.append, _NUMBER.unpack_from
    for _ in range(count):
        kind = message[at]
        if kind == _TEXT:
            begin = at + 5
            at = begin + size_at(message, at + 1)[0]
            add(message[begin:at])
        else:
            add(None if kind == _NULL else UNCHANGED)
            at += 1
    return values, at


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(b"\0", at)
    return message[at:end].decode(), end + 1


SESSION: Mapping[str, str] = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
}
"""The settings of a session whose texts are read here."""
_JSON = {"json", "jsonb"}
_INTEGERS = {"int2", "int4", "int8", "oid"}
_READABLE: Mapping[str, set[str]] = {
    "boolean": {"bool"},
    "integer": _INTEGERS,
    "floating": _INTEGERS | {"numeric", "float4", "float8"},
    "decimal": _INTEGERS | {"numeric"},
    "date": {"date"},
    "time": {"time"},
    "duration": {"interval"},
    "bytes": {"bytea"},
    "struct": _JSON,
    "map": _JSON,
}
"""The types of PostgreSQL that a family of Arrow's types can be read from; of others only a trial shows."""
_ERRORS = (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError, RidgelineError)
Convert = Callable[[pa.Array], pa.Array]
"""Makes a column of an array of texts. Raises for one that does not fit."""


def type_name(oid: int) -> tuple[str | None, bool]:
    """The name of a type that every server has, and whether it is an array of it; None for others."""
    found = psycopg().adapters.types.get(oid)
    return (None, False) if found is None else (found.name, found.array_oid == oid)


def readable(kind: pa.DataType, oid: int) -> bool:
    """Whether a column of a type of PostgreSQL can be read as an Arrow type; single values may not fit."""
    name, is_array = type_name(oid)
    found = family(kind)
    if name is None or found == "text":
        return True
    if found == "list":
        return is_array or name in _JSON
    if found == "timestamp":
        return not is_array and name == ("timestamp" if kind.tz is None else "timestamptz")
    return found not in _READABLE or (not is_array and name in _READABLE[found])


def converter(column: StreamColumn, field: pa.Field, oid: int) -> Convert:
    """How texts of a type of PostgreSQL become a column."""
    kind, types = field.type, pa.types
    if types.is_dictionary(kind):
        inner = converter(column, pa.field(field.name, kind.value_type), oid)
        return lambda texts: inner(texts).dictionary_encode().cast(kind)
    if is_text(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return lambda texts: texts.cast(kind)
    if types.is_boolean(kind):
        return _booleans
    if types.is_timestamp(kind):
        return lambda texts: texts.cast(pa.timestamp("us", None if kind.tz is None else "UTC")).cast(kind)
    if types.is_date(kind):
        return lambda texts: texts.cast(pa.date32()).cast(kind)
    load = _loader(kind, oid)

    def values(texts: pa.Array) -> pa.Array:
        found = [load(text) for text in texts.drop_null().to_pylist()]
        array = column.to_array(column.settle(found)[1])
        if not texts.null_count:
            return array
        places = iter(range(len(found)))
        return array.take(
            pa.array([next(places) if one else None for one in texts.is_valid().to_pylist()], pa.int64())
        )

    return values


def _booleans(texts: pa.Array) -> pa.Array:
    odd = pc.invert(pc.is_in(texts, pa.array(["t", "f", None])))
    if pc.any(odd).as_py():
        raise ValueError(f"{texts[pc.index(odd, True).as_py()].as_py()!r} is no boolean")
    return pc.equal(texts, "t")


def _loader(kind: pa.DataType, oid: int) -> Callable[[str], Any]:
    """How a text becomes a value of Python."""
    name, is_array = type_name(oid)
    if name in _JSON and not is_array:
        if pa.types.is_map(kind):
            return lambda text: list(json.loads(text).items())
        return json.loads
    if is_bytes(kind):
        return lambda text: bytes.fromhex(text.removeprefix("\\x"))
    library = psycopg()
    load = library.adapt.Transformer(Adapting()).get_loader(oid, library.pq.Format.TEXT).load

    def loaded(text: str) -> Any:
        try:
            return load(text.encode())
        except library.Error as error:  # a time that Python does not have
            raise ValueError(str(error)) from None

    return loaded


def convert(convert_all: Convert, texts: pa.Array, bad: dict[int, str], name: str) -> pa.Array:
    """A column of texts; those that do not fit are null, and their rows and reasons go to `bad`."""
    try:
        return convert_all(texts)
    except _ERRORS:
        pass
    parts = []
    for row in range(len(texts)):
        try:
            parts.append(convert_all(texts.slice(row, 1)))
        except _ERRORS as error:
            reason = f"column `{name}` has {shorten(texts[row].as_py())}, which is not of its type: {error}"
            bad.setdefault(row, reason)
            parts.append(convert_all(pa.nulls(1, pa.string())))
    return pa.concat_arrays(parts)

"""The messages of PostgreSQL's logical replication: frames of the connection, and those of `pgoutput`."""

from __future__ import annotations

import json
from struct import Struct
from typing import Any, Final, NamedTuple

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

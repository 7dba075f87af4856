"""Find out whether equal keys on several ports of an operator reach the same partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ridgeline.api.codec import ColumnCodec, FunctionCodec, StreamCodec
from ridgeline.api.columns.casting import is_bytes, is_text
from ridgeline.api.columns.schema import Schema

_KINDS = (
    ("numbers", (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)),
    ("texts", (is_text,)),
    ("bytes", (is_bytes,)),
    ("times", (pa.types.is_timestamp,)),
    ("dates", (pa.types.is_date,)),
)
"""Values of one kind can be equal, and have equal hashes then, whatever their types."""


@dataclass(frozen=True, slots=True)
class KeyedPort:
    """An input port that is partitioned by key, its codec, and the schema of its stream."""

    name: str
    codec: StreamCodec
    schema: Schema


def disagreement(ports: Sequence[KeyedPort]) -> str | None:
    """Why equal keys of two ports would reach different partitions; None if they would not.

    The key that a function computes is unknown before the run, so it agrees with everything.
    """
    known: tuple[KeyedPort, tuple[pa.DataType, ...]] | None = None
    for port in ports:
        first = ports[0]
        if _kind(first.codec) is not _kind(port.codec):
            return f"`{first.name}` is hashed by {_how(first)}, `{port.name}` by {_how(port)}"
        types = _types(port)
        if types is None:
            continue
        if known is None:
            known = (port, types)
            continue
        other, others = known
        if len(others) != len(types):
            return (
                f"the key of `{other.name}` has {_columns(len(others))}, "
                f"that of `{port.name}` {_columns(len(types))}"
            )
        for one, two in zip(others, types, strict=True):
            if _kind_of(one) != _kind_of(two):
                return f"the key of `{other.name}` is {one}, that of `{port.name}` is {two}"
    return None


def _types(port: KeyedPort) -> tuple[pa.DataType, ...] | None:
    columns = key_columns(port.codec, port.schema)
    if columns is None or not set(columns).issubset(port.schema.arrow.names):
        return None  # the latter is a fault of its own
    return tuple(port.schema.arrow.field(name).type for name in columns)


def key_columns(codec: StreamCodec, schema: Schema) -> tuple[str, ...] | None:
    """The columns of a port's key; None if they are not known."""
    return None if schema.pickled else codec.key_columns(schema.arrow)


def key_of(codec: StreamCodec | None, schema: Schema | None) -> object:
    """The key that a port divides by: its columns, else the code that computes it; no columns without one."""
    if codec is None:
        return ()
    columns = key_columns(codec, schema) if schema is not None else None
    if columns is not None:
        return columns
    return codec.function if isinstance(codec, FunctionCodec) else codec


def determines(mine: object, theirs: object) -> bool:
    """True if tuples with equal keys of mine have equal keys of theirs, both by `key_of`.

    Columns with the same name are taken to be the same.
    """
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        return bool(theirs) and set(theirs) <= set(mine)
    return mine is theirs or (type(mine) is type(theirs) and mine == theirs)


def _kind(codec: StreamCodec) -> type[StreamCodec]:
    """One class for all codecs that hash as `stable_hash` does."""
    stable = isinstance(codec, FunctionCodec) or type(codec).key_columns is not StreamCodec.key_columns
    return ColumnCodec if stable else type(codec)


def _kind_of(type_: pa.DataType) -> str:
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    for name, tests in _KINDS:
        if any(test(type_) for test in tests):
            return name
    return str(type_)


def _how(port: KeyedPort) -> str:
    return "its key" if _kind(port.codec) is ColumnCodec else f"`{type(port.codec).__name__}`"


def _columns(count: int) -> str:
    return f"{count} column{'' if count == 1 else 's'}"

"""How a column holds the values of a Python type: its Arrow type, and the way there and back.

An enum whose values are all texts, or all integers, is a column of these; any other one of its names. A UUID
is its text.
"""

from __future__ import annotations

import contextlib
import enum
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import typing_extensions

from ridgeline.api.columns.restoring import restorer
from ridgeline.api.columns.struct_types import TIMESTAMP, is_record, is_struct, struct_fields, without_none
from ridgeline.api.errors import SchemaError, shorten

Convert = Callable[[Any], Any]


_SCALARS: dict[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    datetime: TIMESTAMP,
    date: pa.date32(),
    timedelta: pa.duration("us"),
    time_of_day: pa.time64("us"),
    Decimal: pa.decimal128(38, 18),
}

_INSTEAD: dict[Any, str] = {
    set: "list[...] of the items",
    frozenset: "list[...] of the items",
    tuple: "list[...] for items of one type, or a NamedTuple",
    list: "list[...] with the type of the items, such as list[int]",
    dict: "dict[..., ...] with the types, such as dict[str, int], or a class with fields",
    bytearray: "bytes",
    complex: "two fields of float",
    np.str_: "str",
    np.bytes_: "bytes",
    np.datetime64: "datetime",
    np.timedelta64: "timedelta",
}
"""The types to use in the place of those that no column has."""


class Plain(NamedTuple):
    """How values of a type are held in a column.

    `type`: of the column. `convert`: makes a value of the column of one of the type; None: it is one. It
    raises TypeError or ValueError for a value of another type. `restore`: the way back.
    """

    type: pa.DataType
    convert: Convert | None = None
    restore: Convert | None = None


def plain_of(kind: Any) -> Plain | None:
    """How values of such a type are held; None for any other type.

    Raises ValueError, with the remedy, for a literal of several kinds of values.
    """
    if is_enum(kind):
        return _of_enum(kind)
    if kind is uuid.UUID:

        def of_uuid(value: Any) -> str:
            if not isinstance(value, uuid.UUID):
                raise _other(value, kind)
            return str(value)

        return Plain(pa.string(), of_uuid, uuid.UUID)
    if typing.get_origin(kind) is typing.Literal:
        return _of_literal(kind, typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, np.generic):
        with contextlib.suppress(pa.ArrowException, TypeError):
            if (dtype := np.dtype(kind)).kind in "biuf":
                return Plain(pa.from_numpy_dtype(dtype), None, kind)
    return None


def is_enum(kind: object) -> bool:
    """True for an enum with members."""
    return isinstance(kind, type) and issubclass(kind, enum.Enum) and len(kind) > 0


@lru_cache(maxsize=1024)
def _values_of(kind: Any) -> type | None:
    """The class of all values of an enum, if it is `str` or `int`."""
    kinds = {str if isinstance(one.value, str) else type(one.value) for one in kind}
    return kinds.pop() if len(kinds) == 1 and kinds <= {str, int} else None


def _of_enum(kind: Any) -> Plain:
    """An enum by its values, or by its names."""
    by_value = _values_of(kind) is not None

    def of_member(value: Any) -> Any:
        if not isinstance(value, kind):
            raise _other(value, kind)
        found = value.value if by_value else value.name
        return str(found) if isinstance(found, str) else found

    members = {(one.value if by_value else one.name): one for one in kind}
    return Plain(pa.int64() if _values_of(kind) is int else pa.string(), of_member, members.__getitem__)


def _of_literal(kind: Any, known: Sequence[Any]) -> Plain:
    """A literal, whose values the column has. Raises ValueError for several kinds of values."""
    kinds = {type(value) for value in known if value is not None}
    found = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}
    if len(kinds) != 1 or not kinds <= found.keys():
        raise ValueError(f"{kind} has values of several kinds; give texts only, integers only, or an enum")

    def of_literal(value: Any) -> Any:
        if not any(value == one and type(value) is type(one) for one in known):
            raise ValueError(f"{value!r} is none of {', '.join(map(repr, known))}")
        return value

    return Plain(found[kinds.pop()], of_literal, None)


def held(kind: Any, where: str, within: tuple[object, ...] = ()) -> Plain:
    """How values of a field's type, or None, are held. Raises SchemaError if no column holds them.

    `where`: the field's name, for errors. `within`: the classes that contain the field.
    """
    kind = without_none(kind)
    if isinstance(kind, pa.DataType):
        return Plain(kind)
    if kind in _SCALARS:
        return Plain(_SCALARS[kind], None, _in_utc if kind is datetime else None)
    try:
        plain = plain_of(kind)
    except ValueError as error:
        raise SchemaError(f"`{where}`: {error}") from None
    if plain is not None:
        return Plain(plain.type, _unless_none(plain.convert), _unless_none(plain.restore))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list and arguments:
        item = held(arguments[0], where, within)
        return Plain(pa.list_(item.type), _each(item.convert), _each(item.restore))
    if origin is dict and arguments:
        return _of_map(*(held(argument, where, within) for argument in arguments))
    if kind in within:
        what = f"has type `{kind.__name__}`, which contains itself, so it has no column type"
        raise SchemaError(f"`{where}` {what}; use a port of `object`")
    if is_struct(kind) or typing_extensions.is_typeddict(kind):
        inside = (*within, kind)
        parts = {name: held(part, f"{where}.{name}", inside) for name, part in struct_fields(kind).items()}
        return _of_fields(kind, parts)
    raise SchemaError(
        f"`{where}` has type {shorten(kind)}, which has no column type; {_instead_of(kind, origin)}"
    )


def _unless_none(function: Convert | None) -> Convert | None:
    return function and (lambda value: None if value is None else function(value))


def _each(function: Convert | None) -> Convert | None:
    """What does so with each item of a list."""
    return function and (lambda value: None if value is None else [function(item) for item in value])


def _of_map(key: Plain, item: Plain) -> Plain:
    """A dictionary: Arrow takes it as it is, and returns pairs."""
    to_key, to_item = key.convert or _as_it_is, item.convert or _as_it_is
    of_key, of_item = key.restore or _as_it_is, item.restore or _as_it_is

    def converted(value: Any) -> Any:
        return None if value is None else {to_key(name): to_item(one) for name, one in value.items()}

    return Plain(
        pa.map_(key.type, item.type),
        converted if key.convert or item.convert else None,
        lambda value: None if value is None else {of_key(name): of_item(one) for name, one in value},
    )


def _of_fields(kind: Any, parts: Mapping[str, Plain]) -> Plain:
    """A class with fields, or a TypedDict."""
    of_dicts = is_record(kind)
    converts = [(name, part.convert) for name, part in parts.items()]
    restores = [(name, part.restore or _as_it_is) for name, part in parts.items()]
    make: Convert = dict if of_dicts else restorer(kind)

    def converted(value: Any) -> Any:
        if value is None:
            return None
        found = value if of_dicts else {name: getattr(value, name) for name in parts}
        return {name: convert(found[name]) if convert else found[name] for name, convert in converts}

    def restored(value: Any) -> Any:
        return None if value is None else make([restore(value[name]) for name, restore in restores])

    def recorded(value: Any) -> Any:
        return None if value is None else {name: restore(value[name]) for name, restore in restores}

    return Plain(
        pa.struct([pa.field(name, part.type) for name, part in parts.items()]),
        converted if any(part.convert for part in parts.values()) else None,
        recorded if of_dicts else restored,
    )


def _in_utc(value: datetime | None) -> datetime | None:
    """Replace the time zone object of Arrow's by `datetime.UTC`."""
    return None if value is None else value.replace(tzinfo=UTC)


def _as_it_is(value: object) -> object:
    return value


def _instead_of(kind: Any, origin: Any) -> str:
    """The remedy for a type that no column has."""
    if isinstance(kind, type) and kind in _INSTEAD:
        return f"use {_INSTEAD[kind]}"
    if origin in _INSTEAD:
        return f"use {_INSTEAD[origin]}"
    if origin in (typing.Union, types.UnionType):
        return "a column has one type; use that, a field for each, or a port of `object`"
    if kind is Any or kind is object:
        return "say what it is; a port of `object` takes whole tuples of any kind"
    known = ", ".join(scalar.__name__ for scalar in _SCALARS)
    return f"use one of {known}, an enum, UUID or Literal, list[...], dict[..., ...], or a class with fields"


def plain_key(value: Any) -> Any:
    """The value of the column for one that is such a value itself, to hash it as the column is hashed."""
    if isinstance(value, enum.Enum):
        return value.value if _values_of(type(value)) is not None else value.name
    return str(value) if isinstance(value, uuid.UUID) else value


def _other(value: object, kind: Any) -> TypeError:
    return TypeError(f"{value!r} is no {kind.__name__}")

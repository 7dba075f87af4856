"""Values of types that a column holds in another form: enums, UUIDs, literals, numpy scalars; back and forth.

An enum whose values are all texts, or all integers, is a column of these; any other one of its names. A UUID
is its text.
"""

from __future__ import annotations

import enum
import typing
import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

Convert = Callable[[Any], Any]
_LITERALS = (str, bool, int)


def plain_type(kind: Any) -> pa.DataType | None:
    """The Arrow type of such a type; None for any other type.

    Raises ValueError, with the remedy, for a literal of several kinds of values.
    """
    if is_enum(kind):
        return pa.int64() if _values_of(kind) is int else pa.string()
    if kind is uuid.UUID:
        return pa.string()
    if typing.get_origin(kind) is typing.Literal:
        kinds = {type(value) for value in typing.get_args(kind) if value is not None}
        found = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}
        if len(kinds) != 1 or not kinds <= found.keys():
            raise ValueError(
                f"{kind} has values of several kinds; give texts only, integers only, or an enum"
            )
        return found[kinds.pop()]
    if isinstance(kind, type) and issubclass(kind, np.generic):
        try:
            found_type: pa.DataType = pa.from_numpy_dtype(np.dtype(kind))
        except (pa.ArrowException, TypeError):
            return None
        return found_type if np.dtype(kind).kind in "biuf" else None
    return None


def is_enum(kind: object) -> bool:
    """True for an enum with members."""
    return isinstance(kind, type) and issubclass(kind, enum.Enum) and len(kind) > 0


@lru_cache(maxsize=1024)
def _values_of(kind: Any) -> type | None:
    """The class of all values of an enum, if it is `str` or `int`."""
    kinds = {str if isinstance(one.value, str) else type(one.value) for one in kind}
    return kinds.pop() if len(kinds) == 1 and kinds <= {str, int} else None


def to_plain(kind: Any) -> Convert | None:
    """The function from values of such a type to those of its column; None for any other type.

    It raises TypeError or ValueError for a value of another type.
    """
    if is_enum(kind):
        by_value = _values_of(kind) is not None

        def of_member(value: Any) -> Any:
            if not isinstance(value, kind):
                raise _other(value, kind)
            found = value.value if by_value else value.name
            return str(found) if isinstance(found, str) else found

        return of_member
    if kind is uuid.UUID:

        def of_uuid(value: Any) -> str:
            if not isinstance(value, uuid.UUID):
                raise _other(value, kind)
            return str(value)

        return of_uuid
    if typing.get_origin(kind) is typing.Literal:
        known = typing.get_args(kind)

        def of_literal(value: Any) -> Any:
            if not any(value == one and type(value) is type(one) for one in known):
                raise ValueError(f"{value!r} is none of {', '.join(map(repr, known))}")
            return value

        return of_literal
    return None


def from_plain(kind: Any) -> Convert | None:
    """The function from values of the column to those of such a type; None for any other type."""
    if is_enum(kind):
        members = {(one.value if _values_of(kind) is not None else one.name): one for one in kind}
        return lambda value: None if value is None else members[value]
    if kind is uuid.UUID:
        return lambda value: None if value is None else uuid.UUID(value)
    if isinstance(kind, type) and issubclass(kind, np.generic):
        return lambda value: None if value is None else kind(value)
    return None


def plain_key(value: Any) -> Any:
    """The value of the column for one that is such a value itself, to hash it as the column is hashed."""
    if isinstance(value, enum.Enum):
        return value.value if _values_of(type(value)) is not None else value.name
    return str(value) if isinstance(value, uuid.UUID) else value


def _other(value: object, kind: Any) -> TypeError:
    return TypeError(f"{value!r} is no {kind.__name__}")

"""The declared type of a state's values, and whether a value is of it."""

from __future__ import annotations

import types
import typing
from typing import Any

import numpy as np
from typing_extensions import is_typeddict

from ridgeline.api.errors import StateError, shorten


class Kind:
    """A declared type.

    `known`: the types of values that need no closer look; it grows. `state`: the state's name, for errors.

    Of `list[int]` only the list is checked, of `int | None` both, of `Literal[1, 2]` the value; of `Any`, a
    type variable or a protocol nothing.
    """

    __slots__ = ("_classes", "_literals", "_mixed", "known", "state", "type")

    def __init__(self, declared: object, name: str) -> None:
        self.type = declared
        self.state = f"`{name}`" if name else "the state"
        self._classes = _classes(declared)
        self._literals = _literals(declared)
        self._mixed = frozenset(kind for kind, _ in self._literals)
        """The types of which some values fit only: each value is looked at."""
        self.known: set[type] = set()

    def fit(self, value: object, key: object = None) -> Any:
        """The value, a numpy scalar as the Python value that it is.

        Raises StateError if it is not of the type.
        """
        if type(value) in self.known:
            return value
        if isinstance(value, np.generic) and self._mixed and type(item := _item(value)) in self._mixed:
            value = item
        if type(value) in self._mixed:
            if (type(value), value) in self._literals:
                return value
            raise self._misfit(value, key)
        if self._classes is None or type(value) in self._classes:
            self.known.add(type(value))
            return value
        if isinstance(value, np.generic) and isinstance(item := _item(value), self._classes):
            return item
        if isinstance(value, self._classes):
            self.known.add(type(value))
            return value
        raise self._misfit(value, key)

    def _misfit(self, value: object, key: object) -> StateError:
        """The error for a value that is not of the type."""
        name = self.type.__name__ if isinstance(self.type, type) else str(self.type)
        where = "" if key is None else f" for the key {shorten(key)}"
        what = f"{shorten(value)}, a `{type(value).__name__}`,{where}"
        holds = f"{self.state} holds values of type `{name}`"
        msg = f"{holds}; got {what.removesuffix(',')}; convert it, or declare another type"
        return StateError(msg)


def _item(value: Any) -> object:
    """The Python value of a numpy scalar; of a time that would become a whole number itself."""
    item = value.item()
    return value if isinstance(value, (np.datetime64, np.timedelta64)) and isinstance(item, int) else item


def _classes(declared: object) -> tuple[type, ...] | None:
    """The classes of the values of a type; None if that is not known."""
    origin = typing.get_origin(declared)
    if origin is typing.Annotated:
        return _classes(typing.get_args(declared)[0])
    if origin is typing.Literal:
        return ()
    if origin in (typing.Union, types.UnionType):
        parts = [_classes(part) for part in typing.get_args(declared)]
        return None if None in parts else tuple(kind for part in parts for kind in part or ())
    kind = origin or declared
    if declared is None:
        return (type(None),)
    if not isinstance(kind, type) or kind in (object, Any) or getattr(kind, "_is_protocol", False):
        return None
    alike: dict[type, tuple[type, ...]] = {float: (float, int), complex: (complex, float, int)}
    return (dict,) if is_typeddict(kind) else alike.get(kind, (kind,))


def _literals(declared: object) -> frozenset[tuple[type, object]]:
    """The values of the Literals of a type, each with its class, of which no other member takes all values.

    >>> sorted(_literals(typing.Literal[1, 2] | None)), _literals(typing.Literal[1] | int)
    ([(<class 'int'>, 1), (<class 'int'>, 2)], frozenset())
    """
    origin, parts = typing.get_origin(declared), typing.get_args(declared)
    if origin is typing.Annotated:
        return _literals(parts[0])
    if origin is typing.Literal:
        return frozenset((type(value), value) for value in parts)
    if origin not in (typing.Union, types.UnionType):
        return frozenset()
    classes = _classes(declared)
    found: frozenset[tuple[type, object]] = frozenset().union(*map(_literals, parts))
    return frozenset(one for one in found if classes is not None and not issubclass(one[0], classes))

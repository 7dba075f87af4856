"""Cells: a declared state of one operator instance, as the engine sees it.

The engine calls `begin`, `end`, `changes`, `snapshot`, `apply` and `reset`, and nothing else. A change is a
plain value that can be pickled. A version of a cell is a snapshot and the changes since. A cell that is
restored to a version equals the cell that processed the windows up to there. So does the order of its items,
while all of them are in memory.
"""

from __future__ import annotations

import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from typing_extensions import is_typeddict

from ridgeline.api.cells.per_instance import OWN, Own, PerInstance
from ridgeline.api.errors import StateError, shorten
from ridgeline.api.support.pickling import dumps

Change = tuple[Any, ...]
StateScope: TypeAlias = Literal["application", "window"]
"""How long a state lives: as long as the application, or until its operator's application window ends."""
MISSING: Any = type("Missing", (), {"__repr__": lambda _self: "<missing>", "__bool__": lambda _self: False})()
IMMUTABLE = frozenset(
    {int, float, str, bytes, bool, type(None), datetime, date, time, timedelta, Decimal, complex, frozenset}
)
_EQUAL: object = object.__eq__


class StateCell(ABC):
    """One declared state of one operator partition, as the engine sees it."""

    __slots__ = ()

    @abstractmethod
    def begin(self, application_window: int) -> None:
        """Begin a streaming window of the application window that began with this one.

        Counted are the windows of the run: the numbers that rewinds have left out are not among them.
        """

    @abstractmethod
    def end(self) -> None:
        """End the application window of a state that lives no longer: as `reset`, which is a change."""

    @abstractmethod
    def changes(self) -> Change | None:
        """Return what changed since `begin`, as plain values; None if nothing did."""

    @abstractmethod
    def snapshot(self) -> Change:
        """Return the whole content as one change. `apply` on an empty cell restores it."""

    @abstractmethod
    def apply(self, change: Change) -> None:
        """Apply one change, or a snapshot to an empty cell, made by a cell of the same declaration."""

    @abstractmethod
    def reset(self) -> None:
        """Restore the declared default, as before the first window."""

    def rebind_files(self) -> None:
        """The same content follows from other files: as `reset`, but what is derived from it may stay."""
        self.reset()


class Declaration(PerInstance[Own], ABC, Generic[Own]):
    """A state that a class body declares; makes the cell of each instance."""

    scope: StateScope = "application"

    @abstractmethod
    def cell(self) -> StateCell:
        """A new cell with the declared default."""

    def make(self, instance: Any) -> StateCell:
        """A new cell for this instance."""
        return self.cell()


def chosen(what: str, given: Any, known: Any) -> Any:
    """One of the texts of a Literal, `known`; raises StateError for another one. `what`: it says."""
    if given not in get_args(known):
        names = " or ".join(f'"{one}"' for one in get_args(known))
        raise StateError(f"{what}; got {shorten(given)}; give {names}")
    return given


def checked_scope(scope: StateScope) -> Any:
    """The scope of a declaration. Raises StateError for one that does not exist."""
    return chosen("the `scope` of a state says how long it lives", scope, StateScope)


def cell_of(operator: object, declaration: Declaration[Any]) -> StateCell:
    """The cell of one declared state of one operator instance."""
    cell: StateCell = getattr(operator, OWN + declaration.name)
    return cell


def is_mutable(value: object) -> bool:
    """True if the value, or an item of a tuple, can be changed in place."""
    if type(value) in IMMUTABLE:
        return False
    if isinstance(value, tuple):
        return not IMMUTABLE.issuperset(map(type, value)) and any(map(is_mutable, value))
    return True


def differs(before: object, after: object) -> bool:
    """True if a value has changed, or if the two cannot be compared."""
    try:
        if type(after).__eq__ is not _EQUAL:
            return not bool(before == after)
    except Exception:  # noqa: BLE001, S110  arrays and the like compare item by item
        pass
    try:
        return dumps(before) != dumps(after)
    except Exception:  # noqa: BLE001  if in doubt, it is written
        return True


T = TypeVar("T")


class Cache(PerInstance[T], Generic[T]):
    """A value that windows may change and that may be lost between any two of them: `known = Cache(dict)`.

    `make`, a callable without arguments, makes it when it is first read in a container, and again in another
    one. It is never saved: no result may depend on what is in it. Raises TypeError if `make` is not callable.

    Example:
        >>> from ridgeline import Cache, Operator
        >>> class Lookup(Operator):
        ...     known = Cache(dict[str, int])
        >>> lookup = Lookup()
        >>> lookup.known["one"] = 1
        >>> lookup.known
        {'one': 1}
    """

    def __init__(self, make: Callable[[], T]) -> None:
        if not callable(make):
            takes = "a callable without arguments that makes what is missing"
            raise TypeError(f"`Cache` takes {takes}; got {make!r}; such as `Cache(dict)`")
        self.make_one = make

    def make(self, instance: Any) -> T:
        """A new value for an operator instance."""
        return self.make_one()

    def __set__(self, instance: object, value: T) -> None:
        vars(instance)[OWN + self.name] = value


class Kind:
    """A declared type.

    `known`: the types of values that need no closer look; it grows. `state`: the state's name, for errors.

    Of `list[int]` only the list is checked, of `int | None` both, of `Literal[1, 2]` the class; of `Any`, a
    type variable or a protocol nothing.
    """

    __slots__ = ("_classes", "_holds", "_remedy", "known", "state", "type")

    def __init__(
        self, declared: object, name: str, *, holds: str = "", remedy: str = "declare another type"
    ) -> None:
        """`holds`, `remedy`: for errors, of what is not the values of a state."""
        self.type = declared
        self.state = f"`{name}`" if name else "the state"
        self._holds, self._remedy = holds or f"{self.state} holds values", remedy
        self._classes = _classes(declared)
        self.known: set[type] = set()

    def fit(self, value: object, key: object = None) -> Any:
        """The value, a numpy scalar as the Python value that it is.

        Raises StateError if it is not of the type.
        """
        if type(value) in self.known:
            return value
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
        holds = f"{self._holds} of type `{name}`"
        return StateError(f"{holds}; got {what.removesuffix(',')}; convert it, or {self._remedy}")


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
        return tuple(map(type, typing.get_args(declared)))
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

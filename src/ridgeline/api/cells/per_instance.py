"""Descriptors in a class body of which each instance has its own object: ports, state, caches."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from typing_extensions import TypeVar

Own = TypeVar("Own", default=Any)

OWN = "_own_"
"""Prefix of the attributes in which an instance keeps its own objects."""


class PerInstance(property, Generic[Own]):
    """A descriptor whose value is an object per instance, made by `make` on first access.

    Read on the class, it is the descriptor itself. Ports and state are read for every tuple. A property whose
    getter is an `attrgetter` is read without a Python call, in a third of the time. If the getter finds
    nothing, Python calls the instance's `__getattr__`, which calls `make_own`.
    """

    name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self._read()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).__new__, (type(self),), vars(self)

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._read()

    def _read(self) -> None:
        super().__init__(attrgetter(OWN + self.name), doc=type(self).__doc__)

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __get__(self, instance: None, owner: type) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type) -> Own: ...
        def __get__(self, instance: object, owner: type) -> Self | Own: ...

    def make(self, instance: Any) -> object:
        """Make the object of this instance."""
        raise NotImplementedError


def make_own(instance: Any, name: str) -> object:
    """Make the object that `instance` keeps under `name`, which begins with `OWN`.

    Raises AttributeError if its class has no such descriptor.
    """
    made = vars(instance)[name] = getattr(type(instance), name.removeprefix(OWN)).make(instance)
    return made

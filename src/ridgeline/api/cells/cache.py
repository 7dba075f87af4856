"""Values that an operator may lose at any time: the opposite of declared state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from ridgeline.api.cells.per_instance import OWN, PerInstance

T = TypeVar("T")


class Cache(PerInstance, Generic[T]):
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

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __get__(self, instance: None, owner: type) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type) -> T: ...
        def __get__(self, instance: object, owner: type) -> Self | T: ...

    def __set__(self, instance: object, value: T) -> None:
        vars(instance)[OWN + self.name] = value

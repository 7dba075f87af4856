"""The names of methods that ports and timers call: a decorator may give a function any name of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

_MOST_WRAPPED = 100
MARK = "_handles"
"""The attribute of a function of a subclass: the ports and timers that it is for, each with the field."""


class Handlers:
    """The methods that a port or timers of one class, and of its subclasses, are to call.

    `field`: what is decorated for, such as `process_name`.
    """

    def __init__(self) -> None:
        self._own: dict[str, Callable[..., object]] = {}
        self._later: dict[tuple[str, str, str], None] = {}
        self.hidden: tuple[str, ...] = ()
        """The names of functions that were decorated, and are not in the class."""
        self._replaced: list[tuple[str, Callable[..., object]]] = []
        self.doubled: tuple[str, ...] = ()
        """The names of methods in the place of which another one is called."""

    def add(self, member: Any, field: str, function: Callable[..., object]) -> None:
        """A method of the class that is being made, or of a subclass, once `member` has a name.

        That of a subclass is marked, and kept by name: what is kept here is pickled with the class.
        """
        if not member.name:
            if field in self._own:
                self._replaced.append((field, self._own[field]))
            self._own[field] = function
            return
        module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
        self._later[field, str(module), str(name)] = None
        with contextlib.suppress(AttributeError, TypeError):  # made in C: the name has to do
            vars(function).setdefault(MARK, []).append((member, field))

    def names(self, owner: type) -> Iterator[tuple[str, str]]:
        """Field and name of each method, once the class is made. Those that are not in it are `hidden`."""
        for field, function in self._own.items():
            name = _name_of(function, owner)
            if name is None:
                self.hidden = (*self.hidden, str(getattr(function, "__name__", "") or function))
            else:
                for other, before in self._replaced:
                    replaced = _name_of(before, owner) if other == field else None
                    if replaced not in (None, name):
                        self.doubled = (*self.doubled, str(replaced))
                yield field, name
        self._own, self._replaced = {}, []

    def later_names(self, owner: type) -> Iterator[tuple[str, str]]:
        """Field and name of each method of a subclass that another decorator has put something around."""
        for field, module, qualified in self._later:
            parent, _, name = qualified.rpartition(".")
            if (module, parent) == (owner.__module__, owner.__qualname__) and name in vars(owner):
                yield field, name


def _name_of(function: Callable[..., object], owner: type) -> str | None:
    """Under which name a class has a function, perhaps within what other decorators made of it.

    The function may be a base class's.
    """
    for one in owner.__mro__:
        for name, value in vars(one).items():
            if any(layer is function for layer in _layers(value)):
                return name
    parent, _, name = getattr(function, "__qualname__", "").rpartition(".")
    return name if name in vars(owner) and parent == owner.__qualname__ else None


def _layers(value: Any) -> Iterator[Any]:
    """The value that a class has under a name, and the functions wrapped in it."""
    for _ in range(_MOST_WRAPPED):
        yield value
        inner = vars(value) if hasattr(value, "__dict__") else {}
        value = getattr(value, "__func__", None) or inner.get("__wrapped__") or inner.get("func")
        if value is None:
            return

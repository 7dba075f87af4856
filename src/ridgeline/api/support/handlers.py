"""Methods that ports and timers call: a decorator may give a function any name of its own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

MARK = "_handles"
"""The attribute of a decorated function: the ports and timers that it is for, each with the field."""


def mark(member: Any, field: str, function: Callable[..., object]) -> None:
    """A function is decorated for `field` of a port or timers, such as `process_name`.

    The function has a mark, which `functools.wraps` passes on to what another decorator makes of it.
    """
    vars(function).setdefault(MARK, []).append((member, field))


def settle_handlers(cls: type, members: dict[str, Any]) -> None:
    """Give the ports and timers of a class, by name, the names of the methods that they call."""
    for base in reversed(cls.__mro__):
        found: dict[tuple[str, str], dict[str, None]] = {}
        for name, field, method in _handlers_of(base, members):
            found.setdefault((name, field), {})[method] = None
        for (name, field), methods in found.items():
            *doubled, last = methods
            member = members[name] = copy.copy(members[name])
            setattr(member, field, last)
            member.doubled = (*member.doubled, *doubled)


def _handlers_of(base: type, members: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The methods of one class: member, field, name of the method."""
    for method, value in vars(base).items():
        for member, field in getattr(value, "__dict__", {}).get(MARK, ()):
            # else the subclass made something else of the name
            if hasattr(members.get(member.name), field):
                yield member.name, field, method

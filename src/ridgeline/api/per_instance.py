"""Names in a class body that stand for something that each instance has its own of: ports, state."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

OWN = "_own_"
"""How the names begin under which an instance keeps its own."""


class PerInstance(property):
    """A descriptor that gives each instance its own, made by `make` when it is first asked for; the class itself gives the descriptor.

    Ports and state are read for every tuple. A property whose getter is an `attrgetter` is read without a
    Python call, in a third of the time. The instance's class calls `make_own` where the getter finds nothing,
    in its `__getattr__`.
    """

    name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self._read()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).__new__, (type(self),), vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._read()

    def _read(self) -> None:
        super().__init__(attrgetter(OWN + self.name), doc=type(self).__doc__)

    def make(self, instance: Any) -> Any:
        """What this instance has."""
        raise NotImplementedError


def make_own(instance: Any, name: str) -> Any:
    """Make what `instance` keeps under `name`, which begins with `OWN`.

    Raises AttributeError if its class has nothing of that name.
    """
    made = vars(instance)[name] = getattr(type(instance), name.removeprefix(OWN)).make(instance)
    return made

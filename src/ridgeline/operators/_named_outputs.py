"""The base of operators whose output ports have the names that a property gives."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Self

from ridgeline.api import Operator, OutputPort


class NamedOutputs(Operator):
    """An operator with an output port for each key of a property.

    Ports belong to a class. So an operator with given names is of a subclass, made once for each. A subclass
    in the library names the property.
    """

    _named_by: ClassVar[str] = ""
    """The property, the first one."""
    _names: ClassVar[tuple[str, ...]] = ()
    """The output ports of the class that the property names."""

    def __new__(cls, *values: Any, **properties: Any) -> Self:
        """An operator of a class with these output ports."""
        given = properties.get(cls._named_by, values[0] if values else None)
        own: Any = cls
        if "_named_by" in vars(cls) and isinstance(given, Mapping):
            own = _with_outputs(own, tuple(name for name in given if _is_port(cls, name)))
        made: Self = super().__new__(own)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (_base(type(self)), self._names), self.__getstate__()

    @classmethod
    def ports(cls) -> tuple[str, ...]:
        """The names of the output ports that the property names, in its order."""
        return cls._names

    def port_faults(self) -> list[tuple[str, object, str]]:
        """Refuse names that no port can have, and other ports than those of the application."""
        given = vars(self)[self._named_by]
        odd = [name for name in given if not _is_port(_base(type(self)), name)]
        if odd:
            rule = "must be a name such as `large`, and not one that the operator has itself"
            return [(self._named_by, odd[0], rule)]
        if tuple(given) != self._names:
            rule = "cannot get other names from outside; give them in the application"
            return [(self._named_by, list(given), rule)]
        return []


def _base(kind: type[NamedOutputs]) -> type[NamedOutputs]:
    """The class without ports of a property."""
    found: type[NamedOutputs] = vars(kind).get("_undivided", kind)
    return found


def _is_port(base: type[NamedOutputs], name: object) -> bool:
    return (
        isinstance(name, str) and name.isidentifier() and not name.startswith("_") and not hasattr(base, name)
    )


@cache
def _with_outputs(base: Any, names: tuple[str, ...]) -> type[NamedOutputs]:
    """The class of operators with these output ports."""
    body: dict[str, Any] = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "_names": names,
        "_undivided": base,
        **{name: OutputPort[Any](Any) for name in names},
    }
    return type(base.__name__, (base,), body)


def _made(base: Any, names: tuple[str, ...]) -> NamedOutputs:
    """An operator without properties, to be filled."""
    made: NamedOutputs = object.__new__(_with_outputs(base, names) if names else base)
    return made

"""The base of operators whose output ports have the names that a property gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.api import OutputPort
from ridgeline.operators._shaped import ShapedOperator, unshaped


class NamedOutputs(ShapedOperator):
    """An operator with an output port for each key of a property."""

    fixed = "cannot get other names from outside; give them in the application"

    @classmethod
    def shape_of(cls, given: Mapping[str, Any]) -> tuple[str, ...] | None:
        """The names that a port can have."""
        names = given.get(cls.shaped_by)
        return tuple(name for name in names if cls._is_port(name)) if isinstance(names, Mapping) else None

    @classmethod
    def members_of(cls, shape: tuple[str, ...]) -> dict[str, Any]:
        """The ports."""
        return {name: OutputPort[Any](Any) for name in shape}

    @classmethod
    def _is_port(cls, name: object) -> bool:
        named = isinstance(name, str) and name.isidentifier() and not name.startswith("_")
        return named and not hasattr(unshaped(cls), str(name))

    @classmethod
    def ports(cls) -> tuple[str, ...]:
        """The names of the output ports that the property names, in its order."""
        return cls.shape or ()

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse names that no port can have, and other ports than those of the application."""
        odd = [name for name in vars(self)[self.shaped_by] if not self._is_port(name)]
        if not odd:
            return super().property_faults()
        rule = "must be a name such as `large`, and not one that the operator has itself"
        return [(self.shaped_by, odd[0], rule)]

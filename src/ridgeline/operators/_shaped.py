"""The base of operators whose ports depend on their properties."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any, ClassVar, Self

import pyarrow as pa
from typing_extensions import TypeVar

from ridgeline.api import InputPort, Operator, Schema
from ridgeline.api.operator import named_properties, operator_type

T = TypeVar("T", default=Any)
"""The tuples that come in."""
Made = TypeVar("Made", default=Any)
"""Those that are made of them."""


class GivenSchema(Operator):
    """The base of operators whose property `schema` is that of the output port that `emits` names."""

    emits: ClassVar[str] = "output"

    def __post_init__(self) -> None:
        """Give the output port its schema."""
        if vars(self).get("schema") is not None:
            self.declare_schema(self.emits, vars(self)["schema"])


class DerivingOperator(Operator):
    """The base of operators the columns of whose port `output` follow from those of the port `input`."""

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of the output; None: those of the input. Raises SchemaError as `derived`."""
        return self.derived(inputs["input"]) if port == "output" and "input" in inputs else None

    def derived(self, given: Schema) -> object:
        """The columns of the output, for these of the input. Raises SchemaError if they do not fit."""
        return None


class ShapedOperator(DerivingOperator):
    """An operator with ports, or keys of ports, that properties name.

    Ports belong to a class. So an operator is of a subclass, made once for each shape.
    """

    shaped_by: ClassVar[str] = ""
    """The property that decides."""
    shape: ClassVar[Any] = None
    """What the ports of this class were made from; None: they are those that it declares."""
    fixed: ClassVar[str] = "cannot be changed from outside; give it in the application"

    @classmethod
    def shape_of(cls, given: Mapping[str, Any]) -> Hashable:
        """What the ports depend on, by the given properties, of which some may be missing or faulty."""
        raise NotImplementedError

    @classmethod
    def members_of(cls, shape: Any) -> dict[str, Any]:
        """The members of the class of a shape: ports, states, methods."""
        raise NotImplementedError

    def __new__(cls, *values: Any, **properties: Any) -> Self:
        """An operator of the class with these ports."""
        own: Any = cls
        if cls is unshaped(cls):
            positional = operator_type(cls).positional
            given = named_properties(cls.__name__, positional, values, properties) if values else properties
            own = shaped(own, cls.shape_of(given))
        made: Self = super().__new__(own)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (unshaped(type(self)), self.shape), self.__getstate__()

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse other ports than those with which the operator was made."""
        faults = super().property_faults()
        if self.shape_of(vars(self)) != self.shape:
            faults.append((self.shaped_by, vars(self).get(self.shaped_by), self.fixed))
        return faults


def unshaped(cls: type) -> type:
    """The class that declares the ports of a class that `shaped` made."""
    found: type = vars(cls).get("_unshaped", cls)
    return found


@cache
def shaped(base: Any, shape: Hashable) -> Any:
    """The class of operators with ports of a shape; the base itself for None."""
    if shape is None:
        return base
    own = {name: getattr(base, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(base.__name__, (base,), {**own, "_unshaped": base, "shape": shape, **base.members_of(shape)})


def _made(base: type, shape: Hashable) -> Operator:
    """An operator without properties, to be filled."""
    made: Operator = object.__new__(shaped(base, shape))
    return made


def handed_on(port: InputPort[Any], method: Callable[[Any, Any, pa.RecordBatch], None], place: object) -> Any:
    """The method of a class that hands batches of a port to another method, with the port's place."""

    @port.process_batch
    def take(self: Any, batch: pa.RecordBatch) -> None:
        method(self, place, batch)

    return take

"""A change of a running application's plan as a script writes it: `with handle.plan_change() as plan:`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, Unpack

from ridgeline.api.application import LocalityName
from ridgeline.api.attributes import Locality
from ridgeline.api.errors import ChangeError
from ridgeline.api.operator import Operator
from ridgeline.api.partitioner import Partitioner
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.api.support.attribute_types import OperatorAttributes
from ridgeline.plan.change.edit_texts import edits_text
from ridgeline.plan.change.editing import spec_of_operator
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveSink,
    RemoveStream,
    RenameOperator,
    Repartition,
    ReplaceOperator,
    SetAttribute,
    SetProperty,
)
from ridgeline.plan.spec.values import ValueFaultError, write_partitioner

Op = TypeVar("Op", bound=Operator)
Source = OutputPoint[Any] | str
Sink = InputPoint[Any] | str


class PlanChange:
    """Edits that are collected, to be made together.

    Ports are those of operators that were added here, `audit.payments`, or texts, `"audit.payments"`, for
    operators that run.

    Example:
        >>> from ridgeline.operators import ConsoleOutput
        >>> change = PlanChange()
        >>> console = change.add_operator("console", ConsoleOutput())
        >>> change.add_sink("balances", console.input)
        >>> change
        <add the operator `console`, `ridgeline.operators.ConsoleOutput`; add the sink `console.input` to the
         stream `balances`>
    """

    def __init__(self) -> None:
        self.edits: list[Edit] = []
        self._names: dict[int, str] = {}
        self._added: list[Operator] = []

    def add_operator(self, name: str, operator: Op, **attributes: Unpack[OperatorAttributes]) -> Op:
        """Add an operator, with attributes such as `partitions=2`. Returns it, for its ports."""
        self.edits.append(AddOperator(name, spec_of_operator(name, operator, attributes)))
        return self._known(name, operator)

    def replace_operator(self, name: str, operator: Op, **attributes: Unpack[OperatorAttributes]) -> Op:
        """Put another operator in the place of one: its streams stay, so does its state if that fits."""
        self.edits.append(ReplaceOperator(name, spec_of_operator(name, operator, attributes)))
        return self._known(name, operator)

    def remove_operator(self, name: str) -> None:
        """Remove an operator, with its state, and the ends of streams at it."""
        self.edits.append(RemoveOperator(name))

    def rename_operator(self, name: str, new: str) -> None:
        """Give an operator another name; it keeps its state."""
        self.edits.append(RenameOperator(name, new))

    def add_stream(
        self, name: str, source: Source, *sinks: Sink, locality: Locality | LocalityName | None = None
    ) -> None:
        """Join an output port to input ports."""
        ends = tuple(map(self._end, sinks))
        if not ends:
            raise ChangeError(f"the stream `{name}` has no sink; give at least one input port")
        self.edits.append(AddStream(name, self._end(source), ends, _name_of(locality)))

    def remove_stream(self, name: str) -> None:
        """Remove a stream."""
        self.edits.append(RemoveStream(name))

    def add_sink(self, stream: str, sink: Sink, locality: Locality | LocalityName | None = None) -> None:
        """Let an input port read a stream from now on."""
        self.edits.append(AddSink(stream, self._end(sink), _name_of(locality)))

    def remove_sink(self, stream: str, sink: Sink) -> None:
        """Let an input port read a stream no more."""
        self.edits.append(RemoveSink(stream, self._end(sink)))

    def set_property(self, operator: str, name: str, value: object) -> None:
        """Give an operator's property a value, in all partitions."""
        self.edits.append(SetProperty(operator, name, value))

    def set_attribute(
        self, operator: str, name: str, value: object, *, port: str = "", unifier: bool = False
    ) -> None:
        """Give an attribute a value: of an operator, of one of its ports, or of the unifiers of a port.

        `operator` "": of the application.
        """
        value = getattr(value, "name", value) if isinstance(value, Locality) else value
        self.edits.append(SetAttribute(operator, name, value, port, unifier))

    def repartition(
        self,
        operator: str,
        partitions: int | None = None,
        partitioner: Partitioner | Mapping[str, Any] | None = None,
    ) -> None:
        """Give an operator another number of partitions, or another partitioner, or both."""
        self.edits.append(repartition(operator, partitions, partitioner))

    def _known(self, name: str, operator: Op) -> Op:
        self._names[id(operator)] = name
        self._added.append(operator)  # its id stays its own
        return operator

    def _end(self, port: object) -> str:
        """A port as `operator.port`. Raises ChangeError."""
        if isinstance(port, str):
            return port
        if not isinstance(port, (InputPoint, OutputPoint)):
            raise ChangeError(f"{port!r} is no port; give one of an operator, `audit.payments`, or its text")
        name = self._names.get(id(port.operator))
        if name is None:
            kind = type(port.operator).__name__
            raise ChangeError(
                f"the port `{port.name}` is of a `{kind}` that this change does not add; "
                f'for an operator that runs give a text: "name.{port.name}"'
            )
        return f"{name}.{port.name}"

    def __repr__(self) -> str:
        return f"<{edits_text(self.edits) or 'no edits'}>"


def repartition(
    operator: str, partitions: int | None, partitioner: Partitioner | Mapping[str, Any] | None
) -> Repartition:
    """The edit for another number of partitions, or another partitioner. Raises ChangeError."""
    if partitions is None and partitioner is None:
        raise ChangeError(f"`{operator}` would stay as it is; give a number of partitions, or a partitioner")
    if not isinstance(partitioner, Partitioner):
        return Repartition(operator, partitions, partitioner)
    try:
        return Repartition(operator, partitions, write_partitioner(partitioner))
    except ValueFaultError as error:
        raise ChangeError(f"the partitioner of `{operator}`: {error.what}; {error.remedy}") from None


def _name_of(locality: Locality | LocalityName | None) -> str | None:
    return locality.name if isinstance(locality, Locality) else locality

"""The shape of a running application, as far as measuring needs it: plain data that an event log can hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """A physical operator: one partition of a logical operator, or one unifier of its outputs.

    Of a unifier (`unifier`), `name` is whose it is.

    `title` is what people read (`book[1]`), `kind` is `input`, `operator` or `output` (no output port is
    connected), `stateful` says that it declares state. `inputs` and `outputs` are the names of its connected
    ports.
    """

    id: int
    name: str
    title: str
    class_name: str
    partition: int
    partitions: int
    unifier: bool
    kind: str
    stateful: bool
    container: int
    stage: int
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    error_outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamEdge:
    """A stream from an output port of one physical operator to an input port of another."""

    name: str
    source: int
    source_port: str
    sink: int
    sink_port: str


@dataclass(frozen=True)
class Topology:
    """Physical operators in topological order, and their streams. Ids need not be dense."""

    operators: tuple[OperatorNode, ...]
    streams: tuple[StreamEdge, ...]

    @cached_property
    def by_id(self) -> dict[int, OperatorNode]:
        """The operators by id."""
        return {operator.id: operator for operator in self.operators}

    @cached_property
    def upstream(self) -> dict[int, tuple[int, ...]]:
        """The ids of the operators that each operator reads from, without repetition."""
        return self._neighbours((stream.sink, stream.source) for stream in self.streams)

    @cached_property
    def downstream(self) -> dict[int, tuple[int, ...]]:
        """The ids of the operators that read from each operator, without repetition."""
        return self._neighbours((stream.source, stream.sink) for stream in self.streams)

    @cached_property
    def streams_into(self) -> dict[int, tuple[StreamEdge, ...]]:
        """The streams that end at each operator."""
        return {
            operator.id: tuple(stream for stream in self.streams if stream.sink == operator.id)
            for operator in self.operators
        }

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        """The operators that nobody reads from."""
        return tuple(operator.id for operator in self.operators if not self.downstream[operator.id])

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        """The operators that read from nobody."""
        return tuple(operator.id for operator in self.operators if not self.upstream[operator.id])

    @cached_property
    def containers(self) -> dict[int, tuple[int, ...]]:
        """The operators of each container, in the order in which it runs them."""
        found: dict[int, list[int]] = {}
        for operator in self.operators:
            found.setdefault(operator.container, []).append(operator.id)
        return {container: tuple(ids) for container, ids in sorted(found.items())}

    @cached_property
    def stage_of(self) -> dict[int, int]:
        """The stage of each container."""
        return {operator.container: operator.stage for operator in self.operators}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The logical operators' names, in topological order."""
        return tuple(dict.fromkeys(operator.name for operator in self.operators))

    def partitions_of(self, name: str) -> tuple[OperatorNode, ...]:
        """The partitions of a logical operator, without unifiers."""
        return tuple(
            operator for operator in self.operators if operator.name == name and not operator.unifier
        )

    def _neighbours(self, pairs: Iterator[tuple[int, int]]) -> dict[int, tuple[int, ...]]:
        found: dict[int, dict[int, None]] = {operator.id: {} for operator in self.operators}
        for own, other in pairs:
            found[own][other] = None
        return {own: tuple(others) for own, others in found.items()}


def chain(*titles: str, stages: Sequence[int] | None = None) -> Topology:
    """A chain of operators, one container each: for examples and tests."""
    edges = tuple(
        StreamEdge(f"s{number}", number, "output", number + 1, "input") for number in range(1, len(titles))
    )
    last = len(titles)
    nodes = []
    for number, title in enumerate(titles, 1):
        kind = "input" if number == 1 else "output" if number == last else "operator"
        inputs, outputs = (("input",) if number > 1 else ()), (("output",) if number < last else ())
        stage = stages[number - 1] if stages else number - 1
        nodes.append(
            OperatorNode(
                number,
                title,
                title,
                "Operator",
                0,
                1,
                False,  # noqa: FBT003
                kind,
                False,  # noqa: FBT003
                number - 1,
                stage,
                inputs,
                outputs,
            )
        )
    return Topology(tuple(nodes), edges)

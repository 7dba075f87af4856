"""Notes on a valid plan: where order is lost, what depends on the number of partitions or on the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ridgeline.api.cells.keyed_declaration import Lifetimes
from ridgeline.api.errors import listed
from ridgeline.api.operator import SparkSource, operator_type
from ridgeline.api.state import KeyedState
from ridgeline.plan.logical import LogicalOperator, LogicalPlan
from ridgeline.plan.physical import PhysicalOperator, PhysicalPlan
from ridgeline.plan.region import PortRef
from ridgeline.plan.validate.graph import loop_notes


@dataclass(frozen=True, slots=True)
class Note:
    """A note on the operator `where`."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"`{self.where}`: {self.text}"


def find_notes(logical: LogicalPlan, physical: PhysicalPlan) -> tuple[Note, ...]:
    """The notes on a plan, in topological order of the operators.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.operators import RandomEventGenerator
        >>> from ridgeline.plan import plan_application
        >>> from ridgeline.testing import CollectorSink
        >>> app = Application("dice")
        >>> dice = app.add_operator("dice", RandomEventGenerator(), partitions=2)
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("rolls", dice.integer_data, sink.input)
        >>> plan = plan_application(app)
        >>> [note.where for note in find_notes(plan.logical, plan.physical)]
        ['dice']
    """
    first = {operator.name: operator for operator in reversed(physical.operators) if not operator.unifier}
    found = [
        Note(rule.operators[0], f"rule {rule.title} is not kept: {reason}")
        for rule, reason in logical.given_up
    ]
    for rule in logical.affinity:
        if not rule.locality.together:
            where = ", where these allow it" * rule.relax
            found.append(
                Note(rule.operators[0], f"rule {rule.title} is kept in slots on several hosts{where}")
            )
    found += (Note(where, text) for where, text in loop_notes(logical))
    for operator in logical.operators:
        texts = [*_order(operator)]
        if first[operator.name].partitions > 1:
            texts += _divided(logical, operator, first[operator.name])
        found += (Note(operator.name, text) for text in texts)
    return tuple(found)


def _order(operator: LogicalOperator) -> Iterator[str]:
    """The note of a Spark source on the order of its rows."""
    if isinstance(operator.operator, SparkSource) and (text := operator.operator.order_note()):
        yield text


def order_notes(logical: LogicalPlan) -> tuple[Note, ...]:
    """The notes on the order in which Spark sources give their rows, which `validate` prints too."""
    return tuple(Note(one.name, text) for one in logical.operators for text in _order(one))


def _divided(logical: LogicalPlan, operator: LogicalOperator, partition: PhysicalOperator) -> Iterator[str]:
    """The notes on an operator with several partitions."""
    count = partition.partitions
    if isinstance(operator.operator, SparkSource):
        yield (
            f"Spark divides its rows anew among {count} partitions in each window: "
            "those of one Spark partition keep their order"
        )
        return
    if operator.is_input:
        yield (
            f"{count} partitions read side by side: "
            "the order of a key's tuples is kept if all of them come from one partition"
        )
        return
    followed = operator.followed
    if partition.round_robin:
        ports = listed(sorted(partition.round_robin))
        yield (
            f"port {ports} is divided round robin among {count} partitions: "
            "the order of a key's tuples is not kept from here on"
        )
    everywhere = [
        port for port in operator.inputs if port not in {*partition.keys, *partition.round_robin, *followed}
    ]
    if everywhere:
        ports = "" if len(everywhere) == len(operator.inputs) else f" of port {listed(everywhere)}"
        yield (
            f"each of {count} partitions gets all tuples{ports}: "
            "what it emits of them comes from every one of them"
        )
    yield from _states(logical, operator, partition, followed)


def _states(
    logical: LogicalPlan, operator: LogicalOperator, partition: PhysicalOperator, followed: Sequence[str]
) -> Iterator[str]:
    """Notes on state that each partition keeps for itself, where no unifier merges the results."""
    declared = operator_type(type(operator.operator)).states
    keyed = [name for name, state in declared.items() if isinstance(state, KeyedState)]
    other = [name for name, state in declared.items() if not isinstance(state, (KeyedState, Lifetimes))]
    if keyed and followed and not partition.keys:
        ends = {PortRef(operator.name, port) for port in followed}
        sources = (one.source.operator for one in logical.streams if not ends.isdisjoint(one.sinks))
        upstream = listed(list(dict.fromkeys(sources)))
        yield (
            f"state {listed(keyed)} is right if all tuples of a key come from one partition of "
            f"{upstream}, which it follows"
        )
    alone = other if partition.keys or followed else [*keyed, *other]
    bare = [
        port
        for port in operator_type(type(operator.operator)).outputs
        if port in operator.outputs and operator.operator.unifier_of(port) is None
    ]
    if alone and bare:
        yield (
            f"each partition keeps state {listed(alone)} for itself, "
            f"and no unifier merges what they emit on {listed(bare)}"
        )

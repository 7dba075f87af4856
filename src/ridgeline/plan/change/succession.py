"""The plan that follows another one: what is the same keeps its id, divisions are compared.

So ids are unique for a run, but neither dense nor in topological order once a plan has been changed. How the
tuples of operators are divided among partitions is a text that a checkpoint keeps. With another partitioner,
or another key, states are with the wrong partitions though there are as many.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ridgeline.api.codec import ColumnCodec, FunctionCodec, StreamCodec
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.plan.build.fusing import build_execution
from ridgeline.plan.execution import Container, ExecutionPlan, Plan
from ridgeline.plan.physical import PhysicalOperator, PhysicalPlan
from ridgeline.plan.same_values import altered_properties, same_value, same_values


def succeed(old: Plan, new: Plan, *, others: Collection[str] = ()) -> Plan:
    """The new plan as the successor of the old one: of the next version, with the ids of what stays.

    A physical operator stays if an old one has its name, place, class, schemas and keys (`is_same`). A
    container has the id of the old one that most of its operators stay in, else a new one. New ones get an id
    that no plan of the run had. Operators that had containers of their own keep them. `others`: names in the
    new plan that are those of other operators than before, as where two have changed their names.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.operators import RandomEventGenerator
        >>> from ridgeline.plan import plan_application
        >>> from ridgeline.testing import CollectorSink
        >>> app = Application("dice")
        >>> dice = app.add_operator("dice", RandomEventGenerator(maximum=6))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("rolls", dice.integer_data, sink.input)
        >>> first = plan_application(app)
        >>> again = succeed(first, plan_application(app, attributes={"sink.partitions": 2}))
        >>> [(one.title, one.id) for one in again.physical.operators], again.version
        ([('dice', 1), ('sink[0]', 3), ('sink[1]', 4)], 1)
    """
    first, first_container = following_ids(old)
    by_place = {_place(one): one for one in old.physical.operators}
    ids: dict[int, int] = {}
    for one in new.physical.operators:
        before = by_place.get(_place(one))
        if before is not None and one.name not in others and is_same(before, one):
            ids[one.id] = before.id
        else:
            ids[one.id] = first
            first += 1
    execution = _unfused(old, new)
    boxes = _container_ids(old.execution, execution, ids, first_container)
    first_container = max(first_container, 1 + max(boxes.values(), default=0))

    def renumbered(box: Container) -> Container:
        return Container(boxes[box.id], box.stage, tuple(ids[one] for one in box.operators))

    operators = tuple(replace(one, id=ids[one.id]) for one in new.physical.operators)
    streams = tuple(replace(one, source=ids[one.source], sink=ids[one.sink]) for one in new.physical.streams)
    return Plan(
        new.logical,
        PhysicalPlan(operators, streams),
        ExecutionPlan(tuple(map(renumbered, execution.containers))),
        old.version + 1,
        (first, first_container),
        old.passed_over,
    )


def _unfused(old: Plan, new: Plan) -> ExecutionPlan:
    """The containers of a new plan, in which operators that shared none are not fused.

    Else a change to one partition would start its neighbours anew, too, and so would the next one back.
    """
    beside: dict[str, set[str]] = {}
    for names in _operators_of_containers(old):
        for name in names:
            beside.setdefault(name, set()).update(names)
    apart = {name: beside.keys() - others for name, others in beside.items()}
    if any(apart.get(name, set()) & names for names in _operators_of_containers(new) for name in names):
        return build_execution(new.logical, new.physical, apart)
    return new.execution


def _operators_of_containers(plan: Plan) -> Iterator[set[str]]:
    """The logical operators whose partitions are in each container."""
    names = {one.id: one.name for one in plan.physical.operators if not one.unifier}
    for box in plan.execution.containers:
        yield {names[one] for one in box.operators if one in names}


def following_ids(plan: Plan) -> tuple[int, int]:
    """The least ids of an operator and of a container that neither a plan nor one before it has had."""
    operators = 1 + max((one.id for one in plan.physical.operators), default=0)
    containers = 1 + max((one.id for one in plan.execution.containers), default=-1)
    return max(operators, plan.next_ids[0]), max(containers, plan.next_ids[1])


def is_same(old: PhysicalOperator, new: PhysicalOperator) -> bool:
    """True if two physical operators are the same one, which keeps its id: only values of it may differ.

    They have name, place, class and keys in common, and the schemas of the ports that both have connected.
    """
    return (
        _place(old) == _place(new)
        and type(old.operator) is type(new.operator)
        and old.keys == new.keys
        and old.round_robin == new.round_robin
        and _agree(old.inputs, new.inputs)
        and _agree(old.outputs, new.outputs)
    )


def can_retain(old: PhysicalOperator, new: PhysicalOperator) -> bool:
    """True if the living instance of the old operator serves as the new one, once its properties are set.

    So the two are the same, with the same attributes, and the same ports are connected. Else there is
    another instance, over the same state.
    """
    return (
        is_same(old, new)
        and old.inputs.keys() == new.inputs.keys()
        and old.outputs.keys() == new.outputs.keys()
        and same_values(old.attributes, new.attributes)
        and same_value(old.ports, new.ports)
    )


def changed_properties(old: PhysicalOperator, new: PhysicalOperator) -> dict[str, Any]:
    """The properties whose values differ, with the new ones; of two operators of one class."""
    names = altered_properties(old.operator, new.operator)
    return {name: vars(new.operator)[name] for name in names}


def _place(one: PhysicalOperator) -> Hashable:
    """The identity of a physical operator within a plan."""
    return one.name, one.port, one.unifier, one.slider, one.slides, one.partition, one.partitions


def _agree(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """True if the schemas of ports that both have are the same."""
    return all(old[port] == schema for port, schema in new.items() if port in old)


def _container_ids(
    old: ExecutionPlan, new: ExecutionPlan, ids: Mapping[int, int], first: int
) -> dict[int, int]:
    """The ids of the new plan's containers: the pair that has most operators in common is matched first."""
    homes = {one: box.id for box in old.containers for one in box.operators}
    shared = Counter(
        (box.id, homes[ids[one]]) for box in new.containers for one in box.operators if ids[one] in homes
    )
    found: dict[int, int] = {}
    taken: set[int] = set()
    # of pairs with as many operators the one with lower ids, so that a restart finds the same ids
    for (box_id, before), _ in sorted(shared.items(), key=lambda pair: (-pair[1], pair[0])):
        if box_id not in found and before not in taken:
            found[box_id] = before
            taken.add(before)
    for box in new.containers:
        if box.id not in found:
            found[box.id] = first
            first += 1
    return found


_DIGEST_BYTES = 8
_PLAIN = (str, bytes, int, float, bool, type(None))


def divisions(plan: Plan) -> dict[str, str]:
    """How each operator with several partitions is divided, by its name."""
    groups: dict[str, list[PhysicalOperator]] = {}
    for one in plan.physical.operators:
        if one.partitions > 1 and not one.unifier:
            groups.setdefault(one.name, []).append(one)
    return {name: _division(sorted(group, key=lambda one: one.partition)) for name, group in groups.items()}


def redivided(plan: Plan, before: Mapping[str, str]) -> set[str]:
    """The operators whose partitions get other tuples than before: by another partitioner, or another key."""
    after = divisions(plan) if before else {}
    return {name for name, text in before.items() if name in after and text != after[name]}


def divided_plainly(text: str, keys: Sequence[PartitionKeys], ports: Iterable[str]) -> bool:
    """True if a text of `divisions` is of partitions with these keys on all of these ports."""
    return text.split(maxsplit=1)[0] == _digest(
        [[{port: _keys(own) for port in sorted(ports)}, []] for own in keys]
    )


def is_by_value(operator: PhysicalOperator, port: str) -> bool:
    """True if tuples on a port go by the value of their key, which a state may be kept by."""
    declared = operator_type(type(operator.operator)).inputs.get(port)
    codec = None if declared is None else declared.codec
    if codec is None or type(codec) in {ColumnCodec, FunctionCodec}:
        return codec is not None
    schema = operator.inputs.get(port)
    return schema is not None and not schema.pickled and codec.key_columns(schema.arrow) is not None


def _keys(keys: PartitionKeys) -> list[object]:
    return [keys.mask, sorted(keys.keys), *([sorted(keys.shared)] if keys.shared else [])]


def _division(group: list[PhysicalOperator]) -> str:
    """Two words: digests of who gets which tuples, and of keys."""
    keys = [
        [{port: _keys(keys) for port, keys in sorted(one.keys.items())}, sorted(one.round_robin)]
        for one in group
    ]
    inputs = operator_type(type(group[0].operator)).inputs
    codecs = {port: _codec(inputs[port].codec) for port in sorted(group[0].keys) if port in inputs}
    return f"{_digest(keys)} {_digest(codecs)}"


def _digest(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _codec(codec: StreamCodec | None) -> object:
    """The columns that a codec hashes. Code is known by its name: what it computes is not compared."""
    columns = getattr(codec, "columns", None)
    if codec is None or isinstance(columns, tuple):
        return columns and list(columns)
    if isinstance(codec, FunctionCodec):
        return getattr(codec.function, "__qualname__", type(codec.function).__qualname__)
    values = {name: value for name, value in vars(codec).items() if isinstance(value, _PLAIN)}
    return [type(codec).__qualname__, repr(sorted(values.items()))]

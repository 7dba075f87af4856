"""Convert plans to values that JSON supports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ridgeline.api.application import Kind
from ridgeline.api.attributes import ATTRIBUTES, Locality
from ridgeline.api.columns.schema import Schema
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.api.support.masking import mask
from ridgeline.plan.build.port_attributes import sections
from ridgeline.plan.execution import ExecutionPlan, Plan
from ridgeline.plan.graph import Part
from ridgeline.plan.logical import LogicalOperator, LogicalPlan, locality_name, module_of
from ridgeline.plan.physical import PhysicalOperator, PhysicalPlan, PhysicalStream, RoundRobin
from ridgeline.plan.region import PortRef, QueueEdge, Region
from ridgeline.plan.show.notes import find_notes
from ridgeline.plan.shown_properties import plain, shown_properties


def to_dict(plan: Plan, regions: Sequence[Plan] = ()) -> dict[str, object]:
    """Convert all three plans, and the notes on them, to plain values.

    `regions`: of an application of several, the plan of each. The physical plan of the whole does not run.

    Properties and attributes without a JSON form appear as their shortened `repr`. Secrets are masked.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.operators import RandomEventGenerator
        >>> from ridgeline.plan import plan_application
        >>> from ridgeline.testing import CollectorSink
        >>> app = Application("dice")
        >>> dice = app.add_operator("dice", RandomEventGenerator(maximum=6))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("rolls", dice.integer_data, sink.input)
        >>> to_dict(plan_application(app))["execution"]
        {'stages': [{'index': 0, 'containers': [{'id': 0, 'operators': [1, 2]}]}]}
    """
    found = _whole(plan)
    if regions:
        pairs = zip(plan.logical.regions, regions, strict=True)
        found["regions"] = [_region(region, one) for region, one in pairs]
    return found


def _picked(thing: object, names: str) -> dict[str, object]:
    """Some fields of a thing as plain values, in this order."""
    return {name: _json(getattr(thing, name)) for name in names.split()}


def _json(value: object) -> object:
    """A value of a plan: ports, schemas and localities as texts."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, PortRef):
        return str(value)
    if isinstance(value, Schema):
        return value.describe()
    if isinstance(value, Locality):
        return value.name
    if isinstance(value, (list, tuple)):
        return list(map(_json, value))
    return {key: _json(one) for key, one in value.items()} if isinstance(value, Mapping) else value


def _region(region: Region, plan: Plan) -> dict[str, object]:
    """A region with its queues and its plans as plain values."""
    return {
        **_picked(region, "name operators"),
        "attributes": {name: plain(value) for name, value in region.attributes.items()},
        "reads": list(map(_queue, region.reads)),
        "writes": list(map(_queue, region.writes)),
        **_whole(plan),
    }


def _queue(edge: QueueEdge) -> dict[str, object]:
    """A queue, as one of its readers has it."""
    return _picked(edge, "stream source writer writer_region reader reader_region sinks keep")


def _whole(plan: Plan) -> dict[str, object]:
    """The three plans of an application, or of a region, and the notes on them."""
    notes = find_notes(plan.logical, plan.physical)
    return {
        "application": plan.logical.application,
        "version": plan.version,
        "logical": {"window_seconds": plan.logical.window_seconds, **logical_to_dict(plan.logical)},
        "physical": _physical(plan.physical, plan.execution.homes),
        "execution": _execution(plan.execution),
        "notes": [{"operator": note.where, "text": note.text} for note in notes],
    }


def logical_to_dict(plan: LogicalPlan) -> dict[str, object]:
    """The logical plan as plain values, in the words of Apex's web services."""
    return {
        "operators": list(map(_logical_operator, plan.operators)),
        "streams": [
            {
                "name": stream.name,
                "source": _end(stream.source),
                "sinks": list(map(_end, stream.sinks)),
                "persisted": list(map(_end, stream.persisted)),
                "locality": locality_name(stream.locality),
                "localities": [locality_name(sink.locality) for sink in stream.sinks.values()],
                "schema": stream.schema.describe(),
            }
            for stream in plan.streams
        ],
        "modules": list(map(_module, plan.modules)),
        "attributes": _attributes(plan.attributes),
    }


def _module(part: Part) -> dict[str, object]:
    """A module: where its ports lead to. An output port stands for one inside."""
    ends = part.ends or {}
    return {
        **_made(part.name, part.module),
        "inputs": {port: list(map(_end, ends[port])) for port in part.declared.inputs},
        "outputs": {port: _end(ends[port][0]) for port in part.declared.outputs},
    }


def _logical_operator(operator: LogicalOperator) -> dict[str, object]:
    """One operator of the logical plan as plain values."""
    return {
        **_made(operator.name, operator.operator),
        "attributes": _attributes(operator.attributes),
        "ports": _ports(operator),
    }


def _made(name: str, component: object) -> dict[str, object]:
    """Name, class and properties of an operator or a module."""
    kind = type(component)
    return {
        "name": name,
        "module": module_of(name) or None,
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "properties": shown_properties(component),
    }


def _ports(operator: LogicalOperator) -> list[dict[str, object]]:
    """All ports of an operator, connected or not. The schema of a port is known if it is connected."""
    declared = operator_type(type(operator.operator))
    kinds = (("input", declared.inputs, operator.inputs), ("output", declared.outputs, operator.outputs))
    return [
        {
            "name": name,
            "type": kind,
            "connected": name in connected,
            "schema": connected[name].describe() if name in connected else None,
            "attributes": _attributes(operator.ports[name]),
            "unifierAttributes": _attributes(operator.unifiers.get(name, {})),
        }
        for kind, known, connected in kinds
        for name in dict.fromkeys((*known, *connected))
    ]


def _attributes(values: Mapping[str, object]) -> dict[str, object]:
    """All attributes, defaults filled in."""
    return {name: plain(mask(name, value)) for name, value in values.items()}


def _end(port: PortRef) -> dict[str, str]:
    return {"operatorName": port.operator, "portName": port.port}


def set_attributes(application: LogicalPlan) -> dict[str, object]:
    """The attributes of an application that differ from their defaults, as plain values."""
    return {
        name: plain(mask(name, value))
        for name, value in application.attributes.items()
        if value != ATTRIBUTES[name].default
    }


def set_sections(operator: LogicalOperator) -> dict[tuple[Kind, str], dict[str, object]]:
    """The attributes of an operator, its ports and unifiers that differ from what they are if not given."""
    found = {
        of: {
            name: plain(mask(name, value))
            for name, value in values.items()
            if value != inherited.get(name, ATTRIBUTES[name].default)
        }
        for of, (values, inherited) in sections(operator, {}).items()
    }
    return {of: values for of, values in found.items() if values}


def _physical(physical: PhysicalPlan, homes: Mapping[int, int]) -> dict[str, object]:
    """The physical plan as plain values. `homes`: the container of each operator."""
    return {
        "operators": list(map(_physical_operator, physical.operators)),
        "streams": [
            _physical_stream(stream, leaves=homes[stream.source] != homes[stream.sink])
            for stream in physical.streams
        ],
    }


def _physical_operator(operator: PhysicalOperator) -> dict[str, object]:
    """One partition or unifier as plain values."""
    return {
        **_picked(operator, "id name title partition partitions unifier port slider"),
        "inputs": {name: _share(operator, name) for name in operator.inputs},
    }


def _share(operator: PhysicalOperator, port: str) -> dict[str, object]:
    if port in operator.keys:
        return _keys(operator.keys[port])
    return {"round_robin": True} if port in operator.round_robin else {}


def _keys(keys: PartitionKeys) -> dict[str, object]:
    shared = {"shared": sorted(keys.shared)} if keys.shared else {}
    return {"mask": keys.mask, "keys": sorted(keys.keys), **shared}


def _physical_stream(stream: PhysicalStream, *, leaves: bool) -> dict[str, object]:
    """One physical stream as plain values. `leaves`: its ends are in two containers."""
    route: dict[str, object] | None = None
    if isinstance(stream.route, PartitionKeys):
        route = _keys(stream.route)
    elif isinstance(stream.route, RoundRobin):
        route = _picked(stream.route, "index of")
    combined = {"combined": True} if leaves and stream.combiner is not None else {}
    return {**_picked(stream, "name source source_port sink sink_port"), "route": route, **combined}


def _execution(execution: ExecutionPlan) -> dict[str, object]:
    return {
        "stages": [
            {"index": stage[0].stage, "containers": [_picked(box, "id operators") for box in stage]}
            for stage in execution.stages
        ]
    }

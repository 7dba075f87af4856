"""Join what modules were expanded to: one stream a port, options of modules given to what is inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ridgeline.api.errors import Faults, did_you_mean
from ridgeline.api.support.attribute import Scope
from ridgeline.plan.graph import Graph, Part, Stream
from ridgeline.plan.modules.expanding import Expanded
from ridgeline.plan.overrides import Overrides
from ridgeline.plan.region import PortRef
from ridgeline.plan.validate.attributes import check_attributes
from ridgeline.plan.validate.ports import check_needed


def flatten(faults: Faults, expanded: Expanded, options: Overrides) -> Graph:
    """The graph with one stream for each output port, and with options of streams; adds faults.

    Attributes of modules in the `options` become those of operators inside.
    """
    graph = expanded.graph
    streams = dict(graph.streams)
    for (of, name, _), given in options.items():
        if of != "stream":
            continue
        if name not in streams:
            what = f"there is no stream `{name}` to set an attribute of"
            faults.add(f"stream.{name}", what, did_you_mean(name, streams))
            continue
        values, doubtful = check_attributes(faults, f"stream.{name}", Scope.STREAM, given, {})
        if "locality" in given.keys() - doubtful:
            streams[name] = streams[name].placed(values["locality"])
    for part in sorted(graph.parts.values(), key=lambda part: -part.name.count(".")):
        _spread(faults, graph, part, options)
    exempt = [end for part in graph.parts.values() for end in _connected(faults, part, expanded.connected)]
    return replace(graph, streams=_merged(streams), exempt=frozenset(exempt))


def _connected(faults: Faults, part: Part, connected: frozenset[PortRef]) -> list[PortRef]:
    """Check that the ports of a module are connected outside, by the rules for those of operators.

    Returns the ports inside that a port of it stands for: they need no stream.
    """
    if part.failed or part.ends is None:
        return []
    inputs = part.declared.inputs
    found = {name for name in part.ends if PortRef(part.name, name) in connected}
    check_needed(faults, part.name, inputs, part.declared.outputs, found)
    left = {name for name, port in inputs.items() if port.optional} - found
    return [end for name, ends in part.ends.items() if name not in left for end in ends]


def _spread(faults: Faults, graph: Graph, part: Part, options: Overrides) -> None:
    """Give options of a module to the operators and ports inside; their own count more."""
    inside, leads = [name for name in graph.nodes if name.startswith(f"{part.name}.")], part.ends or {}
    given = options.taken([part.name])
    for (kind, _, port), values in given.items():
        known = [*part.declared.outputs, *(part.declared.inputs if kind == "port" else ())]
        ends = [(one, "") for one in inside] or [(part.name, "")]
        if port and (port in known or part.failed):
            ends = [(end.operator, end.port) for end in leads.get(port, ())]
        elif port:
            noun = "output port" if kind == "unifier" else "port"
            what = f"module `{part.name}` has no {noun} `{port}` to set an attribute of"
            faults.add(f"{part.name}.{kind}.{port}", what, did_you_mean(port, known))
            continue
        for operator, inner in ends:
            own = options.setdefault((kind, operator, inner), {})
            own |= {**values, **own}


def _merged(streams: Mapping[str, Stream]) -> dict[str, Stream]:
    """One stream for each output port that feeds some within its module and others by a port of the module.

    It has the name of the innermost one. Two that begin at one port of one place stay two, which is a fault.
    """
    groups: dict[PortRef, list[Stream]] = {}
    for stream in streams.values():
        if stream.source is not None:
            groups.setdefault(stream.source, []).append(stream)
    found = dict(streams)
    for group in groups.values():
        ways = [stream.source.through for stream in group if stream.source is not None]
        if len(group) == 1 or len({*ways}) < len(ways):
            continue
        kept = min(group, key=lambda stream: len(stream.source.through) if stream.source else 0)
        sinks = dict(kept.sinks)
        for stream in group:
            sinks |= stream.sinks
            del found[stream.name]
        found[kept.name] = replace(kept, sinks=sinks)
    return {name: found[name] for name in streams if name in found}

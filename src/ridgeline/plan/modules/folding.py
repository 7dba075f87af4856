"""The logical plan as its author wrote it: modules as one operator each, streams between their ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ridgeline.api.attributes import Locality
from ridgeline.plan.logical import LogicalModule, LogicalOperator, LogicalPlan, LogicalStream, PortRef


@dataclass(frozen=True, slots=True)
class ShownStream:
    """A stream between operators and modules; the locality of each sink."""

    stream: LogicalStream
    source: str
    sinks: Sequence[str]
    localities: Sequence[Locality | None]


def unfolded_streams(logical: LogicalPlan) -> list[ShownStream]:
    """All streams, between operators."""
    return [
        ShownStream(stream, str(stream.source), list(map(str, stream.sinks)), stream.localities)
        for stream in logical.streams
    ]


def folded_operators(logical: LogicalPlan) -> list[LogicalOperator | LogicalModule]:
    """Operators that are in no module, and the modules that are in no other one, in topological order."""
    outer = _outermost(logical)
    found: dict[str, LogicalOperator | LogicalModule] = {}
    for operator in logical.operators:
        module = outer.get(operator.name.partition(".")[0])
        found.setdefault(module.name if module else operator.name, module or operator)
    for module in outer.values():  # those without operators
        found.setdefault(module.name, module)
    return list(found.values())


def folded_streams(logical: LogicalPlan) -> list[ShownStream]:
    """The streams of which an end is outside of modules, or in another one than the source."""
    outer = _outermost(logical)
    shown = []
    for stream in logical.streams:
        inside = outer.get(stream.name.partition(".")[0]) if "." in stream.name else None
        sinks: dict[str, Locality | None] = {}
        for sink, locality in zip(stream.sinks, stream.localities, strict=True):
            home = outer.get(sink.operator.partition(".")[0])
            if home is None:
                sinks[str(sink)] = locality
            elif home is not inside:
                port = next((port for port, ends in home.inputs.items() if sink in ends), "")
                sinks.setdefault(f"{home.name}.{port}", locality)
        if sinks:
            source = _source(outer, stream.source)
            shown.append(ShownStream(stream, source, list(sinks), list(sinks.values())))
    return shown


def _source(outer: dict[str, LogicalModule], source: PortRef) -> str:
    home = outer.get(source.operator.partition(".")[0])
    if home is None:
        return str(source)
    return f"{home.name}.{next((port for port, end in home.outputs.items() if end == source), '')}"


def _outermost(logical: LogicalPlan) -> dict[str, LogicalModule]:
    return {module.name: module for module in logical.modules if "." not in module.name}

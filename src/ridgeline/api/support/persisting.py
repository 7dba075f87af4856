"""Persisted and decoupled streams: what `add_stream(..., persist=, decoupled=)` names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ridgeline.api.errors import shorten
from ridgeline.api.module import InputProxy
from ridgeline.api.operator import InputOperator, Operator, operator_type
from ridgeline.api.points import InputPoint

if TYPE_CHECKING:
    from ridgeline.api.application import Application

Persist: TypeAlias = Operator | InputPoint[Any]
"""Writes a stream: an output operator, or one of its input ports."""
_REMEDY = 'give an output operator, such as `FileOutput("folder")`, or an input port of one'


@dataclass(frozen=True, slots=True)
class Persisting:
    """The additions of a `persist` to its stream. `added`: new operators by name. `ports`: the new sinks."""

    added: tuple[tuple[str, Operator], ...]
    ports: tuple[InputPoint[Any], ...]
    faults: tuple[tuple[str, str], ...]


def persisting(
    app: Application, stream: str, sinks: Sequence[object], persist: object, name: str = ""
) -> Persisting:
    """Read the `persist` of a stream. Its faults are reported when the plan is validated.

    `name`: of the operator that is added, if not `STREAM_persisted`.
    """
    added: list[tuple[str, Operator]] = []
    ports: list[InputPoint[Any]] = []
    faults: list[tuple[str, str]] = []
    wanted: list[tuple[str, object]] = []
    if isinstance(persist, Mapping):
        for sink, operator in persist.items():
            if any(sink is other for other in sinks):
                wanted.append((f"{_title(app, sink)}_persisted", operator))
            else:
                what = f"`persist` is given for {shorten(sink)}, which is no sink of the stream"
                faults.append((what, "name one of its sinks"))
    elif persist is not None:
        wanted.append((name or f"{stream}_persisted", persist))
    for title, given in wanted:
        port = given if isinstance(given, InputPoint) else _port(given, faults)
        if port is None:
            continue
        ports.append(port)
        known = [one.operator for one in app.operators] + [operator for _, operator in added]
        if not any(port.operator is operator for operator in known):
            added.append((title, port.operator))
    return Persisting(tuple(added), tuple(ports), tuple(faults))


def decoupled_sinks(
    sinks: Sequence[object], decoupled: object
) -> tuple[tuple[object, ...], tuple[tuple[str, str], ...]]:
    """The sinks of a stream that `decoupled` names, and the faults of it."""
    if isinstance(decoupled, bool):
        return (tuple(sinks) if decoupled else ()), ()
    remedy = "give True, or some of its sinks: `decoupled={slow.data}`"
    if isinstance(decoupled, str) or not isinstance(decoupled, Collection):
        return (), ((f"`decoupled` is {shorten(decoupled)}", remedy),)
    others = [one for one in decoupled if not any(one is sink for sink in sinks)]
    faults = [(f"`decoupled` names {shorten(one)}, which is no sink of the stream", remedy) for one in others]
    return tuple(sink for sink in sinks if any(sink is one for one in decoupled)), tuple(faults)


def _port(given: object, faults: list[tuple[str, str]]) -> InputPoint[Any] | None:
    """The input port of an operator that the stream leads to; None, and a fault, if that is not clear."""
    if not isinstance(given, Operator) or isinstance(given, InputOperator):
        faults.append((f"what is to write is {shorten(given)}, which takes no tuples", _REMEDY))
        return None
    declared, kind = operator_type(type(given)), type(given).__name__
    inputs = [name for name, port in declared.inputs.items() if not port.optional] or list(declared.inputs)
    needed = [name for name, port in declared.outputs.items() if not port.optional and not port.error]
    if len(inputs) != 1:
        what = f"what is to write is a `{kind}`, which has {len(inputs)} input ports"
        faults.append((what, "name the port: add the operator first, and give `operator.port`"))
    elif needed:
        what = f"what is to write is a `{kind}`, whose output port `{needed[0]}` would lead nowhere"
        faults.append((what, "give an output operator; or add it first, and give `operator.port`"))
    else:
        port: InputPoint[Any] = getattr(given, inputs[0])
        return port
    return None


def _title(app: Application, sink: Any) -> str:
    """Owner and port of a sink, as part of a name."""
    owner = sink.module if isinstance(sink, InputProxy) else getattr(sink, "operator", None)
    names = [one.name for one in app.operators if one.operator is owner]
    names += [one.name for one in app.modules if one.module is owner]
    return f"{names[0] if names else type(owner).__name__}_{getattr(sink, 'name', 'sink')}"

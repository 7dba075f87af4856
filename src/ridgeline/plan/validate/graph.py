"""Check the graph: cycles, delay operators and their loops, schemas along the streams, processing modes."""

from __future__ import annotations

from collections.abc import Iterator

from ridgeline.api.attributes import ProcessingMode
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import Faults, SchemaError, listed
from ridgeline.api.operator import SparkSource
from ridgeline.api.support.loops import HEAD, TAIL, DelayHead, DelayTail
from ridgeline.measure.wording.units import plural
from ridgeline.plan.draft import Draft
from ridgeline.plan.graphs import find_cycles, reachable, successors
from ridgeline.plan.logical import LogicalOperator, LogicalPlan, module_of
from ridgeline.plan.region import PortRef
from ridgeline.plan.validate.ports import declared_schema


def check_cycles(draft: Draft, faults: Faults) -> None:
    """Add a fault for each cycle, with the names of its operators."""
    for names in find_cycles(draft.owners, draft.pairs()):
        what = f"the operators form a cycle: `{' -> '.join(names)}`"
        faults.add(names[0], what, "lead one of the streams between them through a `Delay`, or remove it")


def resolve_schemas(draft: Draft, faults: Faults) -> None:
    """Resolve the schemas of all ports, then compare both ends of each stream.

    A port declared as `Any` takes its stream's schema. Changes `inputs` and `outputs`.
    """
    for operator in draft.ordered():
        open_inputs = []
        for name in operator.declared.inputs:
            sound, schema = declared_schema(faults, operator.port(name), operator.operator, name)
            if sound and schema is None:
                open_inputs.append(name)
                source = operator.entered.get(name)
                schema = source.operator.outputs.get(source.port) if source else None
            if schema is not None:
                operator.inputs[name] = schema
        for name in operator.declared.every_output:
            sound, schema = declared_schema(faults, operator.port(name), operator.operator, name)
            if sound and schema is None:
                sound, schema = _derived(faults, operator, name)
            if sound and schema is None:
                schema = _passed_on(faults, operator, name, open_inputs)
            if schema is not None:
                operator.outputs[name] = schema
    for stream in draft.streams.values():
        if stream.source is not None:
            for sink in stream.sinks:
                _compare(draft, faults, stream.name, stream.source, sink)


def _compare(draft: Draft, faults: Faults, stream: str, source: PortRef, sink: PortRef) -> None:
    """Add a fault for the first port, on the way from source to sink, that does not take what comes."""
    given, giver = draft.owners[source.operator].outputs.get(source.port), str(source)
    parts = draft.graph.parts
    through = [(parts[name], port) for name, port in sink.through if name in parts]
    way = [(f"{part.name}.{port}", part.schemas.get(port)) for part, port in through]
    for taker, taken in [*way, (str(sink), draft.owners[sink.operator].inputs.get(sink.port))]:
        difference = given.difference(taken) if given is not None and taken is not None else None
        if given is not None and taken is not None and difference is not None:
            schemas = f"`{giver}` gives {given.describe()}, `{taker}` takes {taken.describe()}"
            what = f"schema mismatch on stream `{stream}`: {schemas}: {difference}"
            remedy = "declare the same columns on both ports, or convert the tuples in an operator between"
            faults.add(taker, what, f"{remedy} them")
            return
        if taken is not None:
            given, giver = taken, taker


def _derived(faults: Faults, operator: LogicalOperator, name: str) -> tuple[bool, Schema | None]:
    """The schema that the operator makes of those of its inputs, for an output declared as `Any`.

    False with a fault, which hides the columns: what follows of them would be false. It is one already if a
    property is missing.
    """
    given = vars(operator.operator)
    if any(name not in given for name in operator.declared.properties if name != "context"):
        return False, None
    try:
        made = operator.operator.derived_schema(name, operator.inputs)
        return True, None if made is None else Schema(made)
    except SchemaError as error:
        others = {operator.port(other) for other in operator.declared.every_output}
        if not any(fault.what == str(error) and fault.where in others for fault in faults):
            faults.add(operator.port(name), str(error), "change that, or the operator before it")
    except Exception:
        if operator.sound:
            raise
    return False, None


def _passed_on(faults: Faults, operator: LogicalOperator, name: str, open_inputs: list[str]) -> Schema | None:
    """The schema of an output declared as `Any`: that of the first connected input declared as `Any`.

    Adds a fault if there is none, unless another fault is the cause.
    """
    for entry in open_inputs:
        if entry in operator.entered:
            return operator.inputs.get(entry)
    reported = any(
        entry in operator.touched or not operator.declared.inputs[entry].optional for entry in open_inputs
    )
    if name in operator.touched and not reported:
        what = "the output port is declared as `Any`, and no input gives it a schema"
        remedy = f'declare it on the port, or call `self.declare_schema("{name}", ...)` in `__init__`'
        faults.add(operator.port(name), what, remedy)
    return None


def check_modes(draft: Draft, faults: Faults) -> None:
    """Refuse an AT_MOST_ONCE operator before another mode: what it drops, the others cannot get."""
    following = successors(draft.owners, draft.pairs())

    def at_most_once(name: str) -> bool:
        return draft.owners[name].attributes["processing_mode"] is ProcessingMode.AT_MOST_ONCE

    for name, operator in draft.owners.items():
        if not operator.attributes["keep_state"]:
            where = operator.port("keep_state")
            if not at_most_once(name):
                faults.add(where, "its state is part of exact results", "make it AT_MOST_ONCE too")
            if operator.is_input and getattr(operator.operator, "begin", None) != "latest":
                faults.add(where, "after an outage it would read again", 'give the input `begin="latest"`')
        if at_most_once(name) and not all(map(at_most_once, following[name])):
            behind = reachable(name, following)
            others = [
                one.name
                for one in draft.operators
                if one.name in behind and not at_most_once(one.name) and "processing_mode" not in one.doubtful
            ]
            if others:
                what = f"it is AT_MOST_ONCE, but upstream of operators that are not: {listed(others)}"
                remedy = "make these AT_MOST_ONCE too, or this one AT_LEAST_ONCE"
                faults.add(operator.port("processing_mode"), what, remedy)


def check_loops(draft: Draft, faults: Faults) -> None:
    """Refuse ends of a delay that do not fit each other, and application windows of a delay.

    With an application window tuples would stay in the delay for several windows.
    """
    partitions = {
        module_of(operator.name): operator.partitions
        for operator in draft.operators
        if isinstance(operator.operator, DelayHead)
    }
    for operator in draft.operators:
        if not isinstance(operator.operator, (DelayHead, DelayTail)):
            continue
        delay = module_of(operator.name)
        count = operator.attributes["application_window_count"]
        if isinstance(count, int) and count != 1:
            what = f"a delay of one window was given application windows of {count}"
            remedy = "leave it out, or give it to an operator of the loop"
            faults.add(operator.port("application_window_count"), what, remedy)
        emits, takes = partitions.get(delay), operator.partitions
        if isinstance(operator.operator, DelayTail) and None not in (emits, takes) and emits != takes:
            what = f"`{delay}.{TAIL}` has {plural(takes or 0, 'partition')}, `{delay}.{HEAD}` has {emits}"
            faults.add(delay, what, f"give `partitions` to `{delay}`, for both ends")


def loop_notes(logical: LogicalPlan) -> Iterator[tuple[str, str]]:
    """What is to be known of loops, with the first delay."""
    heads = [one.name for one in logical.operators if isinstance(one.operator, DelayHead)]
    if not heads:
        return
    first = module_of(heads[0])
    yield first, "the application runs one window at a time, whatever `windows_in_flight` says"
    sources = [one.name for one in logical.operators if isinstance(one.operator, SparkSource)]
    if sources:
        yield first, f"loops go on only as {listed(sources)} has new rows: Spark begins windows with them"

"""Validate an application: find all faults at once, or return the logical plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ridgeline.api.application import Application
from ridgeline.api.errors import Fault, Faults
from ridgeline.plan.build.key_agreement import check_sharing
from ridgeline.plan.change.editing import edited, names_made
from ridgeline.plan.draft import Draft, with_origins
from ridgeline.plan.edits import Edit, Given
from ridgeline.plan.graph import Graph
from ridgeline.plan.logical import LogicalPlan, LogicalStream
from ridgeline.plan.modules.ends import flatten
from ridgeline.plan.modules.expanding import expand
from ridgeline.plan.overrides import read_options
from ridgeline.plan.validate.affinity import read_affinity
from ridgeline.plan.validate.application import (
    check_name,
    read_application,
    read_listeners,
)
from ridgeline.plan.validate.attributes import check_speculation, read_port_attributes
from ridgeline.plan.validate.graph import check_cycles, check_loops, check_modes, resolve_schemas
from ridgeline.plan.validate.operators import check_metrics, read_operators
from ridgeline.plan.validate.order import check_order
from ridgeline.plan.validate.partitions import check_unused, divide_operators
from ridgeline.plan.validate.placement import settle_placement
from ridgeline.plan.validate.ports import check_connections, check_declarations
from ridgeline.plan.validate.regions import divide
from ridgeline.plan.validate.streams import connect_dead_letters, read_streams, skip_for_dead_letters
from ridgeline.plan.validate.times import check_slides, check_times

_NONE: Mapping[str, object] = {}
_NOTHING = Given()
Rewrite = Callable[[Graph], Graph]
"""Gets an application by name, without modules, before it is checked; returns it, or another one."""


def validate(
    app: Application,
    properties: Mapping[str, object] = _NONE,
    attributes: Mapping[str, object] = _NONE,
    rewrite: Rewrite | None = None,
    *,
    edits: Sequence[Edit] = (),
    kept: Sequence[Edit] = (),
) -> LogicalPlan:
    """Return the logical plan of an application. Raises ValidationError with all faults.

    `properties` (`{"operator.property": value}`) and `attributes` (`{"operator.name": value}`) override what
    the application says; texts are converted. Attributes of a port have the key `operator.port.PORT.name`,
    those of its unifiers `operator.unifier.PORT.name`, those of the application `name` and `window`.
    The author's operators are not changed: the plan contains copies. `rewrite` changes what is
    planned, once modules are expanded. `edits` are made of all that. Those in `kept`, which a run
    before has made, count less than `properties` and `attributes`.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.operators import RandomEventGenerator
        >>> from ridgeline.testing import CollectorSink
        >>> app = Application("dice")
        >>> dice = app.add_operator("dice", RandomEventGenerator(maximum=6))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("rolls", dice.integer_data, sink.input)
        >>> validate(app, {"dice.maximum": "20"}).operator("dice").operator.maximum
        20
    """
    given = Given(properties, attributes, tuple(edits), tuple(kept))
    draft, faults = examine(app, given, rewrite)
    faults.check(draft.graph.name)
    return replace(_logical_plan(draft), source=(app, given))


def find_faults(
    app: Application, properties: Mapping[str, object] = _NONE, attributes: Mapping[str, object] = _NONE
) -> list[Fault]:
    """Find all faults of an application; empty if it is valid. Arguments as for `validate`.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.operators import RandomEventGenerator
        >>> from ridgeline.testing import CollectorSink
        >>> app = Application("dice")
        >>> dice = app.add_operator("dice", RandomEventGenerator(maximun=6))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("rolls", dice.integer_data, sink.input)
        >>> for fault in find_faults(app):
        ...     print(fault)
        `dice.maximun`: `RandomEventGenerator` has no property `maximun`; did you mean `maximum`?
    """
    return examine(app, Given(properties, attributes))[1]


def examine(
    app: Application, given: Given = _NOTHING, rewrite: Rewrite | None = None
) -> tuple[Draft, Faults]:
    """Read an application, which need not be finished. Returns the draft with schemas, and the faults.

    A step that is called here may write the draft, and needs what steps before it have written: its place
    matters. Checks, which `_check` calls, write faults only. So a check may be added wherever all is written
    that it reads; its place decides only where its faults stand among the others.
    """
    faults = Faults()
    check_name(faults, "application", app.name)
    expanded = expand(faults, app, given.properties)
    names = {*expanded.graph.names, *names_made((*given.kept, *given.edits))}
    options = read_options(expanded.properties, given.attributes, names)
    graph = skip_for_dead_letters(flatten(faults, expanded, options), given.attributes)
    for rewritten in (app.cut, rewrite):
        graph = graph if rewritten is None else rewritten(graph)
    options.taken(graph.elsewhere)
    written = set(graph.nodes)  # a promise may be of one that edits remove
    draft = Draft(edited(faults, graph, given, options))
    read_application(draft, faults)
    read_operators(draft, faults)
    read_listeners(draft, faults, written)
    read_port_attributes(draft, faults)
    read_streams(draft, faults)
    connect_dead_letters(draft, faults)
    draft.affinity = read_affinity(draft, faults)
    draft.regions = divide(draft, faults)
    _check(draft, faults, check_connections, check_cycles)
    resolve_schemas(draft, faults)
    _check(draft, faults, check_declarations, check_slides, check_speculation, check_modes)
    divide_operators(draft, faults)
    _check(draft, faults, check_sharing, check_metrics, check_times, check_unused, check_loops, check_order)
    settle_placement(draft, faults)
    return draft, with_origins(faults, app.origins)


def _check(draft: Draft, faults: Faults, *checks: Callable[[Draft, Faults], None]) -> None:
    """Add the faults that checks find, which leave the draft as it is."""
    for check in checks:
        check(draft, faults)


def _logical_plan(draft: Draft) -> LogicalPlan:
    """The logical plan of a draft without faults."""
    for one in draft.operators:
        one.operator.settle_properties()
        one.inputs = {name: schema for name, schema in one.inputs.items() if name in one.touched}
        one.outputs = {name: schema for name, schema in one.outputs.items() if name in one.touched}
    streams = [
        LogicalStream(
            stream.name,
            stream.source,
            stream.sinks,
            draft.owners[stream.source.operator].outputs[stream.source.port],
        )
        for stream in draft.streams.values()
        if stream.source is not None  # as in every valid draft
    ]
    return LogicalPlan(
        draft.graph.name,
        draft.window_seconds,
        draft.attributes,
        tuple(draft.ordered()),
        tuple(streams),
        tuple(draft.graph.parts.values()),
        tuple(draft.affinity),
        tuple(draft.given_up),
        draft.listeners,
        draft.graph.policies,
        draft.graph.promises,
        draft.regions,
        draft.graph.region,
        draft.graph.first_id,
        groups=draft.groups,
    )

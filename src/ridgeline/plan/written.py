"""The application of a plan as its author would write it: with all that was said of it from outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ridgeline.api.application import Node
from ridgeline.api.errors import Faults
from ridgeline.api.operator import operator_type
from ridgeline.plan.change.edit_texts import edit_text
from ridgeline.plan.change.editing import edited, names_made
from ridgeline.plan.graph import Graph, Part, graph_of
from ridgeline.plan.logical import LogicalOperator, LogicalPlan
from ridgeline.plan.modules.expanding import copied
from ridgeline.plan.overrides import WINDOW, Overrides, read_options
from ridgeline.plan.spec.form import Document
from ridgeline.plan.spec.writer import specification_of
from ridgeline.plan.specification import edits_between, read_specification
from ridgeline.plan.validate.operators import set_properties

_REMEDY = "write it into the application's code, or take it back"


def specification_of_plan(logical: LogicalPlan) -> Document:
    """The specification of which the same plan is made, without anything from outside.

    It is read back, so its classes must be found by name, and a difference from the plan is a
    fault. Raises ValidationError with a fault for each thing that a specification cannot say.
    """
    document = specification_of(written(logical))
    left = edits_between(logical, read_specification(document, logical.application))
    faults, what = Faults(), "a specification cannot say what runs: read back, it would"
    for edit in left:
        faults.add("specification", f"{what} {edit_text(edit)}", _REMEDY)
    faults.check(logical.application)
    return document


def written(logical: LogicalPlan) -> Graph:
    """The application of a plan by name, as if its author had written what options and edits say.

    Raises ValidationError for what was said of operators inside of modules: outside, nothing says it.
    """
    if logical.source is None:
        raise LookupError(f"the plan of `{logical.application}` does not know what it was made of")
    app, given = logical.source
    faults, graph = Faults(), graph_of(app)
    names = {*graph.names, *names_made((*given.kept, *given.edits))}
    options = read_options(given.properties, given.attributes, names)
    for (of, name, _), values in options.items():
        if of == "stream" and name in graph.streams:
            graph = graph.put_stream(graph.streams[name].placed(values.get("locality")))
    made = edited(faults, graph, given, options)
    parts = {name: _with_options(faults, part, options) for name, part in made.parts.items()}
    planned = {one.name: one for one in logical.operators}
    nodes = {name: _settled(faults, one, graph.nodes.get(name), planned) for name, one in made.nodes.items()}
    attributes = _planned(made.attributes, graph.attributes, logical.attributes)
    window = attributes.pop(WINDOW, made.window)
    faults.check(logical.application)
    return replace(made, nodes=nodes, parts=parts, attributes=attributes, window=window)


def _planned(given: Any, before: Any, planned: Any) -> dict[str, Any]:
    """Attributes; those that were not the author's as the plan has them, in the place of texts."""
    return {
        name: value if name in before and before[name] is value else planned.get(name, value)
        for name, value in given.items()
    }


def _settled(faults: Faults, node: Node, author: Node | None, planned: dict[str, LogicalOperator]) -> Node:
    """An operator with the properties and attributes that were set from outside."""
    before, now = author or replace(node, attributes={}, ports={}, unifiers={}), planned[node.name]
    own: Any = node.operator
    if node.properties:
        own = copied(own)
        set_properties(faults, node.name, own, node.properties)
    attributes = _planned(node.attributes, before.attributes, now.attributes)
    made = replace(node, instance=own, attributes=attributes)
    for kind, port, values in node.of_ports:
        earlier, plan = before.ports, now.ports
        if kind == "unifier":
            earlier, plan = before.unifiers, now.unifiers
        made = made.given(kind, port, _planned(values, earlier.get(port, {}), plan.get(port, {})))
    return made


def _with_options(faults: Faults, part: Part, options: Overrides) -> Part:
    """A module with what options say of it; adds faults for what they say of what is inside."""
    known = operator_type(type(part.module)).properties
    own, attributes = {}, dict(part.attributes)
    for (kind, name, port), values in options.items():
        for key, value in values.items() if name == part.name and kind != "stream" else ():
            path = f"{kind}.{port}.{key}" if port else key
            if kind == "property" and key.partition(".")[0] in known:
                own[key] = value
            elif kind == "attribute" and "." not in path:
                attributes[key] = value
            else:
                what = f"it is set from outside, inside of module `{name}`, which no specification says"
                faults.add(f"{name}.{path}", what, _REMEDY)
    if not own:
        return replace(part, attributes=attributes)
    module = copied(part.module)
    set_properties(faults, part.name, module, own)
    return replace(part, instance=module, attributes=attributes)

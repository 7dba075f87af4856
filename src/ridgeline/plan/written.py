"""The application of a plan as its author would write it: with all that was said of it from outside."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ridgeline.api.application import AddedModule, AddedStream, Application
from ridgeline.api.errors import Fault, ValidationError
from ridgeline.api.operator import operator_type
from ridgeline.plan.change.edit_texts import edit_text
from ridgeline.plan.change.editing import make_edits, of_modules, settle_overrides
from ridgeline.plan.draft import Draft, Faults
from ridgeline.plan.edits import Given
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.modules.expanding import copied
from ridgeline.plan.overrides import Overrides, divide_stream_attributes, key_splitter
from ridgeline.plan.references import move_references
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
    document = specification_of(application_of(logical))
    left = edits_between(logical, read_specification(document, logical.application))
    if left:
        what = "a specification cannot say what runs: read back, it would"
        raise ValidationError(
            logical.application,
            [Fault("specification", f"{what} {edit_text(edit)}", _REMEDY) for edit in left],
        )
    return document


def application_of(logical: LogicalPlan) -> Application:
    """The application of a plan, as if its author had written what options and edits say.

    Raises ValidationError for what was said of operators inside of modules: outside, nothing says it.
    """
    if logical.source is None:
        raise LookupError(f"the plan of `{logical.application}` does not know what it was made of")
    draft, faults = Draft(logical.application), Faults()
    app, given = logical.source
    given = of_modules(app, given)
    if app.modules:
        app, given = _with_modules(faults, app, given)
    app, given = _with_streams(app, given)
    made, overrides = make_edits(draft, faults, app, given)
    _take_values(overrides, logical)
    settle_overrides(draft, faults, made, overrides)
    if faults.found:
        raise ValidationError(logical.application, faults.found)
    return made


def _take_values(overrides: Overrides, logical: LogicalPlan) -> None:
    """Attributes as the plan has them, in the place of texts."""
    _replace(overrides.application, logical.attributes)
    for operator in logical.operators:
        _replace(overrides.attributes.get(operator.name, {}), operator.attributes)
        for given, planned in (
            (overrides.ports, operator.ports),
            (overrides.unifiers, operator.unifier_attributes),
        ):
            for port, values in given.get(operator.name, {}).items():
                _replace(values, planned.get(port, {}))


def _replace(given: dict[str, Any], planned: Mapping[str, Any]) -> None:
    given.update({name: planned[name] for name in given if name in planned})


def _with_streams(app: Application, given: Given) -> tuple[Application, Given]:
    """A copy with the localities that options give to streams, and what is left of the options."""
    named = [*(str(added.name) for added in app.operators), *(str(added.name) for added in app.modules)]
    streams, others = divide_stream_attributes(given.attributes, named)
    made = copy.copy(app)
    found: list[AddedStream] = []
    for one in app.streams:
        own = streams.get(str(one.name), {})
        locality: Any = own.get("locality", one.locality)
        found.append(replace(one, locality=locality))
    made.streams = found
    return made, replace(given, attributes=others)


def _with_modules(faults: Faults, app: Application, given: Given) -> tuple[Application, Given]:
    """A copy with what options say of modules, and what is left of the options."""
    names = {str(added.name) for added in app.modules}
    split = key_splitter(names | {str(added.name) for added in app.operators})
    properties, left = _divided(given.properties, names, split)
    attributes, others = _divided(given.attributes, names, split)
    made = copy.copy(app)
    made.modules, made.streams = list(app.modules), list(app.streams)
    made.attributes_set = list(app.attributes_set)
    for place, added in enumerate(app.modules):
        name = str(added.name)
        known = operator_type(type(added.module)).properties
        values, spread = properties.get(name, {}), attributes.get(name, {})
        inside = [key for key in values if key.partition(".")[0] not in known]
        inside += [key for key in spread if "." in key]
        for key in inside:
            what = f"it is set from outside, inside of module `{name}`, which no specification says"
            faults.add(f"{name}.{key}", what, _REMEDY)
        own = {key: value for key, value in values.items() if key not in inside}
        if own:
            added = _with_properties(faults, made, added, own)  # noqa: PLW2901  the same, changed
        made.modules[place] = replace(added, attributes=dict(added.attributes) | spread)  # type: ignore[arg-type]
        made.attributes_set = [
            replace(one, attributes={k: v for k, v in one.attributes.items() if k not in spread})
            if one.target is added.module
            else one
            for one in made.attributes_set
        ]
    return made, replace(given, properties=left, attributes=others)


def _with_properties(
    faults: Faults, app: Application, added: AddedModule, values: Mapping[str, object]
) -> AddedModule:
    """A module with other properties, in its place in the application."""
    old, new = added.module, copied(added.module)
    set_properties(faults, str(added.name), new, values)

    def moved(end: Any) -> Any:
        return getattr(new, end.name) if getattr(end, "module", None) is old else end

    move_references(app, moved, lambda one: new if one is old else one)
    return replace(added, module=new)


def _divided(
    given: Mapping[str, object], names: set[str], split: Any
) -> tuple[dict[str, dict[str, object]], dict[str, object]]:
    """The values for modules, by module, and all others."""
    found: dict[str, dict[str, object]] = {}
    left: dict[str, object] = {}
    for key, value in given.items():
        owner, rest = split(key)
        if owner in names and rest:
            found.setdefault(owner, {})[rest] = value
        else:
            left[key] = value
    return found, left

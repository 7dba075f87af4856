"""The application of a plan as its author would write it: with all that was said of it from outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ridgeline.api.application import AddedAttributes, AddedModule, Application
from ridgeline.api.errors import Fault, ValidationError
from ridgeline.api.operator import operator_type
from ridgeline.plan.change.edit_texts import edit_text
from ridgeline.plan.change.editing import make_edits, names_made, of_modules
from ridgeline.plan.draft import Draft, Faults
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.modules.expanding import copied
from ridgeline.plan.overrides import WINDOW, Overrides, read_options
from ridgeline.plan.references import named
from ridgeline.plan.region import PortRef
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
    """The application of a plan by name, as if its author had written what options and edits say.

    Raises ValidationError for what was said of operators inside of modules: outside, nothing says it.
    """
    if logical.source is None:
        raise LookupError(f"the plan of `{logical.application}` does not know what it was made of")
    draft, faults = Draft(logical.application), Faults()
    app, given = logical.source
    given = of_modules(app, given)
    app = named(app)
    names = {str(added.name) for added in app.operators} | {str(added.name) for added in app.modules}
    names |= names_made((*given.kept, *given.edits))
    options = read_options(given.properties, given.attributes, names)
    app.streams = [
        replace(one, locality=options.streams.get(one.name, {}).get("locality", one.locality))
        for one in app.streams
    ]
    made, overrides = make_edits(draft, faults, app, given, options)
    _take_values(overrides, logical)
    _settle(faults, made, overrides)
    if faults.found:
        raise ValidationError(logical.application, faults.found)
    return made


def _take_values(overrides: Overrides, logical: LogicalPlan) -> None:
    """Attributes as the plan has them, in the place of texts."""
    planned = Overrides()
    planned.of("attribute").update(logical.attributes)
    for one in logical.operators:
        planned.of("attribute", one.name).update(one.attributes)
        for kind, ports in (("port", one.ports), ("unifier", one.unifier_attributes)):
            for port, values in ports.items():
                planned.of(kind, one.name, port).update(values)  # type: ignore[arg-type]
    for owner, given in overrides.items():
        known = planned.of(*owner)
        given.update({name: known[name] for name in given if name in known})


def _settle(faults: Faults, app: Application, overrides: Overrides) -> None:
    """Give an application by name, and its modules, what was set from outside."""
    given: Any = {**app.attributes, **overrides.of("attribute")}
    app.window = given.pop(WINDOW, app.window)
    app.attributes, app.operators, app.modules = given, list(app.operators), list(app.modules)
    for module in app.modules:
        _refuse_inside(faults, module, overrides)
    parts: tuple[tuple[list[Any], str], ...] = ((app.operators, "operator"), (app.modules, "module"))
    for of_kind, kind in parts:
        for place, added in enumerate(of_kind):
            if values := overrides.of("property", str(added.name)):
                own = copied(getattr(added, kind))
                set_properties(faults, str(added.name), own, values)
                of_kind[place] = replace(added, **{kind: own})
    app.attributes_set += [
        AddedAttributes(PortRef(name, port) if port else name, values, unifier=kind == "unifier")
        for (kind, name, port), values in overrides.items()
        if kind != "property" and name and values
    ]


def _refuse_inside(faults: Faults, module: AddedModule, overrides: Overrides) -> None:
    """Refuse values of what is inside of a module; they are taken away."""
    known = operator_type(type(module.module)).properties
    for (kind, name, port), values in overrides.items():
        for key in list(values) if name == module.name else ():
            path = f"{kind}.{port}.{key}" if port else key
            own = key.partition(".")[0] in known if kind == "property" else "." not in path
            if not own:
                del values[key]
                what = f"it is set from outside, inside of module `{name}`, which no specification says"
                faults.add(f"{name}.{path}", what, _REMEDY)

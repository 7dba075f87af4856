"""Check what was added as operators: names, instances, properties, attributes."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping

from ridgeline.api.application import AddedOperator, Application
from ridgeline.api.cells.migrations import faults_of
from ridgeline.api.errors import listed, shorten
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.support.attribute import Scope
from ridgeline.plan.build.port_attributes import inherited_by_operator
from ridgeline.plan.draft import Draft, DraftOperator, Faults
from ridgeline.plan.overrides import Overrides
from ridgeline.plan.validate.application import check_name
from ridgeline.plan.validate.attributes import (
    attributes_of_operators,
    check_attributes,
    count_application_window,
)
from ridgeline.plan.validate.properties import set_properties


def read_operators(
    draft: Draft, faults: Faults, app: Application, overrides: Overrides
) -> dict[int, DraftOperator]:
    """Add all valid operator objects to the draft.

    Returns them by the `id` of the author's instance.
    """
    owners: dict[int, DraftOperator] = {}
    names: dict[int, list[str]] = {}
    attributes_set = attributes_of_operators(faults, app)
    first_uses = []
    for position, added in enumerate(app.operators, 1):
        if isinstance(added.operator, Operator):
            names.setdefault(id(added.operator), []).append(str(added.name))
            if len(names[id(added.operator)]) > 1:
                continue
        first_uses.append(added.name)
        where = added.name if added.module else check_name(faults, "operator", added.name, position)
        if isinstance(added.operator, Operator):
            owners[id(added.operator)] = operator = _read(
                draft, faults, where, added, overrides, attributes_set
            )
            draft.operators.append(operator)
        else:
            _refuse(faults, where, added.operator)
    for identity, uses in names.items():
        if len(uses) > 1:
            operator = owners[identity]
            what = (
                f"the same `{operator.kind}` is added {len(uses)} times, "
                f"as {listed(list(dict.fromkeys(uses)))}"
            )
            faults.add(operator.name, what, f"make a new `{operator.kind}(...)` for each")
    for name, uses_of_name in Counter(map(str, first_uses)).items():
        if uses_of_name > 1 and name:
            faults.add(
                name,
                f"{uses_of_name} operators have the name `{name}`",
                "give each operator a name of its own",
            )
    for identity, port in draft.excused:
        if identity in owners:
            owners[identity].excused.add(port)
    return owners


def _refuse(faults: Faults, where: str, thing: object) -> None:
    """Add the fault for something that is no operator: a class in place of an instance, or another thing."""
    if isinstance(thing, type) and issubclass(thing, Operator):
        faults.add(
            where,
            f"the class `{thing.__name__}` was added, not an operator",
            f"add an instance: `{thing.__name__}(...)`",
        )
    else:
        faults.add(
            where,
            f"{shorten(thing)} was added, which is no operator",
            "add an instance of a subclass of `Operator`",
        )


def _read(
    draft: Draft,
    faults: Faults,
    where: str,
    added: AddedOperator,
    overrides: Overrides,
    attributes_set: Mapping[int, Mapping[str, object]],
) -> DraftOperator:
    """Copy an operator, with properties and attributes, into the draft; the author's instance stays as is.

    `attributes_set`: what `set_attribute` was given, by the `id` of the author's instance.
    """
    operator = DraftOperator(len(draft.operators), where, copy.copy(added.operator))
    operator.unread = added.remedies.get("output", "")
    values = vars(operator.operator)
    if "_schemas" not in values:
        what = f"`{operator.kind}.__init__` does not call the `__init__` of `Operator`"
        faults.add(where, what, "call `super().__init__(**properties)` in it")
    values["_schemas"] = dict(values.get("_schemas", {}))
    values["_given"] = dict(values.get("_given", {}))
    if added.migrations:
        values["_migrations"] = added.migrations
    for what, remedy in faults_of(operator.operator, operator_type(type(operator.operator)).states):
        faults.add(where, what, remedy)
    given_properties = overrides.properties.get(added.name, {})
    operator.sound = set_properties(faults, where, operator.operator, given_properties, added.remedies)
    given = {
        **added.attributes,
        **attributes_set.get(id(added.operator), {}),
        **overrides.attributes.get(added.name, {}),
    }
    operator.given = set(given)
    inherited = inherited_by_operator(draft.attributes)
    operator.attributes, operator.doubtful = check_attributes(faults, where, Scope.OPERATOR, given, inherited)
    count_application_window(draft, faults, where, operator.attributes, given, operator.doubtful)
    return operator

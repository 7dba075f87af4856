"""Check attributes: names, scopes and values."""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from ridgeline.api.attributes import ATTRIBUTES, attributes_of
from ridgeline.api.errors import Faults, did_you_mean, nearest, shorten
from ridgeline.api.operator import SparkSource, reads_ranges
from ridgeline.api.push_input import PushInput
from ridgeline.api.support.attribute import Scope
from ridgeline.api.support.masking import shown
from ridgeline.plan.build.port_attributes import inherited_by_port, inherited_by_unifier
from ridgeline.plan.draft import Draft
from ridgeline.plan.logical import LogicalOperator

E = TypeVar("E", bound=enum.Enum)
_HOW = {
    Scope.APPLICATION: "`Application(name, {0}=...)`",
    Scope.OPERATOR: "`add_operator(name, operator, {0}=...)`",
    Scope.INPUT_PORT: "`app.set_attribute(operator.port, {0}=...)`",
    Scope.OUTPUT_PORT: "`app.set_attribute(operator.port, {0}=...)`",
    Scope.UNIFIER: "`app.set_attribute(operator.port, unifier=True, {0}=...)`",
    Scope.STREAM: "`add_stream(..., {0}=...)`",
}
"""How an attribute is given, by scope."""


def check_attributes(
    faults: Faults, where: str, scope: Scope, given: Mapping[str, object], inherited: Mapping[str, Any]
) -> tuple[dict[str, Any], set[str]]:
    """All attributes of a scope, and the names of those whose values are faulty.

    `where`: what they are given to, as faults name it; "" for the application. `inherited`: the values of
    those that are not given; others have their defaults.
    """
    known = attributes_of(scope)
    values = {name: inherited.get(name, attribute.default) for name, attribute in known.items()}
    doubtful = set()
    for name, value in given.items():
        place = f"{where}.{name}" if where else name
        if name not in known:
            what = f"there is no attribute `{name}` of {scope}s"
            faults.add(place, what, _elsewhere(name, scope))
            continue
        checked, rule = known[name].check(value)
        if rule is None:
            values[name] = checked
            continue
        doubtful.add(name)
        default = "" if known[name].default is None else f"; default: {known[name].default}"
        remedy = f"give another value ({known[name].help}{default})"
        faults.add(place, f"attribute `{name}` {rule}; got {shown(name, value)}", remedy)
    return values, doubtful


def count_application_window(
    draft: Draft,
    faults: Faults,
    where: str,
    values: dict[str, Any],
    given: Collection[str],
    doubtful: Collection[str],
) -> None:
    """Turn an `application_window` that was `given` into `application_window_count`, if it is one."""
    seconds = values["application_window"]
    if "application_window" not in given or "application_window" in doubtful or seconds is None:
        return
    place, width = f"{where}.application_window", draft.window_seconds
    count = round(seconds / width) if width else 0
    if "application_window_count" in given:
        what = "both `application_window` and `application_window_count` are given"
        faults.add(place, what, "leave one of them out")
    elif not width:
        what = "`application_window` is a duration, but windows of the application have no width"
        faults.add(place, what, "give the application a `window`, or give `application_window_count`")
    elif not count or not math.isclose(count * width, seconds, rel_tol=1e-9):
        what = f"`application_window` must be a multiple of the window, {width:g} s; got {seconds:g} s"
        faults.add(place, what, f"give {max(1, count) * width:g} s, or `application_window_count`")
    else:
        limit = ATTRIBUTES["application_window_count"]
        checked, rule = limit.check(count)
        if rule is not None:
            faults.add(place, f"`application_window` has {count} windows, which {rule}", "give less")
        values["application_window_count"] = checked


def _elsewhere(name: str, scope: Scope) -> str:
    """The remedy for a name that is not known in a scope."""
    attribute = ATTRIBUTES.get(name)
    if attribute is None:
        if name == "window":
            return 'use instead: the application\'s: `Application(name, window="1s")`'
        if (close := nearest(name.lower(), attributes_of(scope))) is not None:
            return f"did you mean `{close}`?"
        return "`ridgeline library --attributes` shows all"
    near = (Scope.INPUT_PORT, Scope.OUTPUT_PORT, Scope.UNIFIER) if scope.endswith("port") else ()
    owner = next(one for one in (*near, *Scope) if one in attribute.scopes)
    article = "the" if owner is Scope.APPLICATION else "an" if owner[0] in "aeiou" else "a"
    return f"it belongs to {article} {owner}: {_HOW[owner].format(name)}"


def member_of(faults: Faults, where: str, noun: str, kind: type[E], given: object) -> E | None:
    """The member of an enumeration, itself or by its name in any case; None, and a fault, for none."""
    names = [member.name for member in kind]
    name = str(getattr(given, "name", given)).upper()
    if name in names:
        return kind[name]
    faults.add(where, f"there is no {noun} {shorten(given)}", did_you_mean(name, names))
    return None


def read_port_attributes(draft: Draft, faults: Faults) -> None:
    """Check the attributes of ports and unifiers; fill in those of all ports of all operators."""
    for owner in draft.operators:
        node, declared = draft.graph.nodes[owner.name], owner.declared
        for port in (*declared.inputs, *declared.outputs):
            read_port(draft, faults, owner, port, node.ports.get(port, {}), node.unifiers.get(port, {}))
        for kind, port, _ in node.of_ports:
            known = [*declared.outputs, *(declared.inputs if kind == "port" else ())]
            if port not in known:
                noun = "output port" if kind == "unifier" else "port"
                what = f"`{owner.name}` has no {noun} `{port}` to set an attribute of"
                faults.add(f"{owner.name}.{kind}.{port}", what, did_you_mean(port, known))


def read_port(
    draft: Draft,
    faults: Faults,
    owner: LogicalOperator,
    port: str,
    given: Mapping[str, object],
    of_unifiers: Mapping[str, object],
) -> None:
    """Check the attributes of one port, and of the unifiers of an output; fill in those not given."""
    is_input = port in owner.declared.inputs
    scope = Scope.INPUT_PORT if is_input else Scope.OUTPUT_PORT
    inherited = inherited_by_port(owner.declared, port, owner.attributes)
    where = f"{owner.name}.port.{port}"
    owner.ports[port], doubtful = check_attributes(faults, where, scope, given, inherited)
    owner.doubtful |= doubtful
    if not is_input:
        where = f"{owner.name}.unifier.{port}"
        inherited = inherited_by_unifier(owner.attributes, draft.attributes)
        values, doubtful = check_attributes(faults, where, Scope.UNIFIER, of_unifiers, inherited)
        count_application_window(draft, faults, where, values, of_unifiers, doubtful)
        owner.unifiers[port] = values


def check_speculation(draft: Draft, faults: Faults) -> None:
    """Refuse `speculation` beside inputs that lose tuples by it, or whose windows wait for Spark."""
    if all(one.attributes.get("speculation") is None for one in draft.operators):
        return
    for operator in draft.operators:
        what = ""
        if isinstance(operator.operator, PushInput) and not reads_ranges(operator.operator):
            what = "with `speculation` windows begin again that have not failed: "
            what += "what it took for them is lost"
        elif isinstance(operator.operator, SparkSource):
            what = "its windows take as long as Spark reads, so `speculation` cannot tell a slot that is late"
        if what:
            other = "one that asks its source again from a position in its state"
            faults.add(operator.name, what, f"leave `speculation` out, or read by another input: {other}")

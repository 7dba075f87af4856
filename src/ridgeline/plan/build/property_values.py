"""Validate the properties of operators and unifiers."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from types import MappingProxyType

from ridgeline.api.operator import REQUIRED, Operator, operator_type
from ridgeline.api.support.masking import mask_text, shown
from ridgeline.api.support.properties import check_properties
from ridgeline.plan.build.entries import with_entry

_UNRESOLVED = "define or import these types at module level"


def property_faults(
    operator: Operator, remedies: Mapping[str, str] = MappingProxyType({})
) -> list[tuple[str, str, str]]:
    """Validate an operator's properties and store their converted values in it.

    `remedies`: of missing properties, by name. Returns what is wrong: (property or "", what, remedy).
    """
    kind = type(operator).__name__
    validated, problems = check_properties(operator)
    if not problems:
        # what was given is in the values: a secret is kept nowhere else
        vars(operator).update(validated, _given={})
    faults = []
    for name, value, rule in problems:
        given = f"`{kind}({name.partition('.')[0]}=...)`"
        what, remedy = f"property `{name}` of `{kind}`", f"give another value, in {given}"
        if rule.startswith("there is no such property; "):
            what, remedy = f"`{kind}` has no property `{name}`", rule.partition("; ")[2]
        elif not name:
            why, _, remedy = rule.partition("; ")
            what, remedy = f"properties of `{kind}`: {why}", remedy or _UNRESOLVED
        elif value is REQUIRED:
            what, remedy = f"{what} is required and was not given", remedies.get(name, f"give it, in {given}")
        else:
            what += f" is {shown(name, value)}; {mask_text(rule)}"
        faults.append((name, what, remedy))
    return faults


def decoded(operator: Operator, owner: str, path: str, value: object) -> tuple[str, object]:
    """The property that `path` names, or an entry of it (`options.key`), and its value with what is given.

    A text from the command line is decoded as JSON if only that suits the property, else it stays as it is.
    `owner`: the name of the operator, for errors. Raises FaultError.
    """

    def with_given(given: object) -> tuple[str, object]:
        is_whole = path in operator_type(type(operator)).properties and path != "context"
        return (path, given) if is_whole else with_entry(operator, owner, path, given)

    name, as_text = with_given(value)
    if not isinstance(value, str) or _suits(operator, name, as_text):
        return name, as_text
    try:
        as_json = with_given(json.loads(value))[1]
    except (ValueError, RecursionError):
        return name, as_text
    return name, as_json if _suits(operator, name, as_json) else as_text


def _suits(operator: Operator, name: str, value: object) -> bool:
    trial = copy.copy(operator)
    vars(trial)[name] = value
    return all(problem.partition(".")[0] != name for problem, _, _ in check_properties(trial)[1])

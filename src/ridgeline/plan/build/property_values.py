"""Validate the properties of operators and unifiers."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from types import MappingProxyType

from ridgeline.api.operator import REQUIRED, Operator
from ridgeline.api.support.masking import mask_text, shown
from ridgeline.api.support.properties import check_properties
from ridgeline.plan.build.entries import with_entry


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
            what, remedy = f"properties of `{kind}`: {rule}", "define or import these types at module level"
        elif value is REQUIRED:
            what, remedy = f"{what} is required and was not given", remedies.get(name, f"give it, in {given}")
        else:
            what += f" is {shown(name, value)}; {mask_text(rule)}"
        faults.append((name, what, remedy))
    return faults


def decoded(operator: Operator, name: str, value: object) -> object:
    """Decode a text from the command line: as JSON if only that suits the property, else as it is."""
    if not isinstance(value, str) or _suits(operator, name, value):
        return value
    try:
        decoded = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return decoded if _suits(operator, name, decoded) else value


def decoded_entry(operator: Operator, operator_name: str, path: str, value: object) -> tuple[str, object]:
    """Return the property that `path` (`options.key`) begins with, and its value with the decoded entry.

    The entry is decoded as in `decoded`. Raises NoEntryError.
    """
    name, with_text = with_entry(operator, operator_name, path, value)
    if not isinstance(value, str) or _suits(operator, name, with_text):
        return name, with_text
    try:
        with_json = with_entry(operator, operator_name, path, json.loads(value))[1]
    except (ValueError, RecursionError):
        return name, with_text
    return name, with_json if _suits(operator, name, with_json) else with_text


def _suits(operator: Operator, name: str, value: object) -> bool:
    trial = copy.copy(operator)
    vars(trial)[name] = value
    return all(problem.partition(".")[0] != name for problem, _, _ in check_properties(trial)[1])

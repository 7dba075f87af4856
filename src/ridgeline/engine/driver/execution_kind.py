"""How windows are run: as jobs of Spark, or in slots."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from ridgeline.api.attributes import ATTRIBUTES
from ridgeline.api.errors import RidgelineError
from ridgeline.api.push_input import PushInput

if TYPE_CHECKING:
    from ridgeline.plan.execution import Plan

VARIABLE = "RIDGELINE_EXECUTION"
"""The environment variable with what runs windows where nothing is given."""


class Execution(StrEnum):
    """What runs the windows of an application."""

    JOBS = "jobs"
    """Each window is a Spark job."""
    SLOTS = "slots"
    """Containers live in long Spark tasks."""


def named_execution(text: str, where: str) -> Execution:
    """The kind of this name. Raises RidgelineError naming where it was given."""
    if text not in set(Execution):
        msg = f"`{where}` must be `slots` or `jobs`; got `{text}`; give one of them, or nothing"
        raise RidgelineError(msg)
    return Execution(text)


def choose_execution(given: Execution | str | None, plan: Plan) -> Execution:
    """The given kind, or that of the given name, else that of the environment, else slots.

    What the environment says gives way to what an operator or a strict affinity rule on hosts needs. Raises
    RidgelineError if jobs are given in spite of one, or for a name of no kind.
    """
    given = named_execution(given, "execution") if given else None
    pushed = [one.name for one in plan.logical.operators if isinstance(one.operator, PushInput)]
    if pushed and given is Execution.JOBS:
        what = f"`{pushed[0]}` is a `PushInput`, which lives in one process"
        why = "with `--execution jobs` each window may run in another one, and what waits there would be lost"
        msg = f"{what}; {why}; give `--execution slots`"
        raise RidgelineError(msg)
    speculates = plan.logical.attributes["speculation"] is not None
    if speculates and given is Execution.JOBS:
        what = "`speculation` has a spare slot run what a late one is late with"
        why = "with `--execution jobs` there are no slots"
        msg = f"{what}; {why}; give `--execution slots`, or leave it out"
        raise RidgelineError(msg)
    strict = [rule for rule in plan.logical.affinity if not (rule.locality.together or rule.relax)]
    if strict and given is Execution.JOBS:
        what = f"affinity rule {strict[0].title} cannot be kept"
        why = "with `--execution jobs` Spark chooses hosts in each window anew"
        msg = f"{what}; {why}; give `--execution slots`, or the rule `relax=True`"
        raise RidgelineError(msg)
    wanted = given or named_execution(os.environ.get(VARIABLE, Execution.SLOTS), VARIABLE)
    return Execution.SLOTS if pushed or speculates or strict else wanted


def without_effect_in_jobs(plan: Plan) -> str:
    """What is given and does nothing where each window is a Spark job, in one line; "" for nothing.

    A value that is the default counts as not given.
    """
    logical = plan.logical
    given = list(_given("", logical.attributes))
    for operator in logical.operators:
        given += _given(operator.name, operator.attributes, logical.attributes)
        given += [key for part in operator.divided for key in _given(operator.name, part.attributes or {})]
        for port, values in operator.ports.items():
            given += _given(f"{operator.name}.port.{port}", values)
        for port, values in operator.unifier_attributes.items():
            above = {**logical.attributes, **operator.attributes}
            given += _given(f"{operator.name}.unifier.{port}", values, above)
    given += [rule.name for rule in logical.affinity if not rule.locality.together and not rule.declared]
    if not given:
        return ""
    names = ", ".join(f"`{key}`" for key in dict.fromkeys(given))
    return f"without effect with `--execution jobs`: {names}; give `--execution slots` where it matters"


def _given(
    owner: str, values: Mapping[str, object], above: Mapping[str, object] = MappingProxyType({})
) -> Iterator[str]:
    """The attributes for slots only that differ from their defaults, and from what stands `above` them."""
    for name, value in values.items():
        known = ATTRIBUTES.get(name)
        if known is not None and known.slots_only and value not in {known.default, above.get(name)}:
            yield f"{owner}.{name}" if owner else name

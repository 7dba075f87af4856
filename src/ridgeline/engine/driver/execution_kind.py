"""How windows are run: as jobs of Spark, or in slots."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING

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

    What the environment says gives way to what an operator needs. Raises RidgelineError if jobs are given in
    spite of an operator, or for a name of no kind.
    """
    given = named_execution(given, "execution") if given else None
    pushed = [one.name for one in plan.logical.operators if isinstance(one.operator, PushInput)]
    if pushed and given is Execution.JOBS:
        what = f"`{pushed[0]}` is a `PushInput`, which lives in one process"
        why = "with `--execution jobs` each window may run in another one, and what waits there would be lost"
        msg = f"{what}; {why}; give `--execution slots`"
        raise RidgelineError(msg)
    wanted = given or named_execution(os.environ.get(VARIABLE, Execution.SLOTS), VARIABLE)
    return Execution.SLOTS if pushed else wanted

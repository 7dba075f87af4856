"""How windows are run: as jobs of Spark, or in slots."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING

from ridgeline.api.errors import RidgelineError
from ridgeline.api.operator import InputOperator, SparkSource
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
        msg = f"`{where}` must be `jobs` or `slots`; got `{text}`; give one of them, or nothing"
        raise RidgelineError(msg)
    return Execution(text)


def chosen_execution(given: Execution | None, plan: Plan) -> Execution:
    """The given kind, else that of the environment, else jobs.

    Spark sources need jobs, push inputs slots. Raises RidgelineError if the other is asked for in spite of
    them, if the application has both, or if the environment names no kind.
    """
    sources, pushed = _inputs(plan, SparkSource), _inputs(plan, PushInput)
    if pushed and (sources or given is Execution.JOBS):
        what = f"`{pushed[0]}` is a `PushInput`, which lives in one process"
        why = "with `--execution jobs` each window may run in another one, and what waits there would be lost"
        if sources:
            why = f"Spark sources, of which `{sources[0]}` is one, are read by a job for each window"
        remedy = "run it in an application of its own" if sources else "give `--execution slots`"
        msg = f"{what}; {why}; {remedy}"
        raise RidgelineError(msg)
    if given is Execution.SLOTS and sources:
        what = f"`--execution slots` cannot read Spark sources yet; `{sources[0]}` is one"
        msg = f"{what}; leave the option out, or give `--execution jobs`"
        raise RidgelineError(msg)
    if given is not None:
        return given
    default = named_execution(os.environ.get(VARIABLE, Execution.JOBS), VARIABLE)
    if pushed:
        return Execution.SLOTS
    return Execution.JOBS if sources else default


def _inputs(plan: Plan, kind: type[InputOperator]) -> list[str]:
    """The names of the inputs of a kind."""
    return [operator.name for operator in plan.logical.operators if isinstance(operator.operator, kind)]

"""How windows are run: as jobs of Spark, or in slots."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING

from ridgeline.api.errors import RidgelineError
from ridgeline.api.operator import SparkSource

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

    Spark sources need jobs. Raises RidgelineError if slots are asked for in spite of them, or if the
    environment names no kind.
    """
    sources = [
        operator.name for operator in plan.logical.operators if isinstance(operator.operator, SparkSource)
    ]
    if given is Execution.SLOTS and sources:
        what = f"`--execution slots` cannot read Spark sources yet; `{sources[0]}` is one"
        msg = f"{what}; leave the option out, or give `--execution jobs`"
        raise RidgelineError(msg)
    if given is not None:
        return given
    default = named_execution(os.environ.get(VARIABLE, Execution.JOBS), VARIABLE)
    return Execution.JOBS if sources else default

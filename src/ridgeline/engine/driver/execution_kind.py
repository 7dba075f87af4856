"""How windows are run: as jobs of Spark, or in slots."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ridgeline.api.errors import RidgelineError
from ridgeline.api.push_input import PushInput
from ridgeline.plan.notes import Note, slot_obstacles

if TYPE_CHECKING:
    from ridgeline.plan.execution import Plan

VARIABLE = "RIDGELINE_EXECUTION"
"""The environment variable with what runs windows where nothing is given."""


class Execution(StrEnum):
    """What runs the windows of an application."""

    AUTO = "auto"
    """Slots, or jobs where an operator needs them."""
    JOBS = "jobs"
    """Each window is a Spark job."""
    SLOTS = "slots"
    """Containers live in long Spark tasks."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What runs windows: never `AUTO`. `obstacle`: why it is jobs, though nobody asked for them."""

    execution: Execution
    obstacle: Note | None = None

    @property
    def in_slots(self) -> bool:
        """True if containers live in slots."""
        return self.execution is Execution.SLOTS


def named_execution(text: str, where: str) -> Execution:
    """The kind of this name. Raises RidgelineError naming where it was given."""
    if text not in set(Execution):
        msg = f"`{where}` must be `auto`, `slots` or `jobs`; got `{text}`; give one of them, or nothing"
        raise RidgelineError(msg)
    return Execution(text)


def choose_execution(given: Execution | None, plan: Plan) -> Choice:
    """The given kind, else that of the environment, else `AUTO`.

    What the environment says gives way to what an operator needs. Raises RidgelineError if the other kind is
    given in spite of an operator, if operators need both, or if the environment names no kind.
    """
    obstacles = slot_obstacles(plan.logical)
    pushed = [one.name for one in plan.logical.operators if isinstance(one.operator, PushInput)]
    if pushed and (obstacles or given is Execution.JOBS):
        what = f"`{pushed[0]}` is a `PushInput`, which lives in one process"
        why = "with `--execution jobs` each window may run in another one, and what waits there would be lost"
        remedy = "give `--execution slots`"
        if obstacles:
            why, remedy = str(obstacles[0]), "run it in an application of its own"
        msg = f"{what}; {why}; {remedy}"
        raise RidgelineError(msg)
    if given is Execution.SLOTS and obstacles:
        what = f"`--execution slots` cannot run this application; {obstacles[0]}"
        msg = f"{what}; leave the option out, or give `--execution jobs`"
        raise RidgelineError(msg)
    wanted = given or named_execution(os.environ.get(VARIABLE, Execution.AUTO), VARIABLE)
    if wanted is Execution.JOBS and not pushed:
        return Choice(Execution.JOBS)
    return Choice(Execution.JOBS, obstacles[0]) if obstacles else Choice(Execution.SLOTS)

"""From the plan of a running application to the one that edits make of it: all that the change takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ridgeline.plan.difference import PlanDifference, difference
from ridgeline.plan.editing import dropped_by, renamed_by
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.plan.state_moves import StatePlan, plan_states
from ridgeline.plan.succession import succeed


@dataclass(frozen=True, slots=True)
class Transition:
    """A plan that follows another one. `plan` has the ids of what stays.

    `states`: what becomes of the states that are held. The plan may begin with window w if w is a multiple
    of `aligned`.
    """

    plan: Plan
    states: StatePlan
    difference: PlanDifference

    @property
    def aligned(self) -> int:
        """With which windows the plan may begin: multiples of this."""
        return self.difference.aligned


def transition(old: Plan, planned: Plan, edits: Sequence[Edit]) -> Transition:
    """What it takes to go on with a plan that was made with `edits`, in the place of the old one.

    `planned` is as `plan_application` made it. Raises ValidationError with all that keeps the change from
    being made while the application runs.
    """
    renamed, dropped = renamed_by(edits), dropped_by(edits)
    new = succeed(old, planned, others={*renamed.values(), *dropped})
    held = [one.state_key for one in old.physical.operators]
    names = {one.name for one in planned.logical.operators}
    gone = [one.name for one in old.logical.operators if one.name not in {*names, *renamed}]
    states = plan_states(held, new, old=old, dropped={*dropped, *gone}, renamed=renamed)
    found = difference(old, new, renamed=renamed, dropped=dropped, moves=states.moves)
    return Transition(new, states, found)

"""From the plan of a running application to the one that edits make of it: all that the change takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ridgeline.api.errors import Faults
from ridgeline.plan.change.difference import LogicalPair, PlanDifference, difference
from ridgeline.plan.change.editing import names_after
from ridgeline.plan.change.state_moves import StatePlan, plan_states
from ridgeline.plan.change.succession import succeed
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.overrides import WINDOW

_FROM_THE_START = (
    "ages_from_newest_record",
    "containers_max_count",
    "heartbeat_interval",
    "stats_max_allowable_windows_lag",
    "throughput_calculation_interval",
)
"""Attributes of the application that are read once in a run."""
_OF_A_SLOT = ("gpus", "locality_host", "locality_rack", "memory_mb", "vcores")
"""Attributes that slots have from when they start: operators that stay do not get other slots for them."""


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
    """The transition from the old plan to one that was made with `edits`.

    `planned` is as `plan_application` made it. Raises ValidationError with all that keeps the change from
    being made while the application runs.
    """
    _check_application(old.logical, planned.logical)
    renamed, dropped = names_after(edits)
    new = succeed(old, planned, others={*renamed.values(), *dropped})
    held = [one.state_key for one in old.physical.operators]
    names = {one.name for one in planned.logical.operators}
    gone = [one.name for one in old.logical.operators if one.name not in {*names, *renamed}]
    states = plan_states(held, new, old=old, dropped={*dropped, *gone}, renamed=renamed)
    found = difference(old, new, renamed=renamed, dropped=dropped, moves=states.moves)
    return Transition(new, states, found)


def _check_application(old: LogicalPlan, new: LogicalPlan) -> None:
    """Refuse other values of what counts from the start of a run. Raises ValidationError."""
    pair = LogicalPair(old, new)
    others = {one.name for one in pair.values_of_application()}
    changed = [name for name in (WINDOW, *_FROM_THE_START) if name in others]
    if new.speculates and not old.speculates:
        changed.append("speculation")
    what = "it counts from the start of a run, and cannot be changed while it runs"
    whats = dict.fromkeys(changed, what)
    what = "its slots got what they have when they started, so this would change nothing while it runs"
    for one in (one for both in pair.both for one in pair.values_of(*both)):
        if one.name in _OF_A_SLOT and one.kind != "property":
            whats[one.where] = what
    faults = Faults()
    for where, what in whats.items():
        faults.add(where, what, f"start the application anew with `--attribute {where}=...`")
    faults.check(new.application)

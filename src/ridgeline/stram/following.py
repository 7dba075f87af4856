"""Where the containers of a plan live that follows another one: those that stay, stay where they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ridgeline.plan.execution import Plan
from ridgeline.stram.placement import Placement


@dataclass(frozen=True, slots=True)
class ComingPlacement:
    """Where the containers of a plan will live. `files`: of the plan, for each slot; None before the start.

    `more`: how many slots Spark was asked for beside those that there are. `since`: when (monotonic).
    """

    plan: Plan
    placement: Placement
    files: Future[Sequence[Any]] | None
    more: int
    since: float = 0.0


def place_following(new: Plan, placement: Placement, fresh: Iterable[int]) -> Placement:
    """Place the containers of a new plan. `fresh`: slots that host nothing yet, and are to host something.

    A new container goes to a fresh slot if there is one, else to the slot that hosts the fewest.
    """
    present = {container.id: container for container in new.execution.containers}
    slots = [[one for one in hosted if one in present] for hosted in placement]
    fresh = list(fresh)
    while len(slots) <= max(fresh, default=-1):
        slots.append([])
    home = {one: slot for slot, hosted in enumerate(slots) for one in hosted}
    active = [slot for slot, hosted in enumerate(placement) if hosted]
    empty = [slot for slot in fresh if not slots[slot]]
    usable = sorted({*active, *fresh})
    for container in new.execution.containers:
        if container.id in home:
            continue
        slot = empty.pop(0) if empty else min(usable, key=lambda one: (len(slots[one]), one))
        slots[slot].append(container.id)
        home[container.id] = slot
    return tuple(tuple(hosted) for hosted in slots)

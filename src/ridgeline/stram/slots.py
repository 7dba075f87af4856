"""STRAM's decisions about slots: how many, which containers live in which, what follows when one is lost.

A slot is a long Spark task that hosts containers. No Spark, no sockets, no clock, no threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ridgeline.api.errors import RidgelineError
from ridgeline.plan.execution import Plan

RESERVED_CORES = 1
"""Cores that slots leave at least to Spark's own jobs: what publishers write, checks at the start."""

Placement = tuple[tuple[int, ...], ...]
"""The containers of each slot, by slot number."""

# Instructions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartSlot:
    """Submit a Spark job for this slot. `job` counts the slot's jobs from 0."""

    slot: int
    job: int


@dataclass(frozen=True, slots=True)
class Introduce:
    """All slots are there: send each one its containers and the addresses of all."""


@dataclass(frozen=True, slots=True)
class GiveUpSlot:
    """A slot was lost more often than `recovery_attempts` allows: the application has failed."""

    slot: int
    reason: str
    jobs: int


@dataclass(frozen=True, slots=True)
class RetireSlot:
    """End this slot for good, whether it is there or not: its containers live in others now."""

    slot: int


SlotInstruction = StartSlot | Introduce | GiveUpSlot | RetireSlot


@dataclass(frozen=True, slots=True)
class Member:
    """The process that is a slot now. `address`: where other slots reach it."""

    host: str
    pid: int
    address: object


# Before the start -------------------------------------------------------------------------------------------


def count_slots(containers: int, cores: int, extra: int = 0, held: int = 0, fed: int = 0) -> int:
    """How many slots: one a container, but no more than there are cores, or are left.

    `extra`: task slots among `cores` that Spark was given for slots, beyond its own. `held`: those that slots
    of other applications hold. `fed`: containers of Spark sources; up to half of the cores are left to the
    tasks that read for them. Raises RidgelineError if too few are left.
    """
    free = cores - held
    reserved = max(RESERVED_CORES, min(fed, free // 2))
    slots = min(containers, cores - extra, free - reserved)
    if slots < 1:
        needed = held + RESERVED_CORES + 1
        taken = f", {held} for slots of other applications" if held else ""
        what = f"slots need {needed} cores (one for a slot, {RESERVED_CORES} for Spark's own jobs{taken})"
        remedy = "give Spark more cores, or run with `--execution jobs`"
        msg = f"{what}; Spark has {cores}; {remedy}"
        raise RidgelineError(msg)
    return slots


def place(plan: Plan, slots: int) -> Placement:
    """Which containers live in which slot: an even number each.

    Containers at the same position of successive stages are neighbours. So a hop between partitions of one
    number stays within a slot where that is possible.
    """
    positions = sorted(
        ((index + 0.5) / len(stage.containers), stage.index, container.id)
        for stage in plan.execution.stages
        for index, container in enumerate(stage.containers)
    )
    containers = [container for _, _, container in positions]
    bounds = [len(containers) * slot // slots for slot in range(slots + 1)]
    return tuple(tuple(sorted(containers[bounds[slot] : bounds[slot + 1]])) for slot in range(slots))


# While the application runs ---------------------------------------------------------------------------------


class Slots:
    """Which slots are there. Every method returns what to do next, in this order.

    A slot that is lost comes back by Spark's own retry of its task. Once its job has ended, Spark has given
    up (or the task has left), and a new job is asked for. `recovery_attempts` is how many new jobs a slot
    gets until all have run a window.
    """

    def __init__(self, placement: Placement, recovery_attempts: int) -> None:
        self.placement = placement
        self._recovery_attempts = recovery_attempts
        self._members: dict[int, Member] = {}
        self._jobs = [0] * len(placement)
        self._failed_jobs = [0] * len(placement)
        self._reasons = [""] * len(placement)
        self._ever_joined: set[int] = set()

    @property
    def members(self) -> Mapping[int, Member]:
        """The slots that are there, by number; a read-only view."""
        return MappingProxyType(self._members)

    @property
    def missing(self) -> Sequence[int]:
        """The slots that are not there, without those that were retired."""
        return [slot for slot in self.active if slot not in self._members]

    @property
    def active(self) -> Sequence[int]:
        """The slots that host containers: all but those that were retired."""
        return [slot for slot, hosted in enumerate(self.placement) if hosted]

    def start(self) -> Sequence[SlotInstruction]:
        """The run begins."""
        return [StartSlot(slot, 0) for slot in range(len(self.placement))]

    def joined(self, slot: int, member: Member) -> Sequence[SlotInstruction]:
        """A process has joined as this slot; it replaces one that was there."""
        self._members[slot] = member
        self._ever_joined.add(slot)
        return () if self.missing else (Introduce(),)

    def has_joined_before(self, slot: int) -> bool:
        """True if the slot was there before: it is a restart."""
        return slot in self._ever_joined

    def lost(self, slot: int, reason: str) -> Member | None:
        """The connection to a slot is lost; Spark's retry brings it back, or its job ends.

        Returns what it was, None if it was not there.
        """
        self._reasons[slot] = reason
        return self._members.pop(slot, None)

    def job_ended(self, slot: int, reason: str) -> Sequence[SlotInstruction]:
        """Spark's job of a slot has ended; the process, if there still is one, does not count any more.

        Nothing follows for a slot that was retired.
        """
        if not self.placement[slot]:
            return ()
        self._members.pop(slot, None)
        self._jobs[slot] += 1
        self._failed_jobs[slot] += 1
        if self._failed_jobs[slot] > self._recovery_attempts:
            return (GiveUpSlot(slot, reason or self._reasons[slot], self._failed_jobs[slot]),)
        return (StartSlot(slot, self._jobs[slot]),)

    def make_do(self, places: int) -> Sequence[SlotInstruction]:
        """Spark has had no more than so many places for slots for long: go on with these.

        The slots that are there stay, as far as there are places. Each container of a retired slot goes to
        the slot that hosts the fewest. Nothing follows if there are places for all slots, or none at all.
        """
        if not 0 < places < len(self.active):
            return ()
        order = sorted(self.active, key=lambda slot: slot not in self._members)
        kept, retired = sorted(order[:places]), sorted(order[places:])
        hosted = {slot: list(self.placement[slot]) for slot in kept}
        for container in sorted(number for slot in retired for number in self.placement[slot]):
            min(hosted.values(), key=len).append(container)
        self.placement = tuple(tuple(sorted(hosted.get(slot, ()))) for slot in range(len(self.placement)))
        for slot in retired:
            self._members.pop(slot, None)
        introduced = () if self.missing else (Introduce(),)
        return *map(RetireSlot, retired), *introduced

    def window_ran(self) -> None:
        """All containers have run a window: no slot has failed in a row."""
        for slot in range(len(self._failed_jobs)):
            self._failed_jobs[slot] = 0

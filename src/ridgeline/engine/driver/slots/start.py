"""How many slots there are, what lives in them, what each needs: at the start, and while Spark has others."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from ridgeline.api.clock import Clock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.operator import SparkSource
from ridgeline.engine.driver.slots.spark_slots import SparkSlots
from ridgeline.plan.execution import Plan
from ridgeline.stram.patience import PATIENCES, back_off
from ridgeline.stram.placement import (
    HostCapacities,
    Placement,
    broken_rules,
    host_preferences,
    most_slots,
    place,
)
from ridgeline.stram.rules import describe_given_up
from ridgeline.stram.slot_resources import Need, greatest_of, needs_of, not_given, place_within
from ridgeline.stram.slots import SlotInstruction, Slots

_NAMED = 8
"""How many operators of a slot are named."""


def choose_slots(
    platform: SparkSlots, plan: Plan, warn: Callable[[str], None]
) -> tuple[Placement, Sequence[Need], bool]:
    """Which containers live in which slot, what the slots need, and whether the last one is a spare.

    Their cores are claimed. A spare slot hosts nothing; where there is one, all slots get what any of them
    needs. Raises RidgelineError if the cluster cannot give it.
    """
    given = platform.given
    for name, operators in not_given(plan, given).items():
        warn(f"`{name}` of {', '.join(operators)} has no effect here: Spark gives it to no slot")
    fed = sum(isinstance(one.operator, SparkSource) for one in plan.physical.operators)
    apart = place(plan, most_slots(plan))
    needs, spare = needs_of(plan, apart, given), plan.logical.speculates
    more = greatest_of(needs).vcores if spare else 0
    claimed = platform.claim(sum(need.vcores for need in needs) + more, fed)
    if spare and claimed <= more:
        spare, more = False, 0
        what = (
            f"`speculation` has no effect: a spare slot needs a core more, and Spark has {claimed} for slots"
        )
        warn(f"{what}; give Spark more cores")
    capacities = platform.capacities()
    placement = place_within(plan, min(claimed - more, len(apart)), claimed - more, given, capacities)
    needs = needs_of(plan, placement, given)
    if spare:
        placement, needs = (*placement, ()), [greatest_of(needs)] * (len(placement) + 1)
    for need in needs:
        platform.check(need)
    taken = sum(need.vcores for need in needs)
    if taken > claimed:
        what = f"a slot needs {taken} cores (`vcores`); Spark has {claimed} for slots"
        raise RidgelineError(f"{what}; give Spark more cores, or the operators fewer")
    _check_rules(plan, placement, capacities, warn)
    if claimed > taken:
        platform.release(claimed - taken)
    return placement, needs, spare


def _check_rules(
    plan: Plan, placement: Placement, capacities: HostCapacities, warn: Callable[[str], None]
) -> None:
    """Refuse a start that breaks strict affinity rules on hosts; on one machine, and if relaxed, warn.

    Raises RidgelineError.
    """
    rules = broken_rules(plan, placement, host_preferences(plan, placement, capacities), capacities)
    strict = [rule for rule in rules if not rule.relax]
    if strict and capacities:
        raise RidgelineError(describe_given_up(strict[0], sorted(capacities), len(placement)))
    for rule in rules:
        warn(describe_given_up(rule, sorted(capacities), len(placement)))


def attempts_of(plan: Plan) -> int:
    """How many new jobs a slot gets."""
    return max(int(one.attributes["recovery_attempts"]) for one in plan.logical.operators)


def named_all(titles: Sequence[str]) -> str:
    """Operators or slots for people, the first of many."""
    more = f" and {len(titles) - _NAMED} more" if len(titles) > _NAMED else ""
    return ", ".join(titles[:_NAMED]) + more


def describe_missing(slots: Sequence[int]) -> str:
    """Which slots are awaited for long."""
    noun, missing = "slot" if len(slots) == 1 else "slots", named_all(list(map(str, slots)))
    remedy = "has it enough free cores and memory?"
    return f"Spark has not started the tasks of all slots yet (awaited: {noun} {missing}); {remedy}"


# Fewer slots while Spark has too few places, more once it has cores for all that are wanted.

_LOOKS_AT_THE_START = 3
"""How many times its patience the run waits for slots that have never been there."""
_SAID_SECONDS = 60.0
_SPREAD_SECONDS = 2.0
_SPREAD_REST_SECONDS = 60.0


class Shortage:
    """Whether Spark has places for all slots, looked at from time to time. One thread.

    If it has a place for none, the run ends after `PATIENCES` times the patience, if slots were there once.
    Executors that have never come may wait in a cluster's queue for hours.
    """

    def __init__(
        self,
        platform: SparkSlots,
        clock: Clock,
        warn: Callable[[str], None],
        give_up: Callable[[str], None],
    ) -> None:
        """`give_up` ends the run."""
        self._platform = platform
        self._clock = clock
        self._warn = warn
        self._give_up = give_up
        self._at = math.inf
        """When to look again."""
        self._looks_left = _LOOKS_AT_THE_START
        self._warned = False
        self._short = False
        """Spark had too few places the last time, whether or not all slots were there."""
        self._had_slots = False
        self._none_since: float | None = None
        """Since when Spark has had a place for no slot, slots being awaited."""
        self._say_at = 0.0

    def wait(self) -> None:
        """Slots are started: look once the patience is over."""
        self._at = self._clock.monotonic() + self._platform.patience_seconds

    def over(self) -> None:
        """All slots are there."""
        self._looks_left = 1
        self._warned = False
        self._had_slots = True

    @property
    def due(self) -> bool:
        """True if it is time to look."""
        return self._clock.monotonic() >= self._at

    def look(
        self, slots: Slots, needs: Mapping[int, Need], cut: Collection[str]
    ) -> tuple[int, Sequence[SlotInstruction]]:
        """How many slots there are places for, and what follows: fewer slots, or slots on other hosts.

        If nothing follows, a warning names once the slots that are awaited. `cut`: hosts that do not answer.
        """
        self._looks_left -= 1
        taken = {slot: needs[slot].vcores for slot in slots.active}
        cores = self._platform.present(cut)
        places = len(taken) if cores >= sum(taken.values()) else cores // max(taken.values())
        if places or not slots.missing:
            self._none_since = None
        else:
            self._look_for_any()
        instructions: Sequence[SlotInstruction] = ()
        was_short, self._short = self._short, places < len(taken)
        if self._looks_left <= 0 and places and (was_short or slots.missing):
            if cut:
                capacities = self._platform.capacities().items()
                slots.capacities = {host: one for host, one in capacities if host not in cut}
            instructions = slots.shrink_to(places)
            if not instructions and cut and slots.missing:
                missing = named_all(list(map(str, slots.missing)))
                what = f"{', '.join(f'`{host}`' for host in sorted(cut))} does not answer"
                self._warn(f"Spark is asked for slots elsewhere (missing: {missing}): {what}")
                instructions = slots.elsewhere()
        if not instructions and slots.missing and not self._warned:
            self._warned = True
            self._warn(describe_missing(slots.missing))
        return places, instructions

    def _look_for_any(self) -> None:
        """Spark has a place for none of the slots that are awaited: say so each minute; at last give up."""
        now, patience = self._clock.monotonic(), self._platform.patience_seconds
        if self._none_since is None:
            self._none_since, self._say_at = now - patience, now  # so long ago it was looked before
        lasted = now - self._none_since
        left = PATIENCES * patience - lasted
        what = f"no host has had a core for any slot for {lasted:.0f} s"
        if self._had_slots and left <= 0:
            kept = "what is committed is kept: run again with the same `--checkpoint` once hosts are back"
            longer = "`--conf spark.ridgeline.slots.patience=5m` waits longer"
            self._give_up(f"{what}, {PATIENCES} times the patience; {kept}; {longer}")
        elif now >= self._say_at:
            self._say_at = now + _SAID_SECONDS
            ends = f"for an executor, and ends after {left:.0f} s more"
            self._warn(f"{what}: the run waits {ends if self._had_slots else 'until Spark has executors'}")


class Spreading:
    """When to look for cores for the slots that are wanted beside those there are. One thread."""

    def __init__(self, clock: Clock) -> None:
        self.wanted = 0
        """How many slots the containers would have if Spark had all cores that its settings allow."""
        self._clock = clock
        self._at = math.inf
        self._failures = 0

    def size(self, slots: int, wanted: int) -> None:
        """There are so many slots, and so many are wanted."""
        self.wanted = max(slots, wanted)
        self._failures = 0
        self._at = self._clock.monotonic() + _SPREAD_SECONDS if slots < self.wanted else math.inf

    @property
    def due(self) -> bool:
        """True if it is time to look."""
        return self._clock.monotonic() >= self._at

    def looked(self, *, begun: bool) -> None:
        """Spark was asked. `begun`: it had cores; counts as a failure until the containers are spread."""
        self._failures += begun
        self._at = self._clock.monotonic() + max(_SPREAD_SECONDS, back_off(self._failures))

    def rest(self) -> None:
        """The containers cannot be spread: look again much later."""
        self._at = self._clock.monotonic() + _SPREAD_REST_SECONDS

"""Slots for a plan that follows: chosen, started and prepared beside the windows.

All that takes time is done before the change. New slots start, plan files are written, and every slot reads
its own and imports the code in it. So the change itself is one message to each slot. Faults are found
before the change, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from ridgeline.api.clock import Clock
from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.slots.group import SlotGroup
from ridgeline.engine.driver.slots.spark_slots import SlotPlatform
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.process.plan_distribution import PlanFile
from ridgeline.engine.slot.messages import Prepare, Prepared
from ridgeline.plan.execution import Plan
from ridgeline.stram.following import (
    place_following,
    place_spread,
    preferences_for_fresh,
    strict_rules_broken,
)
from ridgeline.stram.placement import HostCapacities, HostPreference, Placement, host_preferences, most_slots
from ridgeline.stram.rules import describe_given_up
from ridgeline.stram.slot_resources import Need, needs_of
from ridgeline.stram.slots import SlotInstruction, Slots

Files = Sequence[PlanFile]
_START_SECONDS = 20.0
"""How long slots may take to start that nothing waits for."""


@dataclass(slots=True)
class Following:
    """A plan that follows, and where its containers will live.

    `fresh`: the slots that were started for it. `needs`: what each slot needs. `based_on`: the placement that
    it follows. `files`: of each slot. `since`: when the slots were started (monotonic). `asked`: the process
    of each slot that was sent its file; `ready`: those that have. `failure`: why one could not.
    `spreads`: it is the plan that runs, in more slots. `preferences`: hosts of those and others that move.
    """

    plan: Plan
    placement: Placement
    fresh: tuple[int, ...]
    needs: Sequence[Need]
    based_on: Placement
    files: Future[Files] | None = None
    since: float = 0.0
    asked: dict[int, Peer] = field(default_factory=dict)
    ready: set[Peer] = field(default_factory=set)
    failure: str = ""
    spreads: bool = False
    preferences: Mapping[int, HostPreference] = field(default_factory=dict)


class SlotChanging:
    """The plan that follows, if there is one. The thread of windows calls it.

    `distribute(plan, placement)` writes the plan files, in a thread. `follow` carries instructions about
    slots out. `needs()`: what each slot needs; those that are started are added.
    """

    def __init__(
        self,
        platform: SlotPlatform,
        slots: Slots,
        group: SlotGroup,
        checkpoint: str,
        clock: Clock,
        distribute: Callable[[Plan, Placement], Files],
        follow: Callable[[Iterable[SlotInstruction]], None],
        needs: Callable[[], dict[int, Need]],
    ) -> None:
        self._platform = platform
        self._slots = slots
        self._group = group
        self._checkpoint = checkpoint
        self._clock = clock
        self._distribute = distribute
        self._follow = follow
        self._needs = needs
        self._writer = ThreadPoolExecutor(1, "ridgeline-plan-files")
        self.next: Following | None = None

    def prepare(self, plan: Plan) -> None:
        """Choose the slots of a plan, start what there is room for, have its files written.

        Raises RidgelineError if a slot cannot have what it needs, or rules on hosts cannot be kept.
        """
        self.abandon()
        self.next = self._begun(plan)

    def check(self, plan: Plan) -> None:
        """Raise RidgelineError if `prepare` would refuse a plan; nothing is started.

        Any thread may call it.
        """
        self._chosen(plan, max(0, most_slots(plan) - len(self._slots.active)), self._platform.capacities())

    def spread(self, plan: Plan, wanted: int, without: Collection[str]) -> bool:
        """Start slots for a plan that runs in fewer than are wanted, if there are cores for them now.

        `without`: hosts that do not answer. False if there is nothing that could be started.
        """
        active, needs = list(self._slots.active), self._needs()
        vcores = max(needs[slot].vcores for slot in active)
        claimed = self._platform.claim_more((wanted - len(active)) * vcores, without)
        following = None if claimed < vcores else self._spread(plan, claimed // vcores, without)
        taken = 0 if following is None else sum(following.needs[slot].vcores for slot in following.fresh)
        if claimed < taken or following is None or not following.fresh:
            self._platform.release(claimed)
            return False
        self._platform.release(claimed - taken)
        needs.update((slot, following.needs[slot]) for slot in following.fresh)
        self._follow(self._slots.reserve(following.fresh, following.preferences))
        following.based_on = self._slots.placement
        self.next = self._writing(following)
        return True

    def _spread(self, plan: Plan, count: int, without: Collection[str]) -> Following | None:
        """Where the containers go with so many slots more; None if a slot cannot be, or breaks a rule."""
        where = {slot: member.node for slot, member in self._slots.members.items() if member.node}
        following = self._placed(plan, tuple(self._slots.numbers(count)), spreads=True)
        capacities = {host: one for host, one in self._platform.capacities().items() if host not in without}
        preferences = dict(host_preferences(plan, following.placement, capacities, where))
        if strict_rules_broken(plan, following.placement, capacities, where, preferences):
            return None
        loose = [slot for slot in following.fresh if not preferences.get(slot, HostPreference()).binding]
        preferences = {slot: preference for slot, preference in preferences.items() if preference.binding}
        preferences |= preferences_for_fresh(following.placement, loose, capacities, where, tuple(capacities))
        following.preferences = preferences
        try:
            for slot in following.fresh:
                self._platform.check(following.needs[slot])
        except RidgelineError:
            return None
        return following

    @property
    def prepared(self) -> bool:
        """True once all slots have read what they will host, or one of them cannot."""
        following = self.next
        if following is None or following.failure:
            return following is not None
        return all(
            (peer := following.asked.get(slot)) is not None
            and peer in following.ready
            and self._group.has(peer)
            for slot in _hosting(following.placement)
        )

    def abandon(self) -> None:
        """The plan does not follow after all: slots that were started for it end."""
        following, self.next = self.next, None
        if following is not None:
            self._give_back(following, following.fresh)

    def take(self, plan: Plan) -> Following:
        """The slots of a plan that follows now; chosen only now if it was not prepared.

        Raises RidgelineError if a slot cannot have it.
        """
        following = self.next
        if following is None or following.plan is not plan:
            self.abandon()
            self.next = following = self._begun(plan)
        elif following.based_on != self._slots.placement:
            self.next = following = self._moved(following)
        if following.failure:
            raise RidgelineError(following.failure)
        files = following.files
        assert files is not None  # noqa: S101  it has begun
        files.result()
        self.next = None
        return following

    def take_prepared(self, slot: int, message: Prepared) -> None:
        """A slot has read a plan, or could not."""
        following = self.next
        peer = self._group.peer(slot)
        if following is None or peer is None or following.asked.get(slot) != peer:
            return
        files = following.files
        if files is None or not files.done() or files.result()[slot].name != message.plan:
            return
        if message.failure is not None:
            following.failure = f"slot {slot} cannot have the new plan: {message.failure.error}"
        following.ready.add(peer)

    def look(self) -> None:
        """Look for plan files that are written, and slots that have come or do not come."""
        following = self.next
        if following is None or following.failure:
            return
        if following.based_on != self._slots.placement:
            if following.spreads:
                self.abandon()
                return
            self.next = following = self._moved(following)
        patience = self._platform.patience_seconds
        patience = max(patience, _START_SECONDS) if following.spreads else patience
        late = self._clock.monotonic() - following.since > patience
        if late and any(slot not in self._slots.members for slot in following.fresh):
            if following.spreads and not any(slot in self._slots.members for slot in following.fresh):
                self.abandon()
                return
            self.next = following = self._moved(following)
        if following.files is None or not following.files.done():
            return
        error = following.files.exception()
        if error is not None:
            following.failure = str(error)
            return
        files = following.files.result()
        for slot in _hosting(following.placement):
            peer = self._group.peer(slot)
            if peer is not None and following.asked.get(slot) != peer:
                following.asked[slot] = peer
                self._group.send(slot, Prepare(self._checkpoint, files[slot]))

    def close(self) -> None:
        """The application ends."""
        self._writer.shutdown(wait=False, cancel_futures=True)

    # How it is chosen ---------------------------------------------------------------------------------------

    def _begun(self, plan: Plan) -> Following:
        """Choose the slots of a plan, and start those that there are not yet. Raises RidgelineError."""
        capacities = self._platform.capacities()
        count = max(0, most_slots(plan) - len(self._slots.active))
        while True:
            following, preferences = self._chosen(plan, count, capacities)
            cores = sum(following.needs[slot].vcores for slot in following.fresh)
            claimed = self._platform.claim_more(cores) if cores else 0
            if claimed >= cores:
                break
            self._platform.release(claimed)
            count = min(count - 1, claimed)
        self._needs().update((slot, following.needs[slot]) for slot in following.fresh)
        self._follow(self._slots.reserve(following.fresh, preferences))
        following.based_on = self._slots.placement
        return self._writing(following)

    def _chosen(
        self, plan: Plan, count: int, capacities: HostCapacities
    ) -> tuple[Following, Mapping[int, HostPreference]]:
        """Where the containers of a plan go with so many more slots, and the hosts that these prefer.

        Raises RidgelineError if a rule cannot be kept, or a slot cannot have what it needs.
        """
        members = dict(self._slots.members)
        where = {slot: member.node for slot, member in members.items() if member.node}
        following = self._placed(plan, tuple(self._slots.numbers(count)))
        preferences = host_preferences(plan, following.placement, capacities, where)
        if strict := strict_rules_broken(plan, following.placement, capacities, where, preferences):
            slots = len(list(_hosting(following.placement)))
            raise RidgelineError(describe_given_up(strict[0], sorted(capacities), slots))
        for slot in following.fresh:
            self._platform.check(following.needs[slot])
        return following, preferences

    def _placed(self, plan: Plan, fresh: tuple[int, ...], *, spreads: bool = False) -> Following:
        """Where the containers of a plan go, with these slots beside those of now."""
        before = self._slots.placement
        where = {slot: member.node for slot, member in self._slots.members.items() if member.node}
        placement = (
            place_spread(plan, before, fresh) if spreads else place_following(plan, before, fresh, where)
        )
        needs = list(needs_of(plan, placement, self._platform.given))
        for slot, hosted in enumerate(before):
            if hosted and placement[slot]:
                needs[slot] = self._needs()[slot]  # its job runs with that
        used = tuple(slot for slot in fresh if placement[slot])
        return Following(plan, placement, used, needs, before, spreads=spreads)

    def _moved(self, following: Following) -> Following:
        """The slots of now are others than those that were chosen from: choose again from those there are."""
        there = tuple(slot for slot in following.fresh if slot in self._slots.members)
        self._give_back(following, [slot for slot in following.fresh if slot not in there])
        again = self._placed(following.plan, there, spreads=following.spreads)
        again.preferences = following.preferences
        self._give_back(following, [slot for slot in there if slot not in again.fresh])
        return self._writing(again)

    def _writing(self, following: Following) -> Following:
        following.since = self._clock.monotonic()
        files = self._writer.submit(self._distribute, following.plan, following.placement)
        files.add_done_callback(lambda _: self._group.wake())
        following.files = files
        return following

    def _give_back(self, following: Following, slots: Sequence[int]) -> None:
        unused = [slot for slot in slots if not self._slots.placement[slot]]
        self._follow(self._slots.give_back(unused))
        self._platform.release(sum(following.needs[slot].vcores for slot in unused))


def _hosting(placement: Placement) -> Iterable[int]:
    """The slots that host containers."""
    return (slot for slot, hosted in enumerate(placement) if hosted)

"""The contents of the slots: the containers of the plan that runs, their specs, the needs of each slot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from ridgeline.api.clock import Clock
from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.heartbeats import spaced_seconds
from ridgeline.engine.driver.slots.group import SlotGroup
from ridgeline.engine.driver.slots.spark_slots import SparkSlots
from ridgeline.engine.driver.slots.start import named_all
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.files.storage import DriverStorage
from ridgeline.engine.process import plan_distribution
from ridgeline.engine.process.plan_distribution import ShippedPlan
from ridgeline.engine.slot.messages import Address, Host, Prepare, Prepared, SharedMapping
from ridgeline.plan.container_spec import container_partners, container_specs
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion
from ridgeline.stram.placement import (
    HostPreference,
    Placement,
    PlanRules,
    host_preferences,
    most_slots,
    place_following,
    place_spread,
)
from ridgeline.stram.rules import describe_given_up
from ridgeline.stram.slot_resources import Need, greatest_of, needs_of
from ridgeline.stram.slots import SlotInstruction, Slots

# Slots for a plan that follows: chosen, started and prepared beside the windows.
#
# All that takes time is done before the change. New slots start, and every slot gets its own specs and
# imports the code that they need. So the change itself is one message to each slot. Faults are found before
# the change, too.

Plans = Sequence[ShippedPlan]
_START_SECONDS = 20.0
"""How long slots may take to start that nothing waits for."""


@dataclass(slots=True)
class Following:
    """A plan that follows, and where its containers will live.

    `fresh`: the slots that were started for it. `needs`: what each slot needs. `based_on`: the placement that
    it follows. `plans`: of each slot. `since`: when the slots were started (monotonic). `asked`: the process
    of each slot that was sent its specs; `ready`: those that have read them. `failure`: why one could not.
    `spreads`: it is the plan that runs, in more slots. `preferences`: hosts of those and others that move.
    """

    plan: Plan
    placement: Placement
    fresh: tuple[int, ...]
    needs: Sequence[Need]
    based_on: Placement
    plans: Future[Plans] | None = None
    since: float = 0.0
    asked: dict[int, Peer] = field(default_factory=dict)
    ready: set[Peer] = field(default_factory=set)
    failure: str = ""
    spreads: bool = False
    preferences: Mapping[int, HostPreference] = field(default_factory=dict)


class SlotChanging:
    """The plan that follows, if there is one. The thread of windows calls it.

    `follow` carries instructions about slots out. Specs are packed in a thread.
    """

    def __init__(
        self,
        platform: SparkSlots,
        contents: SlotContents,
        group: SlotGroup,
        clock: Clock,
        follow: Callable[[Iterable[SlotInstruction]], None],
    ) -> None:
        self._platform = platform
        self._contents = contents
        self._slots = contents.slots
        self._group = group
        self._clock = clock
        self._follow = follow
        self._writer = ThreadPoolExecutor(1, "ridgeline-plans")
        self.next: Following | None = None

    def prepare(self, plan: Plan) -> None:
        """Choose the slots of a plan, start what there is room for, have its specs packed.

        Raises RidgelineError if a slot cannot have what it needs, or rules on hosts cannot be kept.
        """
        self.abandon()
        self.next = self._begun(plan, self._wanted(plan))

    def check(self, plan: Plan) -> None:
        """Raise RidgelineError if `prepare` would refuse a plan; nothing is started.

        Any thread may call it.
        """
        self._chosen(plan, self._wanted(plan))

    def spread(self, plan: Plan, wanted: int, without: Collection[str]) -> bool:
        """Start slots for a plan that runs in fewer than are wanted, if there are cores for them now.

        `without`: hosts that do not answer. False if there is nothing that could be started.
        """
        active = list(self._slots.active)
        vcores = max(self._contents.needs[slot].vcores for slot in active)
        claimed = self._platform.claim_more((wanted - len(active)) * vcores, without)
        self._platform.release(claimed)  # where containers go is chosen only if there are cores
        if claimed >= vcores:
            with contextlib.suppress(RidgelineError):
                self.next = self._begun(plan, claimed // vcores, without)
        return self.next is not None

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
            self.prepare(plan)
            following = self.next
        else:
            self.look()
            following = self.next
        assert following is not None  # noqa: S101  it has begun
        assert following.plans is not None  # noqa: S101  as above
        if following.failure:
            raise RidgelineError(following.failure)
        following.plans.result()
        self.next = None
        return following

    def take_prepared(self, slot: int, message: Prepared) -> None:
        """A slot has read a plan, or could not."""
        following = self.next
        peer = self._group.peer(slot)
        if following is None or peer is None or following.asked.get(slot) != peer:
            return
        plans = following.plans
        if plans is None or not plans.done() or plans.result()[slot].name != message.plan:
            return
        if message.failure is not None:
            following.failure = f"slot {slot} cannot have the new plan: {message.failure.error}"
        following.ready.add(peer)

    def look(self) -> None:
        """Look for specs that are packed, and slots that have come or do not come."""
        following = self.next
        if following is None or following.failure:
            return
        moved = following.based_on != self._slots.placement
        patience = self._platform.patience_seconds
        patience = max(patience, _START_SECONDS) if following.spreads else patience
        there = [slot for slot in following.fresh if slot in self._slots.members]
        late = len(there) < len(following.fresh) and self._clock.monotonic() - following.since > patience
        if following.spreads and (moved or (late and not there)):
            self.abandon()
            return
        if moved or late:
            self.next = following = self._moved(following, tuple(there))
        if following.plans is None or not following.plans.done():
            return
        error = following.plans.exception()
        if error is not None:
            following.failure = str(error)
            return
        plans = following.plans.result()
        for slot in _hosting(following.placement):
            peer = self._group.peer(slot)
            if peer is not None and following.asked.get(slot) != peer:
                following.asked[slot] = peer
                self._group.send(slot, Prepare(self._contents.storage.uri, plans[slot]))

    def close(self) -> None:
        """The application ends."""
        self._writer.shutdown(wait=False, cancel_futures=True)

    # How it is chosen ---------------------------------------------------------------------------------------

    def _begun(self, plan: Plan, count: int, without: Collection[str] = ()) -> Following | None:
        """Choose up to so many slots more for a plan, and start them. Raises RidgelineError.

        None if it is the plan that runs, and no slot can be started.
        """
        while True:
            following = self._chosen(plan, count, without)
            cores = sum(following.needs[slot].vcores for slot in following.fresh)
            claimed = self._platform.claim_more(cores, without) if cores else 0
            if claimed >= cores:
                break
            self._platform.release(claimed)
            count = min(count - 1, claimed)
        if following.spreads and not following.fresh:
            return None
        self._contents.needs.update((slot, following.needs[slot]) for slot in following.fresh)
        self._follow(self._slots.reserve(following.fresh, following.preferences))
        following.based_on = self._slots.placement
        return self._writing(following)

    def _wanted(self, plan: Plan) -> int:
        """How many slots more a plan that follows should have."""
        return max(0, most_slots(plan) - len(self._slots.active))

    def _chosen(self, plan: Plan, count: int, without: Collection[str] = ()) -> Following:
        """Where the containers of a plan go with so many more slots, and the hosts that these prefer.

        Raises RidgelineError if a rule cannot be kept, or a slot cannot have what it needs.
        """
        where = self._slots.hosts
        capacities = {host: one for host, one in self._platform.capacities().items() if host not in without}
        following = self._placed(plan, tuple(self._slots.numbers(count)))
        placement = following.placement
        preferences = host_preferences(plan, placement, capacities, where)
        at = {slot: one.hosts[0] for slot, one in preferences.items() if one.hosts} | where
        if strict := PlanRules(plan).strict_broken(placement, at, capacities):
            slots = len(list(_hosting(placement)))
            raise RidgelineError(describe_given_up(strict[0], sorted(capacities), slots))
        for slot in following.fresh:
            self._platform.check(following.needs[slot])
        following.preferences = {
            slot: one for slot, one in preferences.items() if one.binding or slot in following.fresh
        }
        return following

    def _placed(self, plan: Plan, fresh: tuple[int, ...]) -> Following:
        """Where the containers of a plan go, with these slots beside those of now."""
        before, spreads = self._slots.placement, plan is self._contents.plan
        loads = dict(self._slots.loads)  # any thread may ask, and it grows
        placement = (
            place_spread(plan, before, fresh, loads)
            if spreads
            else place_following(plan, before, fresh, self._slots.hosts, loads)
        )
        needs = list(needs_of(plan, placement, self._platform.given))
        for slot, hosted in enumerate(before):
            if hosted and placement[slot]:
                needs[slot] = self._contents.needs[slot]  # its job runs with that
        used = tuple(slot for slot in fresh if placement[slot])
        return Following(plan, placement, used, needs, before, spreads=spreads)

    def _moved(self, following: Following, there: tuple[int, ...]) -> Following:
        """Slots are others than those that were chosen from: choose again, with these fresh ones."""
        self._give_back(following, [slot for slot in following.fresh if slot not in there])
        again = self._placed(following.plan, there)
        again.preferences = following.preferences
        self._give_back(following, [slot for slot in there if slot not in again.fresh])
        return self._writing(again)

    def _writing(self, following: Following) -> Following:
        following.since = self._clock.monotonic()
        plans = self._writer.submit(self._contents.distribute, following.plan, following.placement)
        plans.add_done_callback(lambda _: self._group.wake())
        following.plans = plans
        return following

    def _give_back(self, following: Following, slots: Sequence[int]) -> None:
        unused = [slot for slot in slots if not self._slots.placement[slot]]
        self._follow(self._slots.give_back(unused))
        self._platform.release(sum(following.needs[slot].vcores for slot in unused))


def _hosting(placement: Placement) -> Iterable[int]:
    """The slots that host containers."""
    return (slot for slot, hosted in enumerate(placement) if hosted)


_Partners: TypeAlias = tuple[Mapping[int, int], Mapping[Peer, Address]]
"""`slots` and `peers` of a `Host`."""


class _Sent(NamedTuple):
    """The last `Host` of a slot: the process that got it, its plan, its containers."""

    peer: Peer
    plan: str
    containers: tuple[int, ...]


class SlotContents:
    """The plan that runs, as the slots host it. The thread of windows changes it.

    `slots`: where each container lives; set when the slots are started. `containers`: the operators of each.
    `stages`: the stage of each. `hears`: heartbeats come.
    `plans`: the specs of each slot. `needs`: what each slot needs.
    """

    slots: Slots

    def __init__(
        self, plan: Plan, storage: DriverStorage, run_id: str, epoch: int, heartbeat_seconds: float | None
    ) -> None:
        self.application = plan.logical.application
        self.run_id = run_id
        self.storage = storage
        self.epoch = epoch
        self.hears = heartbeat_seconds is not None
        self._heartbeat_seconds = heartbeat_seconds
        self.needs: dict[int, Need] = {}
        self.plans: list[ShippedPlan] = []
        self._sent: dict[int, _Sent] = {}
        self._plan_of: Mapping[tuple[int, ...], ShippedPlan] = {}
        """The file of the containers that slots host, of the plan that runs."""
        self.follow(plan)

    def follow(self, plan: Plan) -> None:
        """Another plan runs from now on. `place` or `take` says where its containers live."""
        self.plan = plan
        self.operators = {operator.id: operator for operator in plan.physical.operators}
        self.containers = {container.id: container.operators for container in plan.execution.containers}
        self.stages = {container.id: container.stage for container in plan.execution.containers}
        self._partners = container_partners(plan)
        self._sent, self._plan_of = {}, {}

    def place(self, needs: Sequence[Need]) -> None:
        """The containers live where `slots` says; packs their specs."""
        self.needs.update(enumerate(needs))
        self.plans = [*self.distribute(self.plan, self.slots.placement)]
        self._plan_of = dict(zip(self.slots.placement, self.plans, strict=True))

    def take(self, following: Following) -> None:
        """The containers live where a plan that was prepared has them."""
        assert following.plans is not None  # noqa: S101  it was taken
        self.plans = [*following.plans.result()]
        self._plan_of = dict(zip(following.placement, self.plans, strict=True))
        self.needs.update(enumerate(following.needs))
        if self.slots.spare is not None:
            self.needs[self.slots.spare] = greatest_of(following.needs)

    def swap(self, slot: int, spare: int) -> None:
        """The slot that was the spare hosts what the other one did."""
        self.plans[slot] = self.plans[spare]
        self.needs[slot] = self.needs[spare]

    def distribute(self, plan: Plan, placement: Placement) -> Sequence[ShippedPlan]:
        """Pack the specs of each slot that hosts others than slots do now. From any thread.

        Where all partitions send to all, most is of others' containers: a slot gets its own. The spare has
        all.
        """
        known = self._plan_of if plan is self.plan else {}
        specs = {spec.id: spec for spec in container_specs(plan)}
        code = plan_distribution.ship_code(self.storage, self.epoch)

        def distribute(hosted: tuple[int, ...]) -> ShippedPlan:
            if hosted in known:
                return known[hosted]
            own = [specs[container] for container in hosted]
            return plan_distribution.distribute(self.storage, own, code, self.epoch)

        spare = self.slots.spare
        return [
            distribute(tuple(specs) if slot == spare else hosted) for slot, hosted in enumerate(placement)
        ]

    def need(self, slot: int) -> Need:
        """The needs of a slot. From any thread."""
        return self.needs[slot]

    def assignments(self, ways: Mapping[int, tuple[Peer, Address]]) -> Iterator[tuple[int, Host]]:
        """The `Host`s to send now that all slots are there, by slot. `ways`: who they are, where reached.

        Only slots that are others than the last time, or host others, get one, and their partners. So what is
        sent for a slot that comes back does not grow with the number of slots. Slots with the same partners
        share what says so.
        """
        placement = self.slots.placement
        now = {slot: _Sent(peer, self.plans[slot].name, placement[slot]) for slot, (peer, _) in ways.items()}
        before, self._sent = self._sent, now
        changed = {slot for slot in before.keys() | now.keys() if before.get(slot) != now.get(slot)}
        if not now.keys() <= changed:  # else all get one anyway
            changed.update(
                self.slots.home[partner]
                for slot in tuple(changed)
                for sent in (before.get(slot), now.get(slot))
                for container in (sent.containers if sent else ())
                for partner in self._partners[container]
            )
        shared: dict[frozenset[int], Host] = {}
        for slot in sorted(changed & now.keys()):
            hosted, plan = placement[slot], self.plans[slot]
            if (last := before.get(slot)) is not None and last[:2] == now[slot][:2]:
                plan = replace(plan, specs=b"")  # it has them
            alike = frozenset([id(self._partners[one]) for one in hosted])
            known = shared.get(alike)
            if known is None:
                host = shared[alike] = self._host(plan, hosted, self._partners_of(hosted, ways))
            else:
                host = replace(known, plan=plan, containers=hosted)
            yield slot, host

    def emptied(self, slot: int) -> Host:
        """The `Host` for a slot that hosts nothing from now on."""
        self._sent.pop(slot, None)
        return self._host(self.plans[slot], (), ({}, {}))

    def _partners_of(self, hosted: Iterable[int], ways: Mapping[int, tuple[Peer, Address]]) -> _Partners:
        """The slots of all that these containers exchange blocks with, and who they are."""
        homes = {partner: self.slots.home[partner] for one in hosted for partner in self._partners[one]}
        peers = SharedMapping(ways[other] for other in set(homes.values()))
        return SharedMapping(homes), peers

    def _host(self, plan: ShippedPlan, hosted: tuple[int, ...], partners: _Partners) -> Host:
        """The `Host` for these containers."""
        homes, peers = partners
        who, every = (self.storage.uri, plan, self.run_id), self._heartbeat_seconds
        if every is not None:
            timeout = float(self.plan.logical.attributes["heartbeat_timeout"])
            every = spaced_seconds(every, timeout, len(self.slots.active))
        return Host(*who, hosted, homes, peers, every)

    def states_of(self, slot: int, states: Mapping[int, StateVersion]) -> dict[int, StateVersion]:
        """The states of the containers in a slot, out of those of all."""
        own = (
            operator for container in self.slots.placement[slot] for operator in self.containers[container]
        )
        return {operator: states[operator] for operator in own if operator in states}

    def process_of(self, container: int) -> tuple[str, int] | None:
        """Host and process of a container's slot, None if that is lost."""
        member = self.slots.members.get(self.slots.home.get(container, -1))
        return None if member is None else (member.host, member.pid)

    def describe(self, slot: int) -> str:
        """The description of a slot's job in Spark's UI. From any thread."""
        empty = "spare" if slot == self.slots.spare else "for a plan that follows"
        hosted = self.names(slot) or empty
        return f"{self.application}: slot {slot + 1} of {len(self.slots.placement)} ({hosted})"

    def names(self, slot: int) -> str:
        """The operators in a slot, for people. From any thread."""
        hosted = self.slots.placement[slot]
        ids = [one for container in hosted for one in self.containers.get(container, ())]
        return named_all([self.operators[one].title for one in ids if one in self.operators])

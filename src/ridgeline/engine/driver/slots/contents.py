"""The contents of the slots: the containers of the plan that runs, its files, the needs of each slot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ridgeline.engine.driver.heartbeats import spaced_seconds
from ridgeline.engine.driver.slots.changing import Following
from ridgeline.engine.driver.slots.start import distribute_plan, homes_of, named_all
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.files.storage import DriverStorage
from ridgeline.engine.process.plan_distribution import PlanFile
from ridgeline.engine.slot.messages import Address, Host
from ridgeline.plan.container_spec import container_partners
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion
from ridgeline.stram.placement import Placement
from ridgeline.stram.slot_resources import Need, greatest_of
from ridgeline.stram.slots import Slots

_Partners: TypeAlias = tuple[Mapping[int, int], Mapping[Peer, Address]]
"""`slots` and `peers` of a `Host`."""


class _Sent(NamedTuple):
    """The last `Host` of a slot: the process that got it, the file of its plan, its containers."""

    peer: Peer
    plan: str
    containers: tuple[int, ...]


class SlotContents:
    """The plan that runs, as the slots host it. The thread of windows changes it.

    `slots`: where each container lives; set when the slots are started. `containers`: the operators of each.
    `home`: the slot of each container. `files`: the plan file of each slot. `needs`: what each slot needs.
    """

    slots: Slots

    def __init__(
        self, plan: Plan, storage: DriverStorage, run_id: str, epoch: int, heartbeat_seconds: float | None
    ) -> None:
        self.application = plan.logical.application
        self.run_id = run_id
        self.storage = storage
        self.epoch = epoch
        self._heartbeat_seconds = heartbeat_seconds
        self.needs: dict[int, Need] = {}
        self.home: dict[int, int] = {}
        self.files: list[PlanFile] = []
        self._sent: dict[int, _Sent] = {}
        self._file_of: Mapping[tuple[int, ...], PlanFile] = {}
        """The file of the containers that slots host, of the plan that runs."""
        self.follow(plan)

    def follow(self, plan: Plan) -> None:
        """Another plan runs from now on. `place` or `take` says where its containers live."""
        self.plan = plan
        self.operators = {operator.id: operator for operator in plan.physical.operators}
        self.containers = {container.id: container.operators for container in plan.execution.containers}
        self._partners = container_partners(plan)
        self._sent, self._file_of = {}, {}

    def place(self, needs: Sequence[Need]) -> None:
        """The containers live where `slots` says; writes the plan files."""
        self.needs.update(enumerate(needs))
        self.home = homes_of(self.slots.placement)
        self.files = [*self.distribute(self.plan, self.slots.placement)]
        self._file_of = dict(zip(self.slots.placement, self.files, strict=True))

    def take(self, following: Following) -> None:
        """The containers live where a plan that was prepared has them."""
        assert following.files is not None  # noqa: S101  it was taken
        self.files = [*following.files.result()]
        self._file_of = dict(zip(following.placement, self.files, strict=True))
        self.home = homes_of(following.placement)
        self.needs.update(enumerate(following.needs))
        if self.slots.spare is not None:
            self.needs[self.slots.spare] = greatest_of(following.needs)

    def swap(self, slot: int, spare: int) -> None:
        """The slot that was the spare hosts what the other one did."""
        self.home = homes_of(self.slots.placement)
        self.files[slot] = self.files[spare]
        self.needs[slot] = self.needs[spare]

    def distribute(self, plan: Plan, placement: Placement) -> Sequence[PlanFile]:
        """Write a plan file for each slot that hosts others than slots do now. From any thread."""
        known = self._file_of if plan is self.plan else {}
        return distribute_plan(self.storage, plan, placement, self.slots.spare, self.epoch, known)

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
        now = {slot: _Sent(peer, self.files[slot].name, placement[slot]) for slot, (peer, _) in ways.items()}
        before, self._sent = self._sent, now
        changed = {slot for slot in before.keys() | now.keys() if before.get(slot) != now.get(slot)}
        if not now.keys() <= changed:  # else all get one anyway
            changed.update(
                self.home[partner]
                for slot in tuple(changed)
                for sent in (before.get(slot), now.get(slot))
                for container in (sent.containers if sent else ())
                for partner in self._partners[container]
            )
        shared: dict[frozenset[int], Host] = {}
        for slot in sorted(changed & now.keys()):
            hosted = placement[slot]
            alike = frozenset([id(self._partners[one]) for one in hosted])
            known = shared.get(alike)
            if known is None:
                host = shared[alike] = self._host(slot, hosted, self._partners_of(hosted, ways))
            else:
                host = known.like(self.files[slot], hosted)
            yield slot, host

    def emptied(self, slot: int) -> Host:
        """The `Host` for a slot that hosts nothing from now on."""
        self._sent.pop(slot, None)
        return self._host(slot, (), ({}, {}))

    def _partners_of(self, hosted: Iterable[int], ways: Mapping[int, tuple[Peer, Address]]) -> _Partners:
        """The slots of all that these containers exchange blocks with, and who they are."""
        homes = {partner: self.home[partner] for one in hosted for partner in self._partners[one]}
        return homes, dict(ways[other] for other in set(homes.values()))

    def _host(self, slot: int, hosted: tuple[int, ...], partners: _Partners) -> Host:
        """The `Host` for these containers."""
        homes, peers = partners
        who, every = (self.storage.uri, self.files[slot], self.run_id, self.epoch), self._heartbeat_seconds
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

"""STRAM's decisions about slots that run: what follows when one has joined, is lost, or has no core.

A slot is a long Spark task that hosts containers. No Spark, no sockets, no clock, no threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ridgeline.plan.placement_rule import PlacementRule
from ridgeline.stram.patience import SlotFailures, back_off
from ridgeline.stram.placement import HostCapacities, HostPreference, Placement
from ridgeline.stram.rules import PlanRules

_NEWEST = 0.1
"""The weight of the newest window in the load of a container."""
_ASKS = 3
"""How often Spark is asked again for a slot on another host."""

# Instructions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartSlot:
    """Submit a Spark job for this slot. `job` counts the slot's jobs from 0.

    `hosts`: where it should run, by Spark's names; none: anywhere. `wait_seconds`: only after so long, since
    jobs before have failed.
    """

    slot: int
    job: int
    hosts: tuple[str, ...] = ()
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class AskHosts:
    """Call `hosts_changed`: slots run on hosts where they should not, or on hosts that are new."""


@dataclass(frozen=True, slots=True)
class MoveSlot:
    """End the job of a slot that must be on one of `hosts`, and is not; another job follows."""

    slot: int
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReplaceSlot:
    """End the job of a slot whose host does not answer; another job follows."""

    slot: int


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Spark has put a slot onto another host than `hosts` each time: it stays there."""

    slot: int
    host: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SendAssignments:
    """All slots are there: send each one its containers, and where its partners are reached."""


@dataclass(frozen=True, slots=True)
class GiveUpSlot:
    """A slot was lost too often, see `Slots`: the application has failed."""

    slot: int
    reason: str
    jobs: int


@dataclass(frozen=True, slots=True)
class RetireSlot:
    """End this slot, whether it is there or not: its containers live in others now, or nowhere.

    `orderly`: no window is under way, so it has the time to tear down what it hosts.
    """

    slot: int
    orderly: bool = False


@dataclass(frozen=True, slots=True)
class EmptySlot:
    """Have this slot tear down what it hosts: that lives in another one now, and this one is the spare."""

    slot: int


@dataclass(frozen=True, slots=True)
class GiveUpRule:
    """A rule is not kept from now on. If it is strict, the application has failed.

    `hosts`: where slots are, or could be.
    """

    rule: PlacementRule
    hosts: tuple[str, ...]
    slots: int


SlotInstruction = (
    StartSlot
    | SendAssignments
    | GiveUpSlot
    | RetireSlot
    | EmptySlot
    | AskHosts
    | MoveSlot
    | ReplaceSlot
    | Misplaced
    | GiveUpRule
)


@dataclass(frozen=True, slots=True)
class Member:
    """The process that is a slot now.

    `address`: where other slots reach it. `node`: Spark's name for its host, "" if there is only one.
    """

    host: str
    pid: int
    address: object
    node: str = ""


# While the application runs ---------------------------------------------------------------------------------


class Slots:
    """Which slots are there. Every method returns what to do next, in this order.

    A slot that is lost comes back by Spark's own retry of its task. Once its job has ended, Spark has given
    up (or the task has left), and a new job is asked for, later each time. `recovery_attempts` is how many
    new jobs a slot gets until all have run a window, if operators are to blame. Else it gets jobs for
    `patience_seconds`, and so many at least.

    A slot that comes back should be on the host where it was, so that its containers find their state in the
    caches there.

    With a `spare` the last slot of the placement hosts nothing, and is kept. Another one may change places
    with it. A spare that is lost comes back like others, as long as it starts; nothing waits for it.

    `rules` say where slots should run; `capacities`: what hosts have. A slot on the wrong host is asked for
    again a few times. Then strict rules that are broken are the end of the application, see `GiveUpRule`.
    """

    def __init__(
        self,
        placement: Placement,
        recovery_attempts: int,
        rules: PlanRules,
        capacities: HostCapacities = MappingProxyType({}),
        *,
        spare: bool = False,
        patience_seconds: float = 0.0,
    ) -> None:
        self._members: dict[int, Member] = {}
        self.placement = placement
        self.loads: dict[int, float] = {}
        """How many seconds each container works in a window, averaged."""
        self.spare = len(placement) - 1 if spare else None
        """The slot that is kept for what a late one hosts; None if there is none, or if it does not start."""
        self._stillborn = 0
        """How many jobs of the spare have ended since one was there."""
        self._rules = rules
        self._capacities = capacities
        self._preferences = dict(rules.host_preferences(placement, capacities, {}))
        self._reported_rules: set[str] = set()
        """The relaxed rules that were given up."""
        self._asks = [0] * len(placement)
        self._moving: set[int] = set()
        self._misplaced: set[int] = set()
        self._known = {"", *capacities}
        """The hosts that preferences were made of."""
        self._failures = SlotFailures(len(placement), recovery_attempts, patience_seconds)
        self._ever_joined: set[int] = set()
        self._ending: set[int] = set()
        """Slots that were retired, whose jobs have not ended yet."""
        self._free: set[int] = set()
        """Slots that host nothing and whose jobs have ended: they can be started again."""

    # Who is there -------------------------------------------------------------------------------------------

    @property
    def placement(self) -> Placement:
        """The containers of each slot."""
        return self._placement

    @placement.setter
    def placement(self, placement: Placement) -> None:
        self._placement = placement
        self._active = [slot for slot, hosted in enumerate(placement) if hosted]
        self._absent = set(self._active) - self._members.keys()

    def _come(self, slot: int, member: Member) -> None:
        """A process is this slot now."""
        self._members[slot] = member
        self._absent.discard(slot)

    def _go(self, slot: int) -> Member | None:
        """No process is this slot any more; what it was."""
        if self._placement[slot]:
            self._absent.add(slot)
        return self._members.pop(slot, None)

    @property
    def members(self) -> Mapping[int, Member]:
        """The slots that are there, by number; a read-only view."""
        return MappingProxyType(self._members)

    @property
    def missing(self) -> Sequence[int]:
        """The slots that are not there, without those that were retired."""
        return sorted(self._absent)

    @property
    def complete(self) -> bool:
        """True while no slot is missing: asked at each step, so the number of slots must not matter."""
        return not self._absent

    @property
    def active(self) -> Sequence[int]:
        """The slots that host containers: all but those that were retired."""
        return self._active

    # Another plan -------------------------------------------------------------------------------------------

    def numbers(self, count: int) -> Sequence[int]:
        """The numbers of so many slots that could be started beside those that there are."""
        known = sorted(self._free)[:count]
        return [*known, *range(len(self.placement), len(self.placement) + count - len(known))]

    def reserve(
        self, numbers: Sequence[int], preferences: Mapping[int, HostPreference]
    ) -> Sequence[SlotInstruction]:
        """Start slots of these `numbers`, which host nothing before `change`."""
        self._know(max(numbers, default=-1) + 1)
        for slot in numbers:
            self._asks[slot] = 0
            self._failures.forget(slot)
            self._preferences[slot] = preferences.get(slot, HostPreference())
        self._free.difference_update(numbers)
        return [self._start(slot) for slot in numbers]

    def _know(self, count: int) -> None:
        """There are so many numbers; those that are new are of slots that were never started."""
        first = len(self.placement)
        more = max(0, count - first)
        self.placement = (*self.placement, *((),) * more)
        self._asks.extend([0] * more)
        self._failures.add(more)
        self._free.update(range(first, first + more))

    def give_back(self, numbers: Sequence[int]) -> Sequence[SlotInstruction]:
        """End slots that were reserved, and are not needed after all. The others do not notice."""
        unused = (slot for slot in numbers if not self.placement[slot])
        return self._retire([slot for slot in unused if slot not in self._free | self._ending])

    def change(
        self,
        placement: Placement,
        rules: PlanRules,
        recovery_attempts: int | None = None,
        preferences: Mapping[int, HostPreference] = MappingProxyType({}),
    ) -> Sequence[SlotInstruction]:
        """Other containers live in the slots from now on. Those that host nothing any more are retired.

        `preferences`: of slots that have others from now on.
        """
        self._preferences.update(preferences)
        self._know(len(placement))
        self.placement, self._rules = placement, rules
        self.loads = {one: self.loads[one] for hosted in placement for one in hosted if one in self.loads}
        if recovery_attempts is not None:
            self._failures.recovery_attempts = recovery_attempts
        empty = {slot for slot, hosted in enumerate(placement) if not hosted}
        retired = self._retire(sorted(empty - self._free - self._ending - {self.spare}))
        started = [self._start(slot) for slot in self.active if slot in self._free]
        self._free &= empty
        return *retired, *started, *self._assign()

    def swap_with_spare(self, late: int) -> Sequence[SlotInstruction]:
        """The spare hosts what a slot does from now on, and that one is the spare.

        Nothing follows if the spare is not there, or is where the slot's containers must not be.
        """
        spare = self.spare
        member = None if spare is None else self._members.get(spare)
        preference = self._preferences.get(late, HostPreference())
        if spare is None or member is None or (preference.binding and member.node not in preference.hosts):
            return ()
        placement = list(self.placement)
        placement[spare], placement[late] = placement[late], ()
        where = {slot: one.node for slot, one in self._members.items() if placement[slot]}
        if self._strict(tuple(placement), where):
            return ()
        self.placement, self.spare = tuple(placement), late
        self._preferences[spare] = (
            preference if preference.binding else HostPreference((member.node,) if member.node else ())
        )
        self._preferences.pop(late, None)
        return EmptySlot(late), *self._assign()

    def _retire(self, slots: Sequence[int]) -> Sequence[RetireSlot]:
        for slot in slots:
            self._go(slot)
            self._preferences.pop(slot, None)
        self._ending.update(slots)
        return [RetireSlot(slot, orderly=True) for slot in slots]

    def start(self) -> Sequence[SlotInstruction]:
        """The run begins."""
        return [self._start(slot) for slot in range(len(self.placement))]

    def joined(self, slot: int, member: Member) -> Sequence[SlotInstruction]:
        """A process has joined as this slot; it replaces one that was there."""
        self._come(slot, member)
        self._ever_joined.add(slot)
        self._stillborn = 0 if slot == self.spare else self._stillborn
        return self._assign() if self.placement[slot] else ()

    def _assign(self) -> Sequence[SlotInstruction]:
        """The instructions once all slots are there."""
        if not self.complete:
            return ()
        asked = [slot for slot in self._strays() if self._asks[slot] < _ASKS]
        if asked or any(one.node not in self._known for one in self._members.values()):
            return (AskHosts(),)
        return self._send_assignments()

    def hosts_changed(self, capacities: HostCapacities) -> Sequence[SlotInstruction]:
        """The answer to `AskHosts`. Slots that must be on hosts that are gone get others.

        Slots that are on the wrong host are moved, unless Spark was asked often enough.
        """
        self._capacities = capacities
        homeless = [slot for slot in self.active if self._is_homeless(slot)]
        if homeless:
            self._prefer_again(homeless)
        self._known.update(capacities, (member.node for member in self._members.values()))
        moved = [slot for slot in self._strays() if self._asks[slot] < _ASKS]
        for slot in moved:
            self._asks[slot] += 1
            self._moving.add(slot)
            self._go(slot)
        if moved:
            return [MoveSlot(slot, self._preferences[slot].hosts) for slot in moved]
        return () if self.missing else self._send_assignments()

    def _is_homeless(self, slot: int) -> bool:
        """True if a slot has no preference, or must be on hosts that are all gone."""
        preference = self._preferences.get(slot)
        return preference is None or (
            preference.binding and not self._capacities.keys() & set(preference.hosts)
        )

    def _prefer_again(self, homeless: Sequence[int]) -> None:
        """Wishes for slots without a host; if strict rules need it, for all. If nothing helps, they wait."""
        without = set(homeless)
        others = [slot for slot in self.active if slot not in without and slot in self._preferences]
        stay = {slot: self._host_of(slot) for slot in others if self._preferences[slot].binding}
        near = self._rules.host_preferences(self.placement, self._capacities, stay)
        for new, moved in (
            (near, homeless),
            (self._rules.host_preferences(self.placement, self._capacities, {}), self.active),
        ):
            wanted = {**self._preferences, **{slot: new.get(slot, HostPreference()) for slot in moved}}
            if not self._strict(self.placement, self._hosts_of(wanted)):
                self._preferences = wanted
                return
        for slot in homeless:
            if slot not in self._preferences or self._asks[slot] >= _ASKS:
                self._preferences[slot] = near.get(slot, HostPreference())

    def _hosts_of(self, preferences: Mapping[int, HostPreference]) -> Mapping[int, str]:
        """The hosts that slots would be on; the only one that there is, or unlike all others, if unknown."""
        only = next(iter(self._capacities)) if len(self._capacities) == 1 else ""
        at = {slot: preferences[slot].hosts if slot in preferences else () for slot in self.active}
        return {slot: next(iter(hosts), only or f"slot {slot}") for slot, hosts in at.items()}

    def _host_of(self, slot: int) -> str:
        """The host of a slot that must be on some: where it is, if that is one of them."""
        member, hosts = self._members.get(slot), self._preferences[slot].hosts
        return member.node if member is not None and member.node in hosts else hosts[0]

    def _strict(self, placement: Placement, where: Mapping[int, str]) -> Sequence[PlacementRule]:
        """The strict rules that are broken where slots are on these hosts; none on a single machine."""
        if not self._capacities:
            return ()
        return [one for one in self._rules.broken(placement, where, self._capacities) if not one.relax]

    def _strays(self) -> Sequence[int]:
        """The slots that are on another host than they must be."""
        preferences = (
            (slot, member, self._preferences.get(slot, HostPreference()))
            for slot, member in self._members.items()
        )
        return [
            slot
            for slot, member, preference in preferences
            if preference.binding and member.node not in preference.hosts
        ]

    def _send_assignments(self) -> Sequence[SlotInstruction]:
        """All slots are there. Those without a preference stay where they are; strays are reported once.

        A strict rule that is broken now is the end; relaxed ones are reported once.
        """
        given_up = self._give_up()
        if any(not one.rule.relax for one in given_up):
            return given_up
        for slot, member in self._members.items():
            if member.node and not self._preferences.get(slot, HostPreference()).binding:
                self._preferences[slot] = HostPreference((member.node,))
        strays = self._strays()
        reported = [slot for slot in strays if slot not in self._misplaced]
        self._misplaced.update(reported)
        for slot in self._members.keys() - set(strays):
            self._asks[slot] = 0
        misplaced = [
            Misplaced(slot, self._members[slot].host, self._preferences[slot].hosts) for slot in reported
        ]
        return *misplaced, *given_up, SendAssignments()

    def _give_up(self) -> Sequence[GiveUpRule]:
        """The instructions on rules that are broken where slots are: strict ones alone, or relaxed ones."""
        where = {slot: member.node for slot, member in self._members.items() if member.node}
        broken = [
            rule
            for rule in self._rules.broken(self.placement, where, self._capacities)
            if rule.name not in self._reported_rules
        ]
        broken = [rule for rule in broken if not rule.relax] or broken
        self._reported_rules.update(rule.name for rule in broken)
        hosts = tuple(sorted(set(where.values())))
        return [GiveUpRule(rule, hosts, len(self.active)) for rule in broken]

    def has_joined_before(self, slot: int) -> bool:
        """True if the slot was there before: it is a restart."""
        return slot in self._ever_joined

    def lost(self, slot: int, reason: str, *, blamed: bool = False) -> Member | None:
        """The connection to a slot is lost; Spark's retry brings it back, or its job ends.

        Returns what it was, None if it was not there. `blamed`: an operator's code is the reason.
        """
        self._failures.lost(slot, reason, blamed=blamed)
        return self._go(slot)

    def job_ended(self, slot: int, reason: str, now: float = 0.0) -> Sequence[SlotInstruction]:
        """Spark's job of a slot has ended; the process, if there still is one, does not count any more.

        Nothing follows for a slot that was retired. `now`: a monotonic clock.
        """
        self._go(slot)
        self._failures.ended(slot)
        if slot == self.spare:
            return self._spare_ended(slot)
        if not self.placement[slot]:
            self._ending.discard(slot)
            self._moving.discard(slot)
            self._free.add(slot)
            return ()
        if slot in self._moving:
            self._moving.discard(slot)
            return (self._start(slot),)
        failed, too_many = self._failures.failed(slot, now)
        if too_many:
            return (GiveUpSlot(slot, reason or self._failures.reason(slot), failed),)
        return (replace(self._start(slot), wait_seconds=back_off(failed)),)

    def _spare_ended(self, slot: int) -> Sequence[SlotInstruction]:
        """Start the spare again, unless it never gets as far as to join."""
        self._stillborn += 1
        if self._stillborn > self._failures.recovery_attempts:
            self.spare = None
            self._free.add(slot)
            return ()
        return (self._start(slot),)

    def _start(self, slot: int) -> StartSlot:
        return StartSlot(slot, self._failures.jobs(slot), self._preferences.get(slot, HostPreference()).hosts)

    def elsewhere(self, capacities: HostCapacities) -> Sequence[SlotInstruction]:
        """The slots that are missing are started on these hosts; where they were, nothing answers."""
        self._capacities = capacities
        missing = self.missing
        homeless = [slot for slot in missing if self._is_homeless(slot)]
        if homeless:
            self._prefer_again(homeless)
        for slot in missing:
            if not self._preferences.get(slot, HostPreference()).binding:
                self._preferences[slot] = HostPreference(tuple(capacities))
        self._moving.update(missing)
        return [ReplaceSlot(slot) for slot in missing]

    def without(self, capacities: HostCapacities) -> None:
        """There are only these hosts at the moment."""
        self._capacities = capacities

    def shrink_to(self, places: int) -> Sequence[SlotInstruction]:
        """Spark has had no more than this number of places for long: use these.

        The slots that are there stay, as far as there are places. Each container of a retired slot goes to
        the slot that hosts the fewest, of those where it breaks no rule. If strict rules cannot be kept so,
        all containers get other slots; if that does not help either, the application has failed. Nothing
        follows if there are places for all slots, or none at all.
        """
        if not 0 < places < len(self.active):
            return ()
        strict: Sequence[PlacementRule] = ()
        for placement, preferences in self._arrangements(places):
            at = {slot: host for slot, host in self._hosts_of(preferences).items() if placement[slot]}
            strict = self._strict(placement, at)
            if not strict:
                break
        else:
            return [GiveUpRule(rule, tuple(sorted(self._capacities)), places) for rule in strict]
        retired = [slot for slot in self.active if not placement[slot]]
        self.placement, self._preferences = placement, dict(preferences)
        for slot in retired:
            self._go(slot)
        self._ending.update(retired)
        return *map(RetireSlot, retired), *self._assign()

    def _arrangements(self, places: int) -> Iterator[tuple[Placement, Mapping[int, HostPreference]]]:
        """Placements in so many slots, with the hosts of these: first those that move the fewest."""
        preferences = dict(self._preferences)
        for slot, member in self._members.items():
            if member.node:
                binding = self._preferences.get(slot, HostPreference()).binding
                preferences[slot] = HostPreference((member.node,), binding=binding)
        where = self._hosts_of(preferences)
        order = sorted(self.active, key=lambda slot: slot not in self._members)
        yield self._rules.move(self.placement, sorted(order[:places]), where, self.loads), preferences
        fresh = self._rules.place(places, self.loads)
        if fresh is not None:
            of_slot = dict(zip(sorted(order[:places]), fresh, strict=True))
            placement = tuple(of_slot.get(slot, ()) for slot in range(len(self.placement)))
            yield placement, self._rules.host_preferences(placement, self._capacities, {})

    def worked(self, container: int, seconds: float) -> None:
        """A container has worked for so long on a window: what comes later goes by it, see `Spread`."""
        known = self.loads.setdefault(container, seconds)
        self.loads[container] = known + _NEWEST * (seconds - known)

    def window_ran(self) -> None:
        """All containers have run a window: no slot has failed in a row."""
        self._failures.forget_all()

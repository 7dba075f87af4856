"""STRAM's decisions about slots that run: what follows when one has joined, is lost, or has no core.

A slot is a long Spark task that hosts containers. No Spark, no sockets, no clock, no threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from ridgeline.plan.placement_rule import PlacementRule
from ridgeline.stram.patience import back_off
from ridgeline.stram.placement import HostCapacities, HostPreference, Placement, PlanRules, hosts_of
from ridgeline.stram.windows import IllegalTransitionError

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
    """End the job of a slot; another job follows. `hosts`: where it must be, and is not.

    None if that host does not answer.
    """

    slot: int
    hosts: tuple[str, ...] = ()


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


# Phases -----------------------------------------------------------------------------------------------------


class SlotPhase(Enum):
    """Where a slot stands."""

    FREE = "free"
    """It hosts nothing, and its jobs have ended: it can be started."""
    ASKED = "asked"
    """Spark is asked for it, and no process of that job has joined."""
    JOINED = "joined"
    """A process is the slot; it has no containers yet, or no more."""
    READY = "ready"
    """It is the spare, and can have any container at once."""
    HOSTING = "hosting"
    """It was sent its containers."""
    LOST = "lost"
    """Its process is gone. Spark's retry brings it back, or its job ends."""
    MOVING = "moving"
    """Its job is ended since it must be on another host; another job follows, which is no failure."""
    RETIRING = "retiring"
    """Its job is ended, and none follows."""


_THERE = frozenset({SlotPhase.JOINED, SlotPhase.READY, SlotPhase.HOSTING})
_GONE = frozenset({SlotPhase.LOST, SlotPhase.MOVING, SlotPhase.RETIRING})
SLOT_TRANSITIONS: Mapping[SlotPhase, frozenset[SlotPhase]] = {
    SlotPhase.FREE: frozenset({SlotPhase.ASKED, SlotPhase.JOINED}),  # a process may outlive its job
    SlotPhase.ASKED: frozenset({SlotPhase.JOINED, SlotPhase.FREE, SlotPhase.MOVING, SlotPhase.RETIRING}),
    SlotPhase.JOINED: frozenset({SlotPhase.READY, SlotPhase.HOSTING}) | _GONE,
    SlotPhase.READY: frozenset({SlotPhase.JOINED, SlotPhase.HOSTING}) | _GONE,
    SlotPhase.HOSTING: frozenset({SlotPhase.JOINED}) | _GONE,
    SlotPhase.LOST: frozenset(SlotPhase) - {SlotPhase.READY, SlotPhase.HOSTING},
    SlotPhase.MOVING: frozenset({SlotPhase.ASKED, SlotPhase.JOINED, SlotPhase.FREE, SlotPhase.RETIRING}),
    SlotPhase.RETIRING: frozenset({SlotPhase.FREE}),
}
"""The phases that may follow each phase. A process that joins may replace one that is there."""


@dataclass(slots=True)
class _Row:
    """One slot. Only `Slots` changes its `phase`.

    `wants`: where it should run, None if nothing is known. `asks`: how often Spark was asked for it on
    another host. `stays`: it was said that it stays on a wrong one. `joined`: it was there before. `jobs`:
    how many have ended; `failed`: so many in a row, the first one at `since`. `reason`: why it was lost the
    last time; `blamed`: that was an operator's code.
    """

    phase: SlotPhase = SlotPhase.FREE
    wants: HostPreference | None = None
    asks: int = 0
    stays: bool = False
    joined: bool = False
    jobs: int = 0
    failed: int = 0
    since: float = 0.0
    reason: str = ""
    blamed: bool = False


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
        self._rows = [_Row(SlotPhase.ASKED) for _ in placement]
        self._members: dict[int, Member] = {}
        """The processes of rows whose phases say that one is there."""
        self.placement = placement
        self.loads: dict[int, float] = {}
        """How many seconds each container works in a window, averaged."""
        self.spare = len(placement) - 1 if spare else None
        """The slot that is kept for what a late one hosts; None if there is none, or if it does not start."""
        self._stillborn = 0
        """How many jobs of the spare have ended since one was there."""
        self._rules = rules
        self.capacities = capacities
        """What hosts have, of those that answer."""
        self._prefer(rules.host_preferences(placement, capacities, {}))
        self._reported_rules: set[str] = set()
        """The relaxed rules that were given up."""
        self._known = {"", *capacities}
        """The hosts that preferences were made of."""
        self._recovery_attempts = recovery_attempts
        self._patience_seconds = patience_seconds

    # Who is there -------------------------------------------------------------------------------------------

    @property
    def placement(self) -> Placement:
        """The containers of each slot."""
        return self._placement

    @placement.setter
    def placement(self, placement: Placement) -> None:
        self._placement = placement
        self.active: Sequence[int] = [slot for slot, hosted in enumerate(placement) if hosted]
        """The slots that host containers: all but those that were retired."""
        self.home = {container: slot for slot, hosted in enumerate(placement) for container in hosted}
        """The slot of each container."""
        self._absent = set(self.active) - self._members.keys()

    def _enter(self, slot: int, phase: SlotPhase, member: Member | None = None) -> None:
        """A slot is in another phase. Raises IllegalTransitionError if that cannot follow.

        `member`: the process that has joined.
        """
        row = self._rows[slot]
        if phase is not row.phase and phase not in SLOT_TRANSITIONS[row.phase]:
            raise IllegalTransitionError(f"slot {slot}", row.phase, phase, row.reason or "as STRAM decided")
        row.phase = phase
        if member is not None:
            self._members[slot] = member
        elif phase not in _THERE:
            self._members.pop(slot, None)
        if slot in self._members or not self._placement[slot]:
            self._absent.discard(slot)
        else:
            self._absent.add(slot)

    def _in(self, *phases: SlotPhase) -> list[int]:
        """The slots in one of these phases."""
        return [slot for slot, row in enumerate(self._rows) if row.phase in phases]

    def _wants(self, slot: int) -> HostPreference:
        return self._rows[slot].wants or HostPreference()

    @property
    def _preferences(self) -> dict[int, HostPreference]:
        """Where slots should run of which that is known."""
        return {slot: row.wants for slot, row in enumerate(self._rows) if row.wants is not None}

    def _prefer(self, preferences: Mapping[int, HostPreference]) -> None:
        for slot, preference in preferences.items():
            self._rows[slot].wants = preference

    @property
    def members(self) -> Mapping[int, Member]:
        """The slots that are there, by number; a read-only view."""
        return MappingProxyType(self._members)

    @property
    def hosts(self) -> dict[int, str]:
        """Where the slots are, by Spark's names, as far as these are known. From any thread."""
        return {slot: member.node for slot, member in dict(self._members).items() if member.node}

    @property
    def missing(self) -> Sequence[int]:
        """The slots that are not there, without those that were retired."""
        return sorted(self._absent)

    @property
    def complete(self) -> bool:
        """True while no slot is missing: asked at each step, so the number of slots must not matter."""
        return not self._absent

    # Another plan -------------------------------------------------------------------------------------------

    def numbers(self, count: int) -> Sequence[int]:
        """The numbers of so many slots that could be started beside those that there are."""
        known = self._in(SlotPhase.FREE)[:count]
        return [*known, *range(len(self._rows), len(self._rows) + count - len(known))]

    def reserve(
        self, numbers: Sequence[int], preferences: Mapping[int, HostPreference]
    ) -> Sequence[SlotInstruction]:
        """Start slots of these `numbers`, which host nothing before `change`."""
        self._know(max(numbers, default=-1) + 1)
        for slot in numbers:
            row = self._rows[slot]
            row.asks = row.failed = 0
            row.wants = preferences.get(slot, HostPreference())
        return [self._start(slot) for slot in numbers]

    def _know(self, count: int) -> None:
        """There are so many numbers; those that are new are of slots that were never started."""
        self._rows.extend(_Row() for _ in range(len(self._rows), count))
        self.placement = (*self.placement, *((),) * (count - len(self.placement)))

    def give_back(self, numbers: Sequence[int]) -> Sequence[SlotInstruction]:
        """End slots that were reserved, and are not needed after all. The others do not notice."""
        return self._retire([slot for slot in numbers if not self.placement[slot]])

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
        self._know(len(placement))
        self._prefer(preferences)
        self.placement, self._rules = placement, rules
        self.loads = {one: self.loads[one] for hosted in placement for one in hosted if one in self.loads}
        if recovery_attempts is not None:
            self._recovery_attempts = recovery_attempts
        self._unready()
        empty = [slot for slot, hosted in enumerate(placement) if not hosted and slot != self.spare]
        retired = self._retire(empty)
        started = [self._start(slot) for slot in self._in(SlotPhase.FREE) if placement[slot]]
        return *retired, *started, *self._assign()

    # The spare ----------------------------------------------------------------------------------------------

    @property
    def spare_is_ready(self) -> bool:
        """True if there is a spare that can have any container at once."""
        return self.spare is not None and self._rows[self.spare].phase is SlotPhase.READY

    def ready(self) -> None:
        """The spare has read the plan."""
        if self.spare is not None:
            self._enter(self.spare, SlotPhase.READY)

    def _unready(self) -> None:
        """What the spare has read is out of date."""
        if self.spare is not None and self.spare_is_ready:
            self._enter(self.spare, SlotPhase.JOINED)

    def swap_with_spare(self, late: int) -> Sequence[SlotInstruction]:
        """The spare hosts what a slot does from now on, and that one is the spare.

        Nothing follows if the spare is not there, or is where the slot's containers must not be.
        """
        spare = self.spare
        member = None if spare is None else self._members.get(spare)
        preference = self._wants(late)
        if spare is None or member is None or (preference.binding and member.node not in preference.hosts):
            return ()
        placement = list(self.placement)
        placement[spare], placement[late] = placement[late], ()
        where = {slot: one.node for slot, one in self._members.items() if placement[slot]}
        if self._strict(tuple(placement), where):
            return ()
        self.placement, self.spare = tuple(placement), late
        here = HostPreference((member.node,) if member.node else ())
        self._rows[spare].wants, self._rows[late].wants = preference if preference.binding else here, None
        if late in self._members:
            self._enter(late, SlotPhase.JOINED)
        return EmptySlot(late), *self._assign()

    def _retire(self, slots: Sequence[int], *, orderly: bool = True) -> Sequence[RetireSlot]:
        """End those of these slots that have a job."""
        ended = {SlotPhase.FREE, SlotPhase.RETIRING}
        retired = [slot for slot in slots if self._rows[slot].phase not in ended]
        for slot in retired:
            self._enter(slot, SlotPhase.RETIRING)
            self._rows[slot].wants = None
        return [RetireSlot(slot, orderly) for slot in retired]

    def start(self) -> Sequence[SlotInstruction]:
        """The run begins."""
        return [self._start(slot) for slot in range(len(self.placement))]

    def joined(self, slot: int, member: Member) -> Sequence[SlotInstruction]:
        """A process has joined as this slot; it replaces one that was there."""
        self._enter(slot, SlotPhase.JOINED, member)
        self._rows[slot].joined = True
        self._stillborn = 0 if slot == self.spare else self._stillborn
        return self._assign() if self.placement[slot] else ()

    def _assign(self) -> Sequence[SlotInstruction]:
        """The instructions once all slots are there."""
        if not self.complete:
            return ()
        if self._to_move() or any(one.node not in self._known for one in self._members.values()):
            return (AskHosts(),)
        return self._send_assignments()

    def hosts_changed(self, capacities: HostCapacities) -> Sequence[SlotInstruction]:
        """The answer to `AskHosts`. Slots that must be on hosts that are gone get others.

        Slots that are on the wrong host are moved, unless Spark was asked often enough.
        """
        self.capacities = capacities
        homeless = [slot for slot in self.active if self._is_homeless(slot)]
        if homeless:
            self._prefer_again(homeless)
        self._known.update(capacities, (member.node for member in self._members.values()))
        moved = self._to_move()
        for slot in moved:
            self._rows[slot].asks += 1
            self._enter(slot, SlotPhase.MOVING)
        if moved:
            return [MoveSlot(slot, self._wants(slot).hosts) for slot in moved]
        return () if self.missing else self._send_assignments()

    def _is_homeless(self, slot: int) -> bool:
        """True if a slot has no preference, or must be on hosts that are all gone."""
        preference = self._rows[slot].wants
        return preference is None or (
            preference.binding and not self.capacities.keys() & set(preference.hosts)
        )

    def _prefer_again(self, homeless: Sequence[int]) -> None:
        """Wishes for slots without a host; if strict rules need it, for others, too. Else they wait."""
        without = set(homeless)
        others = [slot for slot in self.active if slot not in without]
        stay = {slot: self._host_of(slot) for slot in others if self._wants(slot).binding}
        new = self._rules.host_preferences(self.placement, self.capacities, stay)
        moved = [slot for slot in stay if slot in new and new[slot].hosts[0] != stay[slot]]
        again = {slot: new.get(slot, HostPreference()) for slot in (*homeless, *moved)}
        where = hosts_of(self.placement, self._preferences | again, self.capacities)
        if not self._strict(self.placement, where):
            self._prefer(again)
            return
        for slot in homeless:
            row = self._rows[slot]
            if row.wants is None or row.asks >= _ASKS:
                row.wants = again[slot]

    def _host_of(self, slot: int) -> str:
        """The host of a slot that must be on some: where it is, if that is one of them."""
        member, hosts = self._members.get(slot), self._wants(slot).hosts
        return member.node if member is not None and member.node in hosts else hosts[0]

    def _strict(self, placement: Placement, where: Mapping[int, str]) -> Sequence[PlacementRule]:
        return self._rules.strict_broken(placement, where, self.capacities)

    def _strays(self) -> Sequence[int]:
        """The slots that are on another host than they must be."""
        preferences = ((slot, member, self._wants(slot)) for slot, member in self._members.items())
        return [
            slot
            for slot, member, preference in preferences
            if preference.binding and member.node not in preference.hosts
        ]

    def _to_move(self) -> Sequence[int]:
        """Those of them that Spark is to be asked for again."""
        return [slot for slot in self._strays() if self._rows[slot].asks < _ASKS]

    def _send_assignments(self) -> Sequence[SlotInstruction]:
        """All slots are there. Those without a preference stay where they are; strays are reported once.

        A strict rule that is broken now is the end; relaxed ones are reported once.
        """
        given_up = self._give_up()
        if any(not one.rule.relax for one in given_up):
            return given_up
        strays, misplaced = set(self._strays()), []
        for slot, member in self._members.items():
            row = self._rows[slot]
            if member.node and not self._wants(slot).binding:
                row.wants = HostPreference((member.node,))
            if slot not in strays:
                row.asks = 0
            elif not row.stays:
                row.stays = True
                misplaced.append(Misplaced(slot, member.host, self._wants(slot).hosts))
        for slot in self.active:
            self._enter(slot, SlotPhase.HOSTING)
        return *misplaced, *given_up, SendAssignments()

    def _give_up(self) -> Sequence[GiveUpRule]:
        """The instructions on rules that are broken where slots are: strict ones alone, or relaxed ones."""
        broken = [
            rule
            for rule in self._rules.broken(self.placement, self.hosts, self.capacities)
            if rule.name not in self._reported_rules
        ]
        broken = [rule for rule in broken if not rule.relax] or broken
        self._reported_rules.update(rule.name for rule in broken)
        hosts = tuple(sorted(set(self.hosts.values())))
        return [GiveUpRule(rule, hosts, len(self.active)) for rule in broken]

    def has_joined_before(self, slot: int) -> bool:
        """True if the slot was there before: it is a restart."""
        return self._rows[slot].joined

    def lost(self, slot: int, reason: str, *, blamed: bool = False) -> Member | None:
        """The connection to a slot is lost; Spark's retry brings it back, or its job ends.

        Returns what it was, None if it was not there. `blamed`: an operator's code is the reason.
        """
        row, member = self._rows[slot], self._members.get(slot)
        row.reason, row.blamed = reason, blamed
        if member is not None:
            self._enter(slot, SlotPhase.LOST)
        return member

    def job_ended(self, slot: int, reason: str, now: float = 0.0) -> Sequence[SlotInstruction]:
        """Spark's job of a slot has ended; the process, if there still is one, does not count any more.

        Nothing follows for a slot that was retired. `now`: a monotonic clock.
        """
        row = self._rows[slot]
        row.jobs += 1
        if slot in self._members:
            self._enter(slot, SlotPhase.LOST)
        if slot == self.spare:
            return self._spare_ended(slot)
        if not self.placement[slot]:
            self._enter(slot, SlotPhase.FREE)
            return ()
        if row.phase is SlotPhase.MOVING:
            return (self._start(slot),)
        row.since = row.since if row.failed else now
        row.failed += 1
        lasts = row.blamed or now - row.since >= self._patience_seconds
        if row.failed > self._recovery_attempts and lasts:
            return (GiveUpSlot(slot, reason or row.reason, row.failed),)
        return (replace(self._start(slot), wait_seconds=back_off(row.failed)),)

    def _spare_ended(self, slot: int) -> Sequence[SlotInstruction]:
        """Start the spare again, unless it never gets as far as to join."""
        self._stillborn += 1
        if self._stillborn > self._recovery_attempts:
            self.spare = None
            self._enter(slot, SlotPhase.FREE)
            return ()
        return (self._start(slot),)

    def _start(self, slot: int) -> StartSlot:
        self._enter(slot, SlotPhase.ASKED)
        return StartSlot(slot, self._rows[slot].jobs, self._wants(slot).hosts)

    def elsewhere(self) -> Sequence[SlotInstruction]:
        """The slots that are missing are started on the hosts of now; where they were, nothing answers."""
        missing = self.missing
        homeless = [slot for slot in missing if self._is_homeless(slot)]
        if homeless:
            self._prefer_again(homeless)
        for slot in missing:
            if not self._wants(slot).binding:
                self._rows[slot].wants = HostPreference(tuple(self.capacities))
            self._enter(slot, SlotPhase.MOVING)
        return [MoveSlot(slot) for slot in missing]

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
            strict = self._strict(placement, hosts_of(placement, preferences, self.capacities))
            if not strict:
                break
        else:
            return [GiveUpRule(rule, tuple(sorted(self.capacities)), places) for rule in strict]
        fewer = [slot for slot in self.active if not placement[slot]]
        self.placement = placement
        for slot, row in enumerate(self._rows):
            row.wants = preferences.get(slot)
        self._unready()
        return *self._retire(fewer, orderly=False), *self._assign()

    def _arrangements(self, places: int) -> Iterator[tuple[Placement, Mapping[int, HostPreference]]]:
        """Placements in so many slots, with the hosts of these: first those that move the fewest."""
        preferences = dict(self._preferences)
        for slot, member in self._members.items():
            if member.node:
                preferences[slot] = HostPreference((member.node,), binding=self._wants(slot).binding)
        where = hosts_of(self.placement, preferences, self.capacities)
        order = sorted(self.active, key=lambda slot: slot not in self._members)
        yield self._rules.move(self.placement, sorted(order[:places]), where, self.loads), preferences
        fresh = self._rules.place(places, self.loads, self.capacities)
        if fresh is not None:
            of_slot = dict(zip(sorted(order[:places]), fresh, strict=True))
            placement = tuple(of_slot.get(slot, ()) for slot in range(len(self.placement)))
            yield placement, self._rules.host_preferences(placement, self.capacities, {})

    def worked(self, container: int, seconds: float) -> None:
        """A container has worked for so long on a window: what comes later goes by it, see `Spread`."""
        known = self.loads.setdefault(container, seconds)
        self.loads[container] = known + _NEWEST * (seconds - known)

    def window_ran(self) -> None:
        """All containers have run a window: no slot has failed in a row."""
        for row in self._rows:
            row.failed = 0

"""STRAM's decisions about slots that run: what follows when one has joined, is lost, or has no core.

A slot is a long Spark task that hosts containers. No Spark, no sockets, no clock, no threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ridgeline.stram.placement import Offers, Placement, Wish

_ASKS = 3
"""How often Spark is asked again for a slot on another host."""

# Instructions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartSlot:
    """Submit a Spark job for this slot. `job` counts the slot's jobs from 0.

    `hosts`: where it should run, by Spark's names; none: anywhere.
    """

    slot: int
    job: int
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AskHosts:
    """Say to `offered` what hosts there are: slots run on hosts where they should not, or on new ones."""


@dataclass(frozen=True, slots=True)
class MoveSlot:
    """End the job of a slot that must be on one of `hosts`, and is not; another job follows."""

    slot: int
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Spark has put a slot onto another host than `hosts` each time: it goes on there."""

    slot: int
    host: str
    hosts: tuple[str, ...]


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


SlotInstruction = StartSlot | Introduce | GiveUpSlot | RetireSlot | AskHosts | MoveSlot | Misplaced


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
    up (or the task has left), and a new job is asked for. `recovery_attempts` is how many new jobs a slot
    gets until all have run a window. A slot that comes back should be on the host where it was, so that its
    containers find their state in the caches there.

    `wish(placement, offers)` says where slots should run, see `placement.wishes`; `offers`: what hosts have.
    """

    def __init__(
        self,
        placement: Placement,
        recovery_attempts: int,
        wish: Callable[[Placement, Offers], Mapping[int, Wish]] = lambda _placement, _offers: {},
        offers: Offers = MappingProxyType({}),
    ) -> None:
        self.placement = placement
        self._wish = wish
        self._wishes = dict(wish(placement, offers))
        self._asks = [0] * len(placement)
        self._moving: set[int] = set()
        self._misplaced: set[int] = set()
        self._known = {"", *offers}
        """The hosts that wishes know of."""
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
        return [self._start(slot) for slot in range(len(self.placement))]

    def joined(self, slot: int, member: Member) -> Sequence[SlotInstruction]:
        """A process has joined as this slot; it replaces one that was there."""
        self._members[slot] = member
        self._ever_joined.add(slot)
        if self.missing:
            return ()
        asked = [slot for slot in self._strays() if self._asks[slot] < _ASKS]
        if asked or any(one.node not in self._known for one in self._members.values()):
            return (AskHosts(),)
        return self._introduce()

    def offered(self, offers: Offers) -> Sequence[SlotInstruction]:
        """The answer to `AskHosts`. Slots that must be on hosts that are gone get others.

        Slots that are on the wrong host are moved, unless Spark was asked often enough.
        """
        wishes = self._wish(self.placement, offers)
        for slot in self.active:
            wish = self._wishes.get(slot)
            if wish is None or (wish.binding and not offers.keys() & set(wish.hosts)):
                self._wishes[slot] = wishes.get(slot, Wish())
        self._known.update(offers, (member.node for member in self._members.values()))
        moved = [slot for slot in self._strays() if self._asks[slot] < _ASKS]
        for slot in moved:
            self._asks[slot] += 1
            self._moving.add(slot)
            del self._members[slot]
        if moved:
            return [MoveSlot(slot, self._wishes[slot].hosts) for slot in moved]
        return () if self.missing else self._introduce()

    def _strays(self) -> Sequence[int]:
        """The slots that are on another host than they must be."""
        wishes = ((slot, member, self._wishes.get(slot, Wish())) for slot, member in self._members.items())
        return [slot for slot, member, wish in wishes if wish.binding and member.node not in wish.hosts]

    def _introduce(self) -> Sequence[SlotInstruction]:
        """All slots are there. Those without a wish stay where they are; strays are told of once."""
        for slot, member in self._members.items():
            if member.node and not self._wishes.get(slot, Wish()).binding:
                self._wishes[slot] = Wish((member.node,))
        told = [slot for slot in self._strays() if slot not in self._misplaced]
        self._misplaced.update(told)
        misplaced = [Misplaced(slot, self._members[slot].host, self._wishes[slot].hosts) for slot in told]
        return *misplaced, Introduce()

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
        if slot in self._moving:
            self._moving.discard(slot)
            return (self._start(slot),)
        self._failed_jobs[slot] += 1
        if self._failed_jobs[slot] > self._recovery_attempts:
            return (GiveUpSlot(slot, reason or self._reasons[slot], self._failed_jobs[slot]),)
        return (self._start(slot),)

    def _start(self, slot: int) -> StartSlot:
        return StartSlot(slot, self._jobs[slot], self._wishes.get(slot, Wish()).hosts)

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
        return *map(RetireSlot, retired), *(() if self.missing else self._introduce())

    def window_ran(self) -> None:
        """All containers have run a window: no slot has failed in a row."""
        for slot in range(len(self._failed_jobs)):
            self._failed_jobs[slot] = 0

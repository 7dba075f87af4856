"""The attempts at windows that a slot knows, which of them are over, and when the slot worked meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ridgeline.api.clock import Clock
from ridgeline.engine.container.feed import Feeding
from ridgeline.engine.exchange.block import Message
from ridgeline.plan.container_spec import ContainerSpec

NOT_READY = -1
_STRETCHES = 4
"""How many stretches of work are reported with a window, the last ones."""
_SHORTEST_SECONDS = 200e-6
"""Work that is shorter delays nothing, and a rest that is shorter counts as work."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt at a window, as far as this slot knows it.

    `came`: when STRAM had begun it and all producers of a set had ended, by the set's number. With it, when
    the slot had worked before that, as in `ContainerWindow.busy`.

    `position` counts the attempts that STRAM has begun here; `NOT_READY` before. `ended`: the tags of all
    producers that have ended. `missing`: how many producers each set still lacks, by its number in
    `Wiring.inputs`. `unfed`: the same for `Wiring.outputs`. `unsent`: the END_WINDOW not yet sent, by slot.
    `left`: containers still to run. `feedings`: what has come for containers of Spark sources. `lacking`: the
    tasks whose rows each of these lacks.
    """

    window_id: int
    number: int
    position: int = NOT_READY
    inboxes: dict[int, list[Message]] = field(default_factory=dict)
    ended: dict[int, str] = field(default_factory=dict)
    missing: list[int] = field(default_factory=list)
    came: list[tuple[float, tuple[float, ...]]] = field(default_factory=list)
    unfed: list[int] = field(default_factory=list)
    unsent: dict[int, dict[int, str]] = field(default_factory=dict)
    left: int = 0
    feedings: dict[int, Feeding] = field(default_factory=dict)
    lacking: dict[int, set[int]] = field(default_factory=dict)


class Attempts:
    """The attempts that are not over, of which anything has come; iterate over them."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, Attempt]] = {}
        """By window and number."""
        self._over: dict[int, int] = {}
        """The last attempt at each window that is over."""
        self._least = 0
        """Windows before are over for good."""

    def __iter__(self) -> Iterator[Attempt]:
        """Those that are known, window by window."""
        return (attempt for attempts in self._known.values() for attempt in attempts.values())

    def find(self, window_id: int, number: int) -> Attempt | None:
        """An attempt, made if it is new; None if it is over."""
        if window_id < self._least or number <= self._over.get(window_id, -1):
            return None
        attempts = self._known.setdefault(window_id, {})
        # Blocks may come before STRAM's message: each sender has its own connection.
        if number not in attempts:
            attempts[number] = Attempt(window_id, number)
        return attempts[number]

    def end(self, window_id: int, last: int) -> None:
        """The attempts at a window up to this one are over."""
        if last > self._over.get(window_id, -1):
            self._over[window_id] = last
            known = self._known.get(window_id, {})
            for number in [number for number in known if number <= last]:
                del known[number]
            if not known:
                self._known.pop(window_id, None)

    def forget(self, window_id: int) -> None:
        """All windows up to this one are over for good."""
        self._least = max(self._least, window_id + 1)
        for kept in (self._known, self._over):
            for window in [window for window in kept if window < self._least]:
                del kept[window]


class BusyTimes:
    """The last stretches of time in which a slot worked without a rest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stretches: deque[tuple[float, float]] = deque(maxlen=_STRETCHES)
        """Begin and end (monotonic clock)."""
        self._since: float | None = clock.monotonic()
        """When the one that lasts began; None during a rest."""

    def rest(self) -> None:
        """There is nothing to do: the slot waits for its connections."""
        if self._since is not None:
            now = self._clock.monotonic()
            if now - self._since >= _SHORTEST_SECONDS:
                self._stretches.append((self._since, now))
            self._since = None

    def resume(self) -> None:
        """Something may have come: until the next rest nothing reads the connections in time."""
        if self._since is None:
            now = self._since = self._clock.monotonic()
            if self._stretches and now - self._stretches[-1][1] < _SHORTEST_SECONDS:
                self._since = self._stretches.pop()[0]

    def arrival(self) -> tuple[float, tuple[float, ...]]:
        """Now by the wall clock, and the stretches of work before that, as in `ContainerWindow.busy`."""
        now, found = self._clock.monotonic(), list(self._stretches)
        if self._since is not None and now - self._since >= _SHORTEST_SECONDS:
            found.append((self._since, now))
        return self._clock.wall(), tuple(now - time for stretch in found[-_STRETCHES:] for time in stretch)


# Which containers of a slot wait for the same producers, and which slots wait for the same containers.
#
# Where all partitions send to all, one count a window stands for all containers of a stage.


@dataclass(slots=True)
class Groups:
    """Sets of producers, each with what waits for all of them; sets are numbered.

    `sizes`: how many producers each has. `of`: the sets that a producer belongs to.
    """

    sizes: list[int] = field(default_factory=list)
    of: dict[int, list[int]] = field(default_factory=dict)

    def add(self, producers: Collection[int]) -> int:
        """Number a set of producers."""
        number = len(self.sizes)
        self.sizes.append(len(producers))
        for producer in producers:
            self.of.setdefault(producer, []).append(number)
        return number


class Wiring:
    """The streams of a slot's containers, within it and to and from other slots.

    `inputs`: the sets of producers that containers of the slot wait for. `waiting`: these containers, by the
    set's number. `input_of`: the number, by container. `outputs`: the sets of containers of this slot that
    containers of another one wait for. `slot_of`: that slot, by the set's number. `targets`: the other slots
    that a container sends to. `partners`: all slots that send here or are sent to.
    """

    def __init__(self, slot: int, specs: Mapping[int, ContainerSpec], slots: Mapping[int, int]) -> None:
        """`specs`: of the slot's containers. `slots`: the slot of all that they exchange blocks with."""
        self.inputs, self.waiting, self.input_of = Groups(), list[list[int]](), dict[int, int]()
        numbers: dict[frozenset[int], int] = {}
        for spec in specs.values():
            if spec.producers not in numbers:
                numbers[spec.producers] = self.inputs.add(spec.producers)
                self.waiting.append([])
            self.input_of[spec.id] = numbers[spec.producers]
            self.waiting[numbers[spec.producers]].append(spec.id)
        self.outputs, self.slot_of = Groups(), list[int]()
        self.targets: dict[int, Sequence[int]] = {}
        feeding: dict[int, list[int]] = {}
        for spec in specs.values():
            remote = [consumer for consumer in spec.consumers if slots[consumer] != slot]
            self.targets[spec.id] = sorted({slots[consumer] for consumer in remote})
            for consumer in remote:
                feeding.setdefault(consumer, []).append(spec.id)
        for target, producers in sorted({(slots[to], tuple(sorted(of))) for to, of in feeding.items()}):
            self.outputs.add(producers)
            self.slot_of.append(target)
        exchanged = {other for spec in specs.values() for other in spec.consumers | spec.producers}
        self.partners = {slots[container] for container in exchanged} - {slot}

"""Which hosts of slots can be reached: those that are silent, and those that are cut off."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ridgeline.api.clock import Clock
from ridgeline.engine.driver.watchdog import Process
from ridgeline.measure.events import RunEvent
from ridgeline.measure.slot_events import SlotSilent
from ridgeline.stram.slots import Member

_FORGOTTEN_SECONDS = 120.0
"""So long a host counts as cut off if nothing more is heard of it: Spark itself removes it by then."""
_LOOK_SECONDS = 0.5


class Reach:
    """What is known of the hosts of slots. The thread of windows calls all but `processes`.

    `limit_seconds`: after so long a silent host is lost. `observe` gets `SlotSilent`.
    """

    def __init__(self, limit_seconds: float, clock: Clock, observe: Callable[[RunEvent], None]) -> None:
        self._limit_seconds = limit_seconds
        self._clock = clock
        self._observe = observe
        self._silent: dict[int, tuple[Member, float]] = {}
        """The slots whose hosts do not answer, and since when (monotonic)."""
        self._cut: dict[str, float] = {}
        self._look_at = 0.0
        self.processes: Collection[Process] = frozenset()
        """Those on hosts that do not answer: they may do well. From any thread."""

    @property
    def hosts(self) -> Collection[str]:
        """The hosts that are cut off, by Spark's names."""
        now = self._clock.monotonic()
        self._cut = {node: at for node, at in self._cut.items() if now - at < _FORGOTTEN_SECONDS}
        return set(self._cut)

    def look(self, members: Mapping[int, Member], silent_seconds: Callable[[int], float]) -> None:
        """See which hosts do not answer, and which do again; `silent_seconds`: of a slot."""
        now = self._clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_SECONDS
        for slot, member in members.items():
            seconds, known = silent_seconds(slot), self._silent.get(slot)
            if seconds and known is None:
                self._silent[slot] = member, now - seconds
                self._report(slot, member, seconds)
            elif known is not None and known[0] != member:
                del self._silent[slot]
            elif known is not None and not seconds:
                del self._silent[slot]
                self._report(slot, member, now - known[1], again=True)
        self.processes = frozenset((one.host, one.pid) for one, _ in self._silent.values())

    def lost(self, slot: int, member: Member, *, cut: bool) -> None:
        """A slot is lost; `cut`: since its host does not answer."""
        silent = self._silent.pop(slot, None) is not None
        if (cut or silent) and member.node:
            self._cut[member.node] = self._clock.monotonic()

    def found(self, node: str) -> None:
        """A process of a host was heard of."""
        self._cut.pop(node, None)

    def _report(self, slot: int, member: Member, seconds: float, *, again: bool = False) -> None:
        where = member.host, member.pid
        self._observe(SlotSilent(self._clock.wall(), slot, *where, seconds, self._limit_seconds, again))

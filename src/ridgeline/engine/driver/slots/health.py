"""The health of slots: heartbeats, hangs, silent hosts, deaths, and slots that others cannot reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ridgeline.api.clock import Clock
from ridgeline.api.errors import Failure
from ridgeline.engine.driver.heartbeats import Heartbeats
from ridgeline.engine.driver.slots.contents import SlotContents
from ridgeline.engine.driver.slots.deaths import Deaths
from ridgeline.engine.driver.slots.group import SlotGone, SlotGroup
from ridgeline.engine.driver.slots.reach import Reach
from ridgeline.engine.driver.slots.spark_slots import SlotPlatform
from ridgeline.engine.driver.watchdog import Hangs, Process, Stuck, Watchdog, Worker
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.slot.messages import Unreachable
from ridgeline.measure.events import RunEvent
from ridgeline.stram.slot_attempts import SlotAttempts
from ridgeline.stram.slots import Member

_CHECK_SECONDS = 1.0
SUSPICION_SECONDS = 1.0
"""How long it may take until STRAM, too, finds a slot lost that another one could not reach."""


class SlotHealth:
    """The thread of windows calls it, the watchdog's thread the private methods.

    `reach`: the hosts that can be reached. `watchdog`: finds containers that hang. `process_of`: host and
    process of a container's slot. `end_stuck` has Spark end a process that hangs. The watchdog's thread calls
    both.
    """

    def __init__(
        self,
        platform: SlotPlatform,
        contents: SlotContents,
        heartbeats: Heartbeats,
        clock: Clock,
        observe: Callable[[RunEvent], None],
        process_of: Callable[[int], Process | None],
        end_stuck: Callable[[Stuck], None],
    ) -> None:
        self._platform = platform
        self._contents = contents
        self._clock = clock
        self._check_at = 0.0
        self._deaths = Deaths(contents.application, contents.run_id)
        self._suspects: dict[Peer, tuple[float, Failure]] = {}
        """The slots that another one could not reach, and what it means if they are not lost in time."""
        self.heartbeats = heartbeats
        self.reach = Reach(platform.silent_seconds, clock, observe)
        hangs = Hangs(contents.plan, contents.run_id, process_of)
        self.watchdog = Watchdog(hangs, self._workers, end_stuck, clock)

    def _workers(self) -> Sequence[Worker]:
        """The workers that the watchdog looks at: not those whose hosts do not answer."""
        silent = self.reach.processes
        return [one for one in self.heartbeats.workers() if (one.beat.host, one.beat.pid) not in silent]

    def joined(self, member: Member) -> None:
        """A process is a slot from now on."""
        self.reach.found(member.node)
        self._deaths.came(member)

    def lost(self, event: SlotGone) -> None:
        """A process that was a slot is lost."""
        self.heartbeats.lost(event.slot)
        self.reach.lost(event.slot, event.member, cut=event.cut)

    def ended(self, member: Member) -> None:
        """A slot that hosted nothing has ended: it needs no reason."""
        self.watchdog.take(member.host, member.pid)
        self._deaths.left(member)

    def failure(self, event: SlotGone, attempts: SlotAttempts) -> Failure:
        """Why a slot is lost: what the watchdog found, the operator in turn, or what the process was."""
        slot, member, contents = event.slot, event.member, self._contents
        stuck = self.watchdog.take(member.host, member.pid)
        where = f"slot {slot} ({contents.names(slot)})"
        return stuck or self._deaths.why(
            member, event.reason, where, contents.operators, attempts.runs, ended=event.ended
        )

    def suspect(self, slot: int, message: Unreachable) -> None:
        """A slot cannot reach another one: it may be lost, as will show soon."""
        what = f"slot {slot} cannot reach slot {message.peer.slot}: {message.detail}"
        where = "the exchange between slots"
        failure = Failure(self._contents.application, "", 0, -1, where, what, cluster=True)
        self._suspects[message.peer] = self._clock.monotonic() + SUSPICION_SECONDS, failure

    def unreachable(self, group: SlotGroup, spare: int | None) -> Iterator[Failure]:
        """The failures of slots that another one could not reach, and that are not lost after a while."""
        now = self._clock.monotonic()
        for peer, (due, failure) in list(self._suspects.items()):
            if not group.has(peer) or peer.slot == spare:
                del self._suspects[peer]  # it is lost, as is known by now
            elif now >= due:
                del self._suspects[peer]
                yield failure

    def check(self, *, rows_come: bool) -> None:
        """Look after Spark once a second, and after hangs. Raises SparkGoneError."""
        now = self._clock.monotonic()
        if now >= self._check_at:
            self._check_at = now + _CHECK_SECONDS
            self._platform.check_alive()
        self.watchdog.all_read(rows_come=rows_come)

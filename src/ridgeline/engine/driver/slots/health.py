"""The health of slots: heartbeats, hangs, silent hosts, deaths, and slots that others cannot reach."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from ridgeline.api.clock import Clock
from ridgeline.api.errors import Failure
from ridgeline.api.support.files import STORE_SECONDS
from ridgeline.api.support.masking import mask_text
from ridgeline.engine.driver.heartbeats import Heartbeats
from ridgeline.engine.driver.slots.contents import SlotContents
from ridgeline.engine.driver.slots.group import SlotGone, SlotGroup
from ridgeline.engine.driver.slots.spark_slots import SparkSlots
from ridgeline.engine.driver.watchdog import Hangs, Process, Stuck, Watchdog, Worker
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.process import stacks
from ridgeline.engine.process.black_box import Death, death_of, turn_of
from ridgeline.engine.slot.messages import Unreachable
from ridgeline.measure.events import RunEvent, StateWarning
from ridgeline.measure.slot_events import SlotSilent, StoreSilent
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import EXCHANGE, STORE, is_of_store
from ridgeline.stram.slot_attempts import SlotAttempts
from ridgeline.stram.slots import Member

# Why a slot is lost: the operator in turn in its process, or what is known of the process.

_HOST = socket.gethostname()
_KEPT = 8
_ENDED = "ZXx"
"""The states of processes that have ended, as Linux writes them."""
_EXITING = 0x4
"""The flag of a process that is ending: what it had is closed, as its children notice sooner than we."""


class Lineage(NamedTuple):
    """The processes of this host that a worker lives by: its daemon, and the daemon's own parent, Spark."""

    daemon: int
    executor: int

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """That of a worker that is there; None if the operating system does not say."""
        daemon = _parent(pid)
        executor = None if daemon is None else _parent(daemon)
        return None if daemon is None or executor is None else cls(daemon, executor)

    def lost(self) -> str:
        """Which of both has ended, for people; "" if none has."""
        if _parent(self.executor) is None:
            return f"its executor, process {self.executor}, has died"
        if _parent(self.daemon) != self.executor:  # that number may be another process's by now
            return f"its daemon of Python, process {self.daemon}, has died"
        return ""


def _parent(pid: int) -> int | None:
    """The parent of a process that runs; None if it does not, or if this is not Linux."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    ends = fields[0] in _ENDED or int(fields[6]) & _EXITING
    return None if ends else int(fields[1])


class Deaths:
    """The last deaths of processes on this host, with the operators in whose turns they died.

    A worker that dies with its executor or daemon has not died of its operator.
    """

    def __init__(self, application: str, run_id: str) -> None:
        self._application = application
        self._run_id = run_id
        self._deaths: deque[Death] = deque(maxlen=_KEPT)
        self._lineages: dict[int, Lineage | None] = {}

    def came(self, member: Member) -> None:
        """A process is a slot from now on."""
        if member.host == _HOST:
            self._lineages[member.pid] = Lineage.of(member.pid)

    def left(self, member: Member) -> None:
        """A slot that hosts nothing any more has ended, for no matter what reason."""
        self._lineages.pop(member.pid, None)

    def why(
        self,
        member: Member,
        reason: str,
        where: str,
        operators: Mapping[int, PhysicalOperator],
        runs: Callable[[int, int], bool],
        *,
        ended: bool,
    ) -> Failure:
        """Why a slot is lost. `ended`: its process died. `runs(window, attempt)`: this one is in flight."""
        lineage = self._lineages.pop(member.pid, None)
        lost = lineage.lost() if ended and lineage is not None else ""
        turn = turn_of(member.pid) if ended and member.host == _HOST else None
        if turn is not None and not lost and turn.run_id == self._run_id and runs(*turn[1:3]):
            self._deaths.append(Death(member.pid, turn, stacks.last_words(member.pid)))
            place = turn.window_id, turn.operator
            alike = [death for death in self._deaths if (death.turn.window_id, death.turn.operator) == place]
            return death_of(self._application, operators[turn.operator], turn.window_id, alike)
        process = f"its process {member.pid} on `{member.host}`"
        how = "killed (is the host out of memory?), or ended by `os._exit` or a crash in native code"
        how = lost or f"it was {how}"
        what = f"{process} died: {how}; {reason}" if ended else f"{process} was given up: {reason}"
        return Failure(self._application, "", 0, -1, where, what, cluster=True)


_CHECK_SECONDS = 1.0
SUSPICION_SECONDS = 1.0
"""How long it may take until STRAM, too, finds a slot lost that another one could not reach."""
_FORGOTTEN_SECONDS = 120.0
"""How long a host counts as cut off from which nothing comes: Spark itself removes it by then."""
_LOOK_SECONDS = 0.5


class Reach:
    """Which hosts of slots can be reached. The thread of windows calls all but `processes`.

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
        """A process of a host has sent something."""
        self._cut.pop(node, None)

    def _report(self, slot: int, member: Member, seconds: float, *, again: bool = False) -> None:
        where = member.host, member.pid
        self._observe(SlotSilent(self._clock.wall(), slot, *where, seconds, self._limit_seconds, again))


class SlotHealth:
    """The thread of windows calls it, the watchdog's thread the private methods.

    `reach`: the hosts that can be reached. `watchdog`: finds containers that hang. `end_stuck` has Spark end
    a process that hangs; the watchdog's thread calls it.
    """

    def __init__(
        self,
        platform: SparkSlots,
        contents: SlotContents,
        attempts: SlotAttempts,
        heartbeats: Heartbeats,
        clock: Clock,
        observe: Callable[[RunEvent], None],
        end_stuck: Callable[[Stuck], None],
    ) -> None:
        self._platform = platform
        self._contents = contents
        self._clock = clock
        self._check_at = 0.0
        self._observe = observe
        self._deaths = Deaths(contents.application, contents.run_id)
        self._suspects: dict[Peer, tuple[float, Failure]] = {}
        """The slots that another one could not reach, and what it means if they are not lost in time."""
        self.heartbeats = heartbeats
        self.reach = Reach(platform.silent_seconds, clock, observe)
        # Last: its thread calls `_workers` at once.
        self.watchdog = Watchdog(self._hangs(attempts), self._workers, end_stuck, clock, self._say)

    def _hangs(self, attempts: SlotAttempts) -> Hangs:
        contents = self._contents
        return Hangs(contents.plan, contents.run_id, attempts, contents.process_of, hears=contents.hears)

    def follow(self, attempts: SlotAttempts) -> None:
        """Other containers live in the slots from now on: these attempts are theirs."""
        self.watchdog.watch(self._hangs(attempts))

    def _say(self, operator: int, text: str) -> None:
        self._observe(StateWarning(self._clock.wall(), operator, text))

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

    def store_failed(self, member: Member | None, failure: Failure) -> None:
        """An attempt has failed in a slot; says so if a store did not answer there.

        It is that of the checkpoint, or that of an output's files.
        """
        if member is not None and is_of_store(failure):
            of_output = failure.callback != STORE
            place = "" if of_output else mask_text(self._contents.storage.uri)
            now, error, host = self._clock.wall(), failure.error, member.host
            output = failure.operator if of_output else ""
            self._observe(StoreSilent(now, place, STORE_SECONDS, error=error, host=host, output=output))

    def suspect(self, slot: int, message: Unreachable) -> None:
        """A slot cannot reach another one: it may be lost, as will show soon."""
        what = f"slot {slot} cannot reach slot {message.peer.slot}: {message.detail}"
        failure = Failure(self._contents.application, "", 0, -1, EXCHANGE, what, cluster=True)
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

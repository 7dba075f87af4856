"""The health of slots: heartbeats, hangs, silent hosts, deaths, and slots that others cannot reach."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
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
from ridgeline.engine.driver.watchdog import Hangs, Process, Stuck
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.process import stacks
from ridgeline.engine.process.black_box import Death, death_of, turn_of
from ridgeline.engine.slot.messages import Unreachable
from ridgeline.measure.events import RunEvent, StateWarning
from ridgeline.measure.slot_events import StoreSilent
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


class SlotHealth:
    """Who of the slots is well. The thread of windows calls all but `end`.

    `end_task` has Spark end the task that a process runs.
    """

    def __init__(
        self,
        platform: SparkSlots,
        contents: SlotContents,
        attempts: SlotAttempts,
        heartbeats: Heartbeats,
        clock: Clock,
        observe: Callable[[RunEvent], None],
        end_task: Callable[[Stuck], None],
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
        self._end_task = end_task
        self._ended: dict[Process, Failure] = {}
        """Why each process was ended, until its loss is seen."""
        self.follow(attempts)

    def follow(self, attempts: SlotAttempts) -> None:
        """Other containers live in the slots from now on: these attempts are theirs."""
        contents = self._contents
        self._hangs = Hangs(contents.plan, contents.run_id, attempts, contents.process_of)

    def joined(self, member: Member) -> None:
        """A process is a slot from now on."""
        self._deaths.came(member)

    def ended(self, member: Member) -> None:
        """A slot that hosted nothing has ended: it needs no reason."""
        self._ended.pop((member.host, member.pid), None)
        self._deaths.left(member)

    def failure(self, event: SlotGone, attempts: SlotAttempts) -> Failure:
        """Why a slot is lost: what the watchdog found, the operator in turn, or what the process was."""
        slot, member, contents = event.slot, event.member, self._contents
        stuck = self._ended.pop((member.host, member.pid), None)
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

    def check(self, silent: Collection[Process], *, rows_come: bool) -> None:
        """Look after Spark once a second, and after hangs. Raises SparkGoneError.

        `silent`: the processes on hosts that do not answer, which may do well. `rows_come`: as of
        `Hangs.look`.
        """
        now = self._clock.monotonic()
        if now < self._check_at:
            return
        self._check_at = now + min(_CHECK_SECONDS, self._hangs.timeout / 4)
        self._platform.check_alive()
        if self._contents.hears:  # else nobody knows who works
            self._look_for_hangs(now, silent, rows_come=rows_come)

    def _look_for_hangs(self, now: float, silent: Collection[Process], *, rows_come: bool) -> None:
        """End a worker that hangs, and say which callbacks take long."""
        # A slot that was retired sends no more, and is well: it would count as silent for ever.
        members = self._contents.slots.members.values()
        watched = {(one.host, one.pid) for one in members}.difference(silent)
        workers = [one for one in self.heartbeats.workers() if (one.beat.host, one.beat.pid) in watched]
        # One at a time: with the first all attempts are void, and others may have waited for it.
        ending = not watched.isdisjoint(self._ended)
        stuck = None if ending else self._hangs.look(workers, now, rows_come=rows_come)
        if stuck is not None:
            self.end(stuck)
        for operator, text in self._hangs.long_callbacks(workers):
            self._observe(StateWarning(self._clock.wall(), operator, text))

    def end(self, stuck: Stuck) -> None:
        """End a process. One on this host is killed at once, after its stacks were read. From any thread."""
        own = stuck.host == _HOST
        stack = (stacks.dump(stuck.pid, self._clock) if own else None) or stuck.failure.traceback
        self._ended[stuck.host, stuck.pid] = replace(stuck.failure, traceback=stack)
        with contextlib.suppress(Exception):  # the job may have ended meanwhile
            self._end_task(stuck)
        if own and stacks.is_worker(stuck.pid):
            with contextlib.suppress(OSError):
                os.kill(stuck.pid, signal.SIGKILL)

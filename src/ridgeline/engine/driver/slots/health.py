"""The health of slots: heartbeats, hangs, silent hosts, deaths, and slots that others cannot reach."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

from ridgeline.api.clock import Clock
from ridgeline.api.errors import Failure
from ridgeline.api.support.files import STORE_SECONDS
from ridgeline.api.support.masking import mask_text
from ridgeline.engine.driver.heartbeats import Heartbeats, Process, Worker
from ridgeline.engine.driver.slots.contents import SlotContents
from ridgeline.engine.driver.slots.group import SlotGone, SlotGroup
from ridgeline.engine.driver.slots.spark_slots import SparkSlots
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.process import stacks
from ridgeline.engine.process.black_box import Death, death_of, turn_of
from ridgeline.engine.slot.messages import Unreachable
from ridgeline.measure.events import ContainerHeartbeat, RunEvent, RunningOperator, StateWarning
from ridgeline.measure.slot_events import StoreSilent
from ridgeline.measure.wording.units import duration, plural
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import EXCHANGE, STORE, is_of_store
from ridgeline.stram.lateness import Overdue
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


# Workers that hang, and with them the attempt at a window that waits for them.
#
# Three rules. A worker that is connected and has sent nothing for `heartbeat_timeout` is frozen: stopped, or
# in native code that holds Python's lock. An operator with a `callback_timeout` is stuck if its callback
# processes no tuple and emits none for that long. Its worker still sends heartbeats. A container is stuck
# that does not end a window while no slot works, for its `timeout_window_count` (`stram/lateness.py`).
#
# A slot that works is left alone. If it is at one record for long, that is said.

_STOPPED_SECONDS = 5.0
"""A driver that has not looked for longer stood still: what workers have sent may lie unread."""
_LONG_SECONDS = 10.0
"""A callback that takes longer for one record is named, and again whenever that is four times as long."""
_AGAIN = 4


@dataclass(frozen=True, slots=True)
class Stuck:
    """A worker that hangs, and the failure of the operator that it runs."""

    host: str
    pid: int
    failure: Failure


class Hangs:
    """Finds workers that hang. It has no thread and no clock: `look` is called once a second.

    The thread that reads what workers send calls it. Another one would see no more: while nothing is read,
    nobody knows who is silent. Times are seconds of one clock.
    """

    def __init__(
        self,
        plan: Plan,
        run_id: str,
        attempts: SlotAttempts,
        process_of: Callable[[int], Process | None],
    ) -> None:
        """`process_of`: where a container lives; None if its slot is lost."""
        self._application = plan.logical.application
        self._run_id = run_id
        self._attempts = attempts
        self._busy_since = -1.0
        self._since = self._looked = self._worked = 0.0
        self._progress: dict[Process, tuple[object, float]] = {}
        self._process_of = process_of
        self._said: dict[Process, float] = {}
        """After how long in its callback a process is named next."""
        self.timeout = float(plan.logical.attributes["heartbeat_timeout"])
        self._operators = {operator.id: operator for operator in plan.physical.operators}
        self._overdue = Overdue(plan)
        self._first_operators = {
            container.id: container.operators[0] for container in plan.execution.containers
        }

    def look(self, workers: Sequence[Worker], now: float, *, rows_come: bool = False) -> Stuck | None:
        """The first worker that hangs now, None if none does.

        `rows_come`: containers may wait for rows of Spark, which is no fault of theirs.
        """
        attempt = self._attempts.oldest
        if attempt is None:
            return None
        if self._busy_since != self._attempts.busy_since:
            self._busy_since = self._since = self._looked = self._attempts.busy_since
            self._progress = {}
        if now - self._looked > _STOPPED_SECONDS:
            self._since = now
            self._progress = {}
        self._looked = now
        if rows_come or any(worker.beat.at_work for worker in workers):
            self._worked = now
        for worker in workers:
            if min(worker.silent_seconds, now - self._since) >= self.timeout:
                return self._silent(worker, attempt.request.window_id)
            stuck = self._blocked(worker.beat, now)
            if stuck is not None:
                return stuck
        return self._late(workers, now)

    def long_callbacks(self, workers: Sequence[Worker]) -> list[tuple[int, str]]:
        """Callbacks that have been at one record, or batch, for long: the operator, and what to say."""
        found = []
        for _, beat in workers:
            process, running = (beat.host, beat.pid), self._running(beat)
            if running is None or (seconds := running[1].callback_seconds) < _LONG_SECONDS:
                self._said.pop(process, None)
            elif seconds >= self._said.get(process, _LONG_SECONDS):
                self._said[process] = seconds * _AGAIN
                found.append((running[0].id, _long_text(*running, beat.stack)))
        return found

    def _late(self, workers: Sequence[Worker], now: float) -> Stuck | None:
        """The slot of a container that does not end a window, with the operator that is in turn there."""
        late = self._overdue.look(self._attempts, now, max(self._since, self._worked))
        process = None if late is None else self._process_of(late.container)
        if late is None or process is None:
            return None
        host, pid = process
        beats = [worker.beat for worker in workers if (worker.beat.host, worker.beat.pid) == process]
        beat = beats[0] if beats else ContainerHeartbeat(now, late.container, host, pid, now, late.window_id)
        operator = self._culprit(beat, late.window_id)[0]
        if operator is None:
            operator = self._operators[self._first_operators[late.container]]
        what = f"it has not ended window {late.window_id}, and no slot has worked for {late.seconds:.0f} s"
        what = f"{what}, and its slot's process {pid} on `{host}` was ended"
        limit = f"the attribute `timeout_window_count` allows {operator.attributes['timeout_window_count']}"
        return self._stuck(
            beat, late.window_id, operator, f"{what}; {limit} windows, at least {late.limit_seconds:g} s"
        )

    def _silent(self, worker: Worker, oldest: int) -> Stuck:
        """A worker that sends nothing, with the operator of its last heartbeat. `oldest`: window."""
        beat = worker.beat
        operator, window_id = self._culprit(beat, oldest)
        silent = f"was silent for {worker.silent_seconds:.0f} s and was ended"
        what = f"its worker process {beat.pid} on `{beat.host}` {silent}"
        remedy = "if that is honest work, raise the attribute `heartbeat_timeout`"
        remedy = f"it was stopped, or native code holds Python's lock; {remedy}"
        return self._stuck(beat, window_id, operator, f"{what}; {remedy}")

    def _blocked(self, beat: ContainerHeartbeat, now: float) -> Stuck | None:
        """The running operator of a worker, if it made no progress for its `callback_timeout`."""
        running = self._running(beat)
        if running is None:
            return None
        operator, one = running
        limit = operator.attributes["callback_timeout"]
        place = (beat.window_id, operator.id, one.consumed, one.produced, one.active_produced)
        known, since = self._progress.get((beat.host, beat.pid), (None, now))
        if known != place:
            self._progress[beat.host, beat.pid] = (place, now)
            return None
        if limit is None or now - since < limit:
            return None
        what = f"a callback has taken in no tuple and emitted none for {now - since:.0f} s"
        what = f"{what}, and its worker process {beat.pid} was ended"
        return self._stuck(
            beat, beat.window_id, operator, f"{what}; the attribute `callback_timeout` allows {limit:g} s"
        )

    def _culprit(self, beat: ContainerHeartbeat, oldest: int) -> tuple[PhysicalOperator | None, int]:
        """The operator that a process runs, and in which window: by its heartbeat, else by its black box.

        That can be read on this host, and counts for an attempt under way. `oldest`: the window else.
        """
        if (running := self._running(beat)) is not None:
            return running[0], beat.window_id
        turn = turn_of(beat.pid) if beat.host == _HOST else None
        if (
            turn is None
            or turn.run_id != self._run_id
            or not self._attempts.runs(turn.window_id, turn.attempt)
        ):
            return None, oldest
        return self._operators.get(turn.operator), turn.window_id

    def _running(self, beat: ContainerHeartbeat) -> tuple[PhysicalOperator, RunningOperator] | None:
        """The operator in turn, and what its worker says of it."""
        if beat.container < 0 or not self._attempts.runs(beat.window_id, beat.attempt):
            return None
        running = [one for one in beat.operators if one.state == "running" and one.id in self._operators]
        return (self._operators[running[0].id], running[0]) if running else None

    def _stuck(
        self, beat: ContainerHeartbeat, window_id: int, operator: PhysicalOperator | None, text: str
    ) -> Stuck:
        """The worker that sent `beat`, with a failure that names the operator, if one is known to run."""
        name = "" if operator is None else operator.title if operator.unifier else operator.name
        partition = 0 if operator is None else operator.partition
        callback = "its turn" if name else "a worker"
        return Stuck(
            beat.host,
            beat.pid,
            Failure(self._application, name, partition, window_id, callback, text, traceback=beat.stack),
        )


def _long_text(operator: PhysicalOperator, report: RunningOperator, stack: str) -> str:
    """`one record of `slow` took 2 min 0 s so far, at line 9 of `slow.py`: R(device='a')`."""
    record = f": {report.record}" if report.record else ""
    what = "one record" if record else plural(report.active, "record") if report.active > 1 else "a callback"
    lines = re.findall(r'File "(?:.*/)?([^"/]+)", line (\d+)', stack)
    where = f", at line {lines[-1][1]} of `{lines[-1][0]}`" if lines else ""
    remedy = "it goes on; the attribute `callback_timeout` would end it"
    took = f"took {duration(report.callback_seconds)} so far"
    return f"{what} of `{operator.title}` {took}{where}{record}; {remedy}"


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

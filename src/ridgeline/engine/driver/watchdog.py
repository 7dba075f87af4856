"""The watchdog: finds workers that hang, and with them the attempt at a window that waits for them.

Three rules. A worker that is connected and has sent nothing for `heartbeat_timeout` is frozen: stopped, or in
native code that holds Python's lock. An operator with a `callback_timeout` is stuck if its callback processes
no tuple and emits none for that long. Its worker still sends heartbeats. A container is stuck that does not
end a window while no slot works, for its `timeout_window_count` (`stram/lateness.py`).

A slot that works is left alone. If it is at one record for long, that is said.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ridgeline.api.errors import Failure
from ridgeline.engine.process.black_box import turn_of
from ridgeline.measure.events import ContainerHeartbeat, RunningOperator
from ridgeline.measure.wording.units import duration, plural
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.stram.lateness import Overdue
from ridgeline.stram.slot_attempts import SlotAttempts

_STOPPED_SECONDS = 5.0
"""A driver that has not looked for longer stood still: what workers have sent may lie unread."""
_LONG_SECONDS = 10.0
"""A callback that takes longer for one record is named, and again whenever that is four times as long."""
_AGAIN = 4
Process = tuple[str, int]
"""Host and process id."""
_HOST = socket.gethostname()


class Worker(NamedTuple):
    """A worker process that is connected to STRAM: how long it has been silent, and its last heartbeat."""

    silent_seconds: float
    beat: ContainerHeartbeat


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

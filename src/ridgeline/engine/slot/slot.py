"""A slot as a state machine: messages in, messages out, and one container run at a time between.

It has no sockets and no threads. `engine/slot/task.py` puts it into a Spark task.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ridgeline.api.clock import Clock
from ridgeline.api.support.pickling import dumps
from ridgeline.engine.container.feed import Fed, Feeding, missing
from ridgeline.engine.exchange.block import Message
from ridgeline.engine.operator.failures import failure_of, hosting_failure
from ridgeline.engine.slot.attempts import NOT_READY, Attempt, Attempts, BusyTimes, Wiring
from ridgeline.engine.slot.messages import (
    Awake,
    Between,
    Blocks,
    Committed,
    End,
    Ended,
    Failed,
    Finished,
    FromSlot,
    Host,
    Prepare,
    Prepared,
    Reported,
    RunAttempt,
    ToSlot,
)
from ridgeline.plan.protocol import WindowReport

if TYPE_CHECKING:
    from ridgeline.engine.slot.hosting import Containers

# The output of a slot: blocks and ends of containers to other slots, reports to STRAM.


class SlotOutput:
    """The messages of one slot that wait to be sent, in their order.

    `to_stram`: those to STRAM. `reports`: those that wait for others, and since when (monotonic clock).
    """

    def __init__(self, slot: int, clock: Clock) -> None:
        self.to_stram: list[FromSlot] = []
        self.reports: list[tuple[WindowReport, float]] = []
        self._slot = slot
        self._clock = clock
        self._to_slots: list[tuple[int, Between]] = []
        self._last: dict[int, int] = {}
        """Where in `_to_slots` the last blocks of the container that ran are, by slot."""
        self._reported = 0
        """The latest window among the reports that wait."""

    def take(self) -> tuple[Sequence[tuple[int, Between]], Sequence[FromSlot]]:
        """The messages to send now: to slots, by number, then to STRAM."""
        taken = self._to_slots, self.to_stram
        self._to_slots, self.to_stram = [], []
        return taken

    def add_report(self, report: WindowReport) -> None:
        """A container has run a window."""
        self.reports.append((report, self._clock.monotonic()))
        self._reported = report.window.window_id

    def report(self, next_window: float, fail: Callable[[WindowReport, Exception], None]) -> None:
        """Send the reports that wait, together, if `next_window`, which runs next, is a later one.

        `fail` is called for a report that cannot be pickled.
        """
        if not self.reports or next_window <= self._reported:
            return
        held, self.reports = self.reports, []
        now = self._clock.monotonic()
        for report, since in held:
            report.held_seconds = now - since
        reports = [report for report, _ in held]
        try:
            self.to_stram.append(Reported(dumps(tuple(reports))))
        except Exception:  # noqa: BLE001  the one that cannot be pickled is found below
            good = []
            for report in reports:
                try:
                    dumps(report)
                except Exception as error:  # noqa: BLE001  reported
                    fail(report, error)
                else:
                    good.append(report)
            if good:
                self.to_stram.append(Reported(dumps(tuple(good))))

    def add_blocks(self, attempt: Attempt, outgoing: Mapping[int, Message], slots: Mapping[int, int]) -> None:
        """Send what a container made: to others of this slot as it is. `slots`: of all consumers."""
        self._last.clear()
        for consumer, message in outgoing.items():
            target = slots[consumer]
            if target == self._slot:
                attempt.inboxes.setdefault(consumer, []).append(message)
                continue
            for part in message.divided():
                self._last[target] = len(self._to_slots)
                self._to_slots.append((target, Blocks(attempt.window_id, attempt.number, consumer, part)))

    def add_end(self, attempt: Attempt, container: int, tag: str, wiring: Wiring) -> None:
        """END_WINDOW of a container: to another slot once a container there waits for no other of here.

        It goes with the container's last blocks if there are any.
        """
        for target in wiring.targets[container]:
            attempt.unsent.setdefault(target, {})[container] = tag
        for group in wiring.outputs.of.get(container, ()):
            attempt.unfed[group] -= 1
            if not attempt.unfed[group]:
                target = wiring.slot_of[group]
                ended = attempt.unsent.pop(target, None)
                if ended is None:
                    continue
                last = self._last.pop(target, None)
                if last is None:
                    self._to_slots.append((target, Finished(attempt.window_id, attempt.number, ended)))
                    continue
                blocks = self._to_slots[last][1]
                assert isinstance(blocks, Blocks)  # noqa: S101  as `_last` says
                self._to_slots[last] = target, replace(blocks, ended=ended)


class _Ready(NamedTuple):
    """A container that can run, in the order in which they do."""

    window_id: int
    stage: int
    container: int
    position: int
    ready: float
    busy: tuple[float, ...]


class Slot:
    """The state of one slot.

    The containers run in `step`, those of `Committed` and `End` included; each runs the windows in the
    order in which STRAM sends them. An error of a container becomes a `Failed`; the slot continues.
    """

    def __init__(self, number: int, hosting: Containers, clock: Clock) -> None:
        self.over = False
        """True once it has torn its containers down."""
        self._number = number
        self._hosting = hosting
        self._clock = clock
        self._wiring = Wiring(number, {}, {})
        self._slots: Mapping[int, int] = {}
        self._attempts = Attempts()
        self._begun: dict[int, tuple[Attempt, RunAttempt]] = {}
        """The attempts under way here, by position."""
        self._count = 0
        """Attempts that STRAM has begun here."""
        self._next: dict[int, int] = {}
        """The position of each container's next attempt; `NOT_READY` if it has no state to run it with."""
        self._ready: list[_Ready] = []
        self._doomed = math.inf
        """From this window on nothing can be committed before a `RunAttempt` with states."""
        self._to_commit: int | None = None
        self._wants_commits = False
        self._output = SlotOutput(number, clock)
        self._waiting: frozenset[int] = frozenset()
        """The containers whose inputs wait for tuples from outside."""
        self._idle = self._awake = False
        """An input had nothing to emit, as a report has said; since then it has something."""
        self.busy = BusyTimes(clock)

    @property
    def partners(self) -> Collection[int]:
        """The other slots that it sends to or gets something from."""
        return self._wiring.partners

    # What comes in ------------------------------------------------------------------------------------------

    def from_stram(self, message: ToSlot) -> None:
        """Take in what STRAM says."""
        match message:
            case RunAttempt():
                self._begin(message)
                if message.committed >= 0:
                    self._committed(message.committed)
            case Committed(window_id):
                self._committed(window_id)
            case Host():
                self._host(message)
            case Prepare():
                self._prepare(message)
            case End():
                self.close(self._call_committed())

    def from_slot(self, message: Between) -> None:
        """Take in what another slot sends. A message of an attempt that is over is dropped."""
        attempt = self._attempts.find(message.window_id, message.attempt)
        if attempt is None:
            return
        if isinstance(message, Blocks):
            attempt.inboxes.setdefault(message.container, []).append(message.message)
        for producer, tag in message.ended.items():
            self._end(attempt, producer, tag)

    def partner_lost(self) -> None:
        """Messages of another slot may be lost: no container runs before a `RunAttempt` with states.

        Else one could run on what comes over the next connection alone.
        """
        self._doomed = -math.inf
        self._ready.clear()

    def awake(self) -> None:
        """An input has something to emit. STRAM gets a message if a report said the contrary."""
        self._awake, self._idle = self._awake or self._idle, False

    def from_feeder(self, run: int, fed: Fed, size_bytes: int) -> bool:
        """Take in rows that a run of a task sends; False if nothing more of it is needed.

        `size_bytes`: what they take in memory.
        """
        attempt = self._attempts.find(fed.window_id, fed.attempt)
        if attempt is None:
            return False
        feeding = attempt.feedings.setdefault(fed.container, Feeding())
        if not feeding.add(run, fed, size_bytes, self._clock.wall()):
            return False
        lacking = attempt.lacking.get(fed.container)
        if lacking is not None and fed.task in feeding.whole:
            lacking.discard(fed.task)
            if not lacking:
                del attempt.lacking[fed.container]
                attempt.came[self._wiring.input_of[fed.container]] = self.busy.arrival()
                self._consider(fed.container, attempt)
        return fed.ended is None

    def feeder_lost(self, run: int) -> None:
        """The connection with a run of a task is lost: what it has not sent as a whole does not count."""
        for attempt in self._attempts:
            for feeding in attempt.feedings.values():
                feeding.drop(run)

    @property
    def fed_bytes(self) -> int:
        """The size in memory of rows of Spark sources that no container has run yet."""
        return sum(feeding.held_bytes for one in self._attempts for feeding in one.feedings.values())

    def _host(self, message: Host) -> None:
        """Host other containers. None of them runs before a `RunAttempt` with states."""
        self._output.to_stram += self._call_committed()  # some may be gone then
        self._void_attempts()
        self._next, self._slots, self._waiting = {}, message.slots, frozenset()
        self._wiring = Wiring(self._number, {}, {})
        try:
            self._hosting.host(message)
            self._wiring = Wiring(self._number, self._hosting.specs, message.slots)
        except Exception as error:  # noqa: BLE001  reported
            self._output.to_stram.append(Failed(-1, -1, -1, hosting_failure(error, self._hosting.uri)))
        else:
            specs = self._hosting.specs
            self._next = dict.fromkeys(specs, NOT_READY)
            self._waiting = frozenset(number for number, spec in specs.items() if spec.waits_for_tuples)
            self._wants_commits = any(spec.wants_commit for spec in specs.values())

    def _prepare(self, message: Prepare) -> None:
        """Read a plan that may follow, and say whether that could be done."""
        failure = None
        try:
            self._hosting.prepare(message)
        except Exception as error:  # noqa: BLE001  reported
            failure = hosting_failure(error, message.checkpoint)
        self._output.to_stram.append(Prepared(message.plan.name, failure))

    def _begin(self, run: RunAttempt) -> None:
        """STRAM begins an attempt."""
        window_id, number = run.request.window_id, run.request.attempt
        self._count += 1
        if run.request.states is not None:
            self._void_attempts()
            self._attempts.forget(window_id - 1)
            self._next = dict.fromkeys(self._next, self._count)
        self._attempts.end(window_id, number - 1)
        attempt = self._attempts.find(window_id, number)
        if attempt is None or attempt.position != NOT_READY or not self._follows(run):
            raise AssertionError(
                f"attempt {number} at window {window_id} cannot begin: it was begun before, or is over"
            )
        if not self._next:
            self._attempts.end(window_id, number)
            return
        if self._waiting:
            run = replace(run, request=replace(run.request, ends=self._ends()))
        attempt.position, attempt.left = self._count, len(self._next)
        self._begun[self._count] = (attempt, run)
        attempt.missing, attempt.unfed = self._wiring.inputs.sizes.copy(), self._wiring.outputs.sizes.copy()
        attempt.came = [self.busy.arrival()] * len(attempt.missing)
        # Ends of producers may have come before the message of STRAM.
        for producer in attempt.ended:
            for group in self._wiring.inputs.of.get(producer, ()):
                attempt.missing[group] -= 1
        for container, tasks in run.fed.items():
            if container in self._next and (lacked := missing(attempt.feedings.get(container), tasks)):
                attempt.lacking[container] = lacked
        for container in self._next:
            self._consider(container, attempt)

    def _committed(self, window_id: int) -> None:
        """All windows up to this one are committed."""
        self._attempts.forget(window_id)
        if self._wants_commits:
            self._to_commit = window_id

    def _ends(self) -> float:
        """When the width of a window that STRAM begins now is over."""
        spec = next(iter(self._hosting.specs.values()))
        return self._clock.monotonic() + spec.window_seconds

    def _follows(self, run: RunAttempt) -> bool:
        """True if an attempt follows the one before it, or names the states to begin with."""
        before = self._begun.get(self._count - 1)
        return run.request.states is not None or before is None or before[0].window_id < run.request.window_id

    # What is over -------------------------------------------------------------------------------------------

    def _void_attempts(self) -> None:
        """All attempts that STRAM has begun are over."""
        for attempt, _ in self._begun.values():
            self._attempts.end(attempt.window_id, attempt.number)
        self._begun.clear()
        self._ready.clear()
        self._idle = self._awake = False
        self._doomed = math.inf

    # Running ------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """True if `step` has something to do."""
        return bool(self._ready) or self._to_commit is not None

    def step(self) -> None:
        """Do one piece of work: what a commit calls, or one container's window, the lowest window first."""
        if self._to_commit is not None:
            self._output.to_stram += self._call_committed()
            return
        while self._ready:
            entry = heapq.heappop(self._ready)
            # Entries of windows that are doomed stay in the heap until they are reached.
            if entry.window_id < self._doomed:
                self._run(entry, *self._begun[entry.position])
                return

    def _consider(self, container: int, attempt: Attempt) -> None:
        """Let a container run an attempt if it is its next and its producers have ended."""
        if (
            self._next[container] == attempt.position
            and not attempt.missing[self._wiring.input_of[container]]
            and attempt.window_id < self._doomed
            and container not in attempt.lacking
        ):
            stage, came = self._hosting.specs[container].stage, attempt.came[self._wiring.input_of[container]]
            heapq.heappush(self._ready, _Ready(attempt.window_id, stage, container, attempt.position, *came))

    def _end(self, attempt: Attempt, producer: int, tag: str) -> None:
        """END_WINDOW of a producer, of this slot or of another."""
        if producer in attempt.ended:
            return
        attempt.ended[producer] = tag
        for group in self._wiring.inputs.of.get(producer, ()) if attempt.position != NOT_READY else ():
            attempt.missing[group] -= 1
            if not attempt.missing[group]:
                attempt.came[group] = self.busy.arrival()
                for container in self._wiring.waiting[group]:
                    self._consider(container, attempt)

    def _run(self, entry: _Ready, attempt: Attempt, run: RunAttempt) -> None:
        """Run a container, send what it made, and let it begin its next attempt."""
        container = entry.container
        messages = attempt.inboxes.pop(container, [])
        feeding = attempt.feedings.pop(container, None)
        rows = feeding.rows(run.fed[container]) if feeding is not None and container in run.fed else None
        try:
            outgoing, report = self._hosting.run(
                container, run.request, messages, entry.ready, run.place, rows
            )
            report.window.sent, report.window.busy = self._clock.wall(), entry.busy
            if container in self._waiting:
                self._idle = self._idle or any(one.idle for one in report.operators)
        except BaseException as error:  # noqa: BLE001  reported
            self.fail(container, entry.window_id, attempt.number, error)
            return
        self._output.add_report(report)
        self._output.add_blocks(attempt, outgoing, self._slots)
        self._end(attempt, container, report.window.task)
        self._output.add_end(attempt, container, report.window.task, self._wiring)
        attempt.left -= 1
        if not attempt.left:
            self._attempts.end(entry.window_id, attempt.number)
            del self._begun[entry.position]
        self._next[container] += 1
        if entry.position + 1 in self._begun:
            self._consider(container, self._begun[entry.position + 1][0])

    def fail(self, container: int, window_id: int, attempt: int, error: BaseException) -> None:
        """A container has failed in an attempt: it runs nothing more, nor does anybody for later windows."""
        self._next[container] = NOT_READY
        self._doomed = min(self._doomed, window_id)
        failure = failure_of(error, self._hosting.specs[container], window_id, self._hosting.uri)
        self._output.to_stram.append(Failed(container, window_id, attempt, failure))

    def _call_committed(self) -> list[Failed]:
        """Call `committed` for the last window that was; returns what failed.

        A container that is to begin with the states after that window goes to these first.
        """
        window_id, self._to_commit = self._to_commit, None
        failed: list[Failed] = []
        if window_id is None:
            return failed
        for container, position in self._next.items():
            spec = self._hosting.specs[container]
            if position != NOT_READY and spec.wants_commit:
                following = self._begun.get(position)
                states = None
                if following is not None and following[1].request.window_id == window_id + 1:
                    states = following[1].request.states
                try:
                    self._hosting.committed(container, window_id, states)
                except BaseException as error:  # noqa: BLE001  reported
                    failure = failure_of(error, spec, window_id, self._hosting.uri)
                    failed.append(Failed(container, window_id, -1, failure))
        return failed

    # What goes out ------------------------------------------------------------------------------------------

    def take(self) -> tuple[Sequence[tuple[int, Between]], Sequence[FromSlot]]:
        """The messages to send now: to slots, by number, then to STRAM.

        A report waits for others of its window that are next in turn: nothing can be committed before.
        """
        self._output.report(self._ready[0].window_id if self._ready else math.inf, self._fail_report)
        if not self._output.reports and self._awake:
            self._awake = False
            self._output.to_stram.append(Awake())
        return self._output.take()

    def _fail_report(self, report: WindowReport, error: Exception) -> None:
        """The report of a container cannot be pickled: the container has failed."""
        self.fail(report.window.container, report.window.window_id, report.window.attempt, error)

    def close(self, failed: Sequence[Failed] = ()) -> None:
        """Tear all containers down; `Ended` says what failed in it, and what had failed before."""
        if not self.over:
            self.over = True
            self._void_attempts()
            self._to_commit = None
            failures = (*(one.failure for one in failed), *self._hosting.close())
            self._output.to_stram.append(Ended(failures))

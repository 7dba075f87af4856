"""What a slot does, as a state machine: messages in, messages out, and one container run at a time between.

It has no sockets and no threads. `engine/slot/task.py` puts it into a Spark task.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from ridgeline.api.clock import Clock
from ridgeline.api.errors import Failure
from ridgeline.api.support.pickling import dumps
from ridgeline.engine.container.feeding import Fed, FedRows, Feeding, missing
from ridgeline.engine.exchange.block import Message
from ridgeline.engine.exchange.shared_blocks import SharedPlace
from ridgeline.engine.operator.failures import failure_of, hosting_failure
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
from ridgeline.engine.slot.wiring import Wiring
from ridgeline.plan.container_spec import ContainerSpec
from ridgeline.plan.protocol import StateVersion, WindowReport, WindowRequest

_NOT_READY = -1
_STRETCHES = 4
"""So many stretches of work are reported with a window."""
_SHORTEST_SECONDS = 200e-6
"""Less work than this holds nobody up, and so short a rest is none."""


class Hosting(Protocol):
    """The containers of a slot: they do the work, and all of its input and output."""

    specs: Mapping[int, ContainerSpec]
    """Of the containers hosted now, by id."""
    uri: str
    """The checkpoint, for error messages."""

    def host(self, message: Host) -> None:
        """Host these containers from now on; those that are here already stay. Raises what reading raises."""

    def prepare(self, message: Prepare) -> None:
        """Read what a later `Host` may name, so that it takes no time then. Raises what reading raises."""

    def run(
        self,
        container: int,
        request: WindowRequest,
        messages: Sequence[Message],
        ready: float,
        place: SharedPlace | None,
        rows: FedRows | None,
    ) -> tuple[Mapping[int, Message], WindowReport]:
        """Run an attempt whose producers have ended, as `Container.run`.

        `ready`: when all of its input had come (wall clock).
        `rows`: those of a Spark source, None for nothing.
        """

    def committed(self, container: int, window_id: int, states: Mapping[int, StateVersion] | None) -> None:
        """Call `committed` of the container's operators that have it. Raises OperatorError.

        `states`: the versions after the window, None if the container went on from there.
        """

    def close(self) -> Sequence[Failure]:
        """Tear all containers down; what failed in it, and in those that were torn down before."""


class _Attempt:
    """One attempt at a window, as far as this slot has heard of it.

    `came`: when STRAM had begun it and all producers of a set had ended, by the set's number. With it, when
    the slot had worked before that, as in `ContainerWindow.busy`.

    `position` counts the attempts that STRAM has begun here; `_NOT_READY` before. `ended`: the tags of all
    producers that have ended. `missing`: how many producers each set still lacks, by its number in
    `Wiring.inputs`. `unfed`: the same for `Wiring.outputs`. `unsent`: the END_WINDOW not yet sent, by slot.
    `left`: containers still to run. `feedings`: what has come for containers of Spark sources. `hungry`: the
    tasks whose rows each of these lacks.
    """

    __slots__ = (
        "came",
        "ended",
        "feedings",
        "hungry",
        "inboxes",
        "left",
        "missing",
        "number",
        "position",
        "unfed",
        "unsent",
        "window_id",
    )

    def __init__(self, window_id: int, number: int) -> None:
        self.window_id = window_id
        self.number = number
        self.position = _NOT_READY
        self.inboxes: dict[int, list[Message]] = {}
        self.ended: dict[int, str] = {}
        self.missing: list[int] = []
        self.came: list[tuple[float, tuple[float, ...]]] = []
        self.unfed: list[int] = []
        self.unsent: dict[int, dict[int, str]] = {}
        self.left = 0
        self.feedings: dict[int, Feeding] = {}
        self.hungry: dict[int, set[int]] = {}


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

    The containers run in `step`, those of `Committed` and `End` included; each runs the windows that STRAM
    tells it in this order. What a container raises becomes a `Failed`; the slot goes on.
    """

    def __init__(self, number: int, hosting: Hosting, clock: Clock) -> None:
        self.over = False
        """True once it has torn its containers down."""
        self._number = number
        self._hosting = hosting
        self._clock = clock
        self._wiring = Wiring(number, {}, {})
        self._slots: Mapping[int, int] = {}
        self._attempts: dict[int, dict[int, _Attempt]] = {}
        """By window and number: those that are not over, of which anything has been heard."""
        self._over: dict[int, int] = {}
        """The last attempt at each window that is over."""
        self._least = 0
        """Windows before are over for good."""
        self._begun: dict[int, tuple[_Attempt, RunAttempt]] = {}
        """The attempts under way here, by position."""
        self._count = 0
        """Attempts that STRAM has begun here."""
        self._next: dict[int, int] = {}
        """The position of each container's next attempt; `_NOT_READY` if it has no state to go on with."""
        self._ready: list[_Ready] = []
        self._doomed = math.inf
        """From this window on nothing can be committed before a `RunAttempt` with states."""
        self._to_commit: int | None = None
        self._wants_commits = False
        self._to_slots: list[tuple[int, Between]] = []
        self._last: dict[int, int] = {}
        """Where in `_to_slots` the last blocks of the container that ran are, by slot."""
        self._to_stram: list[FromSlot] = []
        self._reports: list[tuple[WindowReport, float]] = []
        """Those that wait, and since when."""
        self._reported = 0
        """The latest window among the reports that wait."""
        self._waiting: frozenset[int] = frozenset()
        """Containers with inputs that wait for their tuples."""
        self._idle: set[int] = set()
        """Containers whose inputs had nothing to emit in their last window."""
        self._awake = False
        self._worked: deque[tuple[float, float]] = deque(maxlen=_STRETCHES)
        """The last stretches in which it worked on and on (monotonic clock)."""
        self._since: float | None = clock.monotonic()
        """When the one that lasts began; None while it waits for something to do."""

    # What time goes to --------------------------------------------------------------------------------------

    def rests(self) -> None:
        """There is nothing to do: it waits for its connections."""
        if self._since is not None:
            now = self._clock.monotonic()
            if now - self._since >= _SHORTEST_SECONDS:
                self._worked.append((self._since, now))
            self._since = None

    def goes_on(self) -> None:
        """Something may have come: until it rests again, nobody reads its connections in time."""
        if self._since is None:
            now = self._since = self._clock.monotonic()
            if self._worked and now - self._worked[-1][1] < _SHORTEST_SECONDS:
                self._since = self._worked.pop()[0]

    def _came(self) -> tuple[float, tuple[float, ...]]:
        """Now by the wall clock, and the stretches of work before that, as in `ContainerWindow.busy`."""
        now, found = self._clock.monotonic(), list(self._worked)
        if self._since is not None and now - self._since >= _SHORTEST_SECONDS:
            found.append((self._since, now))
        return self._clock.wall(), tuple(now - time for stretch in found[-_STRETCHES:] for time in stretch)

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
        """Take in what another slot sends. What is of an attempt that is over is dropped."""
        attempt = self._attempt(message.window_id, message.attempt)
        if attempt is None:
            return
        if isinstance(message, Blocks):
            attempt.inboxes.setdefault(message.container, []).append(message.message)
        for producer, tag in message.ended.items():
            self._end(attempt, producer, tag)

    def partner_lost(self) -> None:
        """What another slot has sent may be lost: no container runs before a `RunAttempt` with states.

        Else one could run on what comes over the next connection alone.
        """
        self._doomed = -math.inf
        self._ready.clear()

    def awake(self) -> None:
        """An input has something to emit. STRAM hears of it if it believes the contrary."""
        self._awake = bool(self._idle)

    def from_feeder(self, run: int, fed: Fed, size_bytes: int) -> bool:
        """Take in rows that a run of a task sends; False if nothing more of it is needed.

        `size_bytes`: what they take in memory.
        """
        attempt = self._attempt(fed.window_id, fed.attempt)
        if attempt is None:
            return False
        feeding = attempt.feedings.setdefault(fed.container, Feeding())
        if not feeding.add(run, fed, size_bytes, self._clock.wall()):
            return False
        hungry = attempt.hungry.get(fed.container)
        if hungry is not None and fed.task in feeding.whole:
            hungry.discard(fed.task)
            if not hungry:
                del attempt.hungry[fed.container]
                attempt.came[self._wiring.input_of[fed.container]] = self._came()
                self._consider(fed.container, attempt)
        return fed.ended is None

    def feeder_lost(self, run: int) -> None:
        """The connection with a run of a task is lost: what it has not sent as a whole does not count."""
        for attempt in self._known():
            for feeding in attempt.feedings.values():
                feeding.drop(run)

    @property
    def fed_bytes(self) -> int:
        """What rows of Spark sources take in memory that no container has run yet."""
        return sum(feeding.held_bytes for one in self._known() for feeding in one.feedings.values())

    def _known(self) -> Iterator[_Attempt]:
        return (attempt for attempts in self._attempts.values() for attempt in attempts.values())

    def _host(self, message: Host) -> None:
        """Host other containers. None of them goes on before a `RunAttempt` with states."""
        self._to_stram += self._call_committed()  # some may be gone then
        self._void()
        self._next, self._slots, self._waiting = {}, message.slots, frozenset()
        self._wiring = Wiring(self._number, {}, {})
        try:
            self._hosting.host(message)
            self._wiring = Wiring(self._number, self._hosting.specs, message.slots)
        except Exception as error:  # noqa: BLE001  reported
            self._to_stram.append(Failed(-1, -1, -1, hosting_failure(error, self._hosting.uri)))
        else:
            specs = self._hosting.specs
            self._next = dict.fromkeys(specs, _NOT_READY)
            self._waiting = frozenset(number for number, spec in specs.items() if spec.waits_for_tuples)
            self._wants_commits = any(spec.wants_commit for spec in specs.values())

    def _prepare(self, message: Prepare) -> None:
        """Read a plan that may follow, and say whether that could be done."""
        failure = None
        try:
            self._hosting.prepare(message)
        except Exception as error:  # noqa: BLE001  reported
            failure = hosting_failure(error, message.checkpoint)
        self._to_stram.append(Prepared(message.plan.name, failure))

    def _begin(self, run: RunAttempt) -> None:
        """STRAM begins an attempt."""
        window_id, number = run.request.window_id, run.request.attempt
        self._count += 1
        if run.request.states is not None:
            self._void()
            self._forget(window_id - 1)
            self._next = dict.fromkeys(self._next, self._count)
        self._end_attempts(window_id, number - 1)
        attempt = self._attempt(window_id, number)
        if attempt is None or attempt.position != _NOT_READY or not self._follows(run):
            msg = f"attempt {number} at window {window_id} cannot begin: it was begun before, or is over"
            raise AssertionError(msg)
        if not self._next:
            self._end_attempts(window_id, number)
            return
        if self._waiting:
            run = replace(run, request=replace(run.request, ends=self._ends()))
        attempt.position, attempt.left = self._count, len(self._next)
        self._begun[self._count] = (attempt, run)
        attempt.missing, attempt.unfed = self._wiring.inputs.sizes.copy(), self._wiring.outputs.sizes.copy()
        attempt.came = [self._came()] * len(attempt.missing)
        for producer in attempt.ended:
            for group in self._wiring.inputs.of.get(producer, ()):
                attempt.missing[group] -= 1
        for container, tasks in run.fed.items():
            if container in self._next and (lacked := missing(attempt.feedings.get(container), tasks)):
                attempt.hungry[container] = lacked
        for container in self._next:
            self._consider(container, attempt)

    def _committed(self, window_id: int) -> None:
        """All windows up to this one are committed."""
        self._forget(window_id)
        if self._wants_commits:
            self._to_commit = window_id

    def _ends(self) -> float:
        """When the width of a window that STRAM begins now is over."""
        spec = next(iter(self._hosting.specs.values()))
        return self._clock.monotonic() + spec.window_seconds

    def _follows(self, run: RunAttempt) -> bool:
        """True if an attempt goes on where the one before it ends, or says where to go on."""
        before = self._begun.get(self._count - 1)
        return run.request.states is not None or before is None or before[0].window_id < run.request.window_id

    def _attempt(self, window_id: int, number: int) -> _Attempt | None:
        """An attempt that is not over, heard of for the first time or not."""
        if window_id < self._least or number <= self._over.get(window_id, -1):
            return None
        attempts = self._attempts.setdefault(window_id, {})
        if number not in attempts:
            attempts[number] = _Attempt(window_id, number)
        return attempts[number]

    # What is over -------------------------------------------------------------------------------------------

    def _void(self) -> None:
        """All attempts that STRAM has begun are over."""
        for attempt, _ in self._begun.values():
            self._end_attempts(attempt.window_id, attempt.number)
        self._begun.clear()
        self._ready.clear()
        self._idle.clear()
        self._doomed = math.inf

    def _end_attempts(self, window_id: int, last: int) -> None:
        """The attempts at a window up to this one are over."""
        if last > self._over.get(window_id, -1):
            self._over[window_id] = last
            known = self._attempts.get(window_id, {})
            for number in [number for number in known if number <= last]:
                del known[number]
            if not known:
                self._attempts.pop(window_id, None)

    def _forget(self, window_id: int) -> None:
        """All windows up to this one are over for good."""
        self._least = max(self._least, window_id + 1)
        for kept in (self._attempts, self._over):
            for window in [window for window in kept if window < self._least]:
                del kept[window]

    # Running ------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """True if `step` has something to do."""
        return bool(self._ready) or self._to_commit is not None

    def step(self) -> None:
        """Do one piece of work: what a commit calls, or one container's window, the lowest window first."""
        if self._to_commit is not None:
            self._to_stram += self._call_committed()
            return
        while self._ready:
            entry = heapq.heappop(self._ready)
            if entry.window_id < self._doomed:
                self._run(entry, *self._begun[entry.position])
                return

    def _consider(self, container: int, attempt: _Attempt) -> None:
        """Let a container run an attempt if it is its next and its producers have ended."""
        if (
            self._next[container] == attempt.position
            and not attempt.missing[self._wiring.input_of[container]]
            and attempt.window_id < self._doomed
            and container not in attempt.hungry
        ):
            stage, came = self._hosting.specs[container].stage, attempt.came[self._wiring.input_of[container]]
            heapq.heappush(self._ready, _Ready(attempt.window_id, stage, container, attempt.position, *came))

    def _end(self, attempt: _Attempt, producer: int, tag: str) -> None:
        """END_WINDOW of a producer, of this slot or of another."""
        if producer in attempt.ended:
            return
        attempt.ended[producer] = tag
        for group in self._wiring.inputs.of.get(producer, ()) if attempt.position != _NOT_READY else ():
            attempt.missing[group] -= 1
            if not attempt.missing[group]:
                attempt.came[group] = self._came()
                for container in self._wiring.waiting[group]:
                    self._consider(container, attempt)

    def _run(self, entry: _Ready, attempt: _Attempt, run: RunAttempt) -> None:
        """Run a container, send what it made, and let it go on to its next attempt."""
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
                idle = any(one.idle for one in report.operators)
                (self._idle.add if idle else self._idle.discard)(container)
        except BaseException as error:  # noqa: BLE001  reported
            self.fail(container, entry.window_id, attempt.number, error)
            return
        self._reports.append((report, self._clock.monotonic()))
        self._reported = entry.window_id
        self._send_blocks(attempt, entry.window_id, outgoing)
        self._send_end(attempt, entry.window_id, container, report.window.task)
        attempt.left -= 1
        if not attempt.left:
            self._end_attempts(entry.window_id, attempt.number)
            del self._begun[entry.position]
        self._next[container] += 1
        if entry.position + 1 in self._begun:
            self._consider(container, self._begun[entry.position + 1][0])

    def fail(self, container: int, window_id: int, attempt: int, error: BaseException) -> None:
        """A container has failed in an attempt: it runs nothing more, nor does anybody for later windows."""
        self._next[container] = _NOT_READY
        self._doomed = min(self._doomed, window_id)
        failure = failure_of(error, self._hosting.specs[container], window_id, self._hosting.uri)
        self._to_stram.append(Failed(container, window_id, attempt, failure))

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
            if position != _NOT_READY and spec.wants_commit:
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
        """What is to be sent now: to slots, by number, then to STRAM.

        A report waits for others of its window that are next in turn: nothing can be committed before.
        """
        if self._reports and not (self._ready and self._ready[0].window_id <= self._reported):
            self._report()
        if self._awake and not self._reports:
            self._to_stram.append(Awake())
            self._idle.clear()
            self._awake = False
        taken = self._to_slots, self._to_stram
        self._to_slots, self._to_stram = [], []
        return taken

    def _report(self) -> None:
        """Send the reports that wait, together. A container whose report cannot be pickled has failed."""
        held, self._reports = self._reports, []
        now = self._clock.monotonic()
        reports = [report for report, _ in held]
        for report, since in held:
            report.held_seconds = now - since
        try:
            self._to_stram.append(Reported(dumps(tuple(reports))))
        except Exception:  # noqa: BLE001  the one that cannot be pickled is found below
            if good := tuple(report for report in reports if self._can_report(report)):
                self._to_stram.append(Reported(dumps(good)))

    def _can_report(self, report: WindowReport) -> bool:
        try:
            dumps(report)
        except Exception as error:  # noqa: BLE001  reported
            self.fail(report.window.container, report.window.window_id, report.window.attempt, error)
            return False
        return True

    def close(self, failed: Sequence[Failed] = ()) -> None:
        """Tear all containers down; `Ended` says what failed in it, and what had failed before."""
        if not self.over:
            self.over = True
            self._void()
            self._to_commit = None
            failures = (*(one.failure for one in failed), *self._hosting.close())
            self._to_stram.append(Ended(failures))

    def _send_blocks(self, attempt: _Attempt, window_id: int, outgoing: Mapping[int, Message]) -> None:
        """Send what a container made: to others of this slot as it is."""
        self._last.clear()
        for consumer, message in outgoing.items():
            target = self._slots[consumer]
            if target == self._number:
                attempt.inboxes.setdefault(consumer, []).append(message)
                continue
            for part in message.divided():
                self._last[target] = len(self._to_slots)
                self._to_slots.append((target, Blocks(window_id, attempt.number, consumer, part)))

    def _send_end(self, attempt: _Attempt, window_id: int, container: int, tag: str) -> None:
        """END_WINDOW of a container: to another slot once a container there waits for no other of here.

        It goes with the container's last blocks if there are any.
        """
        self._end(attempt, container, tag)
        for target in self._wiring.targets[container]:
            attempt.unsent.setdefault(target, {})[container] = tag
        for group in self._wiring.outputs.of.get(container, ()):
            attempt.unfed[group] -= 1
            if not attempt.unfed[group]:
                target = self._wiring.slot_of[group]
                ended = attempt.unsent.pop(target, None)
                if ended is None:
                    continue
                last = self._last.pop(target, None)
                if last is None:
                    self._to_slots.append((target, Finished(window_id, attempt.number, ended)))
                    continue
                blocks = self._to_slots[last][1]
                assert isinstance(blocks, Blocks)  # noqa: S101  as `_last` says
                self._to_slots[last] = target, replace(blocks, ended=ended)

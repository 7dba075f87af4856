"""One run of an application: reports events to the master and carries out its instructions."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ridgeline.api.clock import Clock, Timeline
from ridgeline.api.errors import CheckpointError, Failure, FencedError, OperatorError, RidgelineError
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.engine.driver.changes import Asked, Changes, applied, refused
from ridgeline.engine.driver.checkpoint import Checkpoint
from ridgeline.engine.driver.committing import CommitHere, Committer
from ridgeline.engine.driver.compactions import Compactions
from ridgeline.engine.driver.execution import WindowExecutor
from ridgeline.engine.driver.kept_properties import NOTHING_KEPT
from ridgeline.engine.driver.manifest import Manifest, SourceOffsets, digest
from ridgeline.engine.driver.outputs import Outputs
from ridgeline.engine.driver.recordings import Recordings
from ridgeline.engine.driver.state_repair import StateRepair
from ridgeline.engine.worker.tails import Tails
from ridgeline.measure.events import (
    RunEvent,
    StateCompacted,
    StateWarning,
    WindowCommitted,
    WindowPlanned,
    WindowRetried,
    WindowStarted,
)
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import WindowReport
from ridgeline.stram.changes import (
    BeginRecording,
    ChangeAsked,
    ChangeInstruction,
    EndRecording,
    RecordingFailed,
    RecordingsFound,
    RefuseChange,
    ResumeRecording,
)
from ridgeline.stram.compaction import (
    AwaitCompaction,
    Compact,
    CompactionInstruction,
    DiscardCompaction,
    GiveUpCompaction,
    ReportCompaction,
    WarnOfState,
)
from ridgeline.stram.control import (
    CheckStates,
    Commit,
    CommitDue,
    ContainerReported,
    ControlEvent,
    ExecutorEvent,
    GiveUp,
    Instruction,
    ManifestWritten,
    Publish,
    RunStarted,
    RunWindow,
    Skip,
    StatesChecked,
    WindowDue,
    WindowPublished,
)
from ridgeline.stram.master import Master
from ridgeline.stram.own_metrics import MetricAggregation
from ridgeline.stram.reporting import report_events

IDLE_SECONDS = 1.0
"""How often outputs may publish beside windows."""
_HELD_SECONDS = 1.0
"""So long windows in which nothing moved wait for a window in which something did, and for its commit."""
_STOP_SECONDS = 0.1
"""How soon a wait for containers sees that the run is to stop."""

Observe = Callable[[RunEvent], None]
"""Takes the events of a run, in the thread in which they happen. Must be quick and raise nothing."""


@dataclass(slots=True)
class _Window:
    """A window under way: the trigger's input, and the times (wall clock)."""

    source: Any
    offsets: SourceOffsets | None
    due: float | None
    timeline: Timeline
    began: float = field(init=False)
    planned: float = field(init=False)
    launched: float = 0.0
    returned: float = 0.0
    staged: float = 0.0
    committed: float = 0.0
    held_seconds: float = 0.0
    """How long it waited for its commit since nothing had moved in it."""
    reports: tuple[WindowReport, ...] = ()
    """Of the attempt that counts, once the window is committed."""

    def __post_init__(self) -> None:
        self.began = self.planned = self.timeline.now()


class ApplicationRun:
    """An application on its checkpoint: `begin` begins a window, `turn` brings on those under way.

    It continues from the last committed window of its checkpoint. The master decides what is done, this class
    does it. One thread at a time. Raises CheckpointError if the checkpoint is of other operators, StateError
    if a state file is broken and nothing can replace it.
    """

    def __init__(  # noqa: PLR0913  what a run has
        self,
        plan: Plan,
        checkpoint: Checkpoint,
        executor: WindowExecutor,
        clock: Clock,
        publisher_context: Callable[[str], PublisherContext],
        observe: Observe | None = None,
        compactions: Callable[[Plan, Checkpoint], Compactions] = Compactions,
        settle: Callable[[], bool] | None = None,
        *,
        committer: Committer | None = None,
    ) -> None:
        """`settle` is called when there is time, after windows were reported.

        It does a piece of what is left to do with them, and says if more is left.

        `committer`: where commits wait for their sync; None: in `turn`.
        """
        self.plan = plan
        self.checkpoint = checkpoint
        self.tails = Tails()
        self.changes = Changes(clock.wall)
        self.recordings = Recordings(plan, checkpoint, clock)
        self._asked: dict[int, Asked] = {}
        self._executor = executor
        self._clock = clock
        self._observe = observe or (lambda _event: None)
        self._settle = settle
        self._unsettled = False
        self._early_warnings: list[StateWarning] | None = []
        self._idled = clock.monotonic()
        self._held_since: float | None = None
        """Since when windows wait for their commit in which nothing moved."""
        self._windows: dict[int, _Window] = {}
        self._committer = committer or CommitHere()
        self.properties = NOTHING_KEPT
        """What windows that are committed from now on keep of what the application was given from outside."""
        self._outputs = Outputs(plan, clock)
        self._metric_aggregation = MetricAggregation(plan.physical.operators)
        self._state_keys = {operator.id: operator.state_key for operator in plan.physical.operators}
        last = checkpoint.last()
        self.master = _master(plan, checkpoint, last, executor.capacity, groups=self._outputs.group_windows)
        self.compactions = compactions(plan, checkpoint)
        self._repair = StateRepair(plan, checkpoint)
        repairs, self._sizes = self._repair.recover(self.master.states)
        for repair in repairs:
            self._process(repair)
        self._outputs.open(publisher_context, last.publishers if last else {}, self.master.committed)
        self.recordings.on_failure = self._recording_failed
        self._process(RecordingsFound(self.recordings.find(self.master.committed)))
        if last:
            self._outputs.publish(last.window_id)
            self._executor.committed(last.window_id, self.master.states)

    @property
    def publishers(self) -> Mapping[str, Publisher]:
        """The publishers of output operators, by operator."""
        return self._outputs.publishers

    @property
    def next_window(self) -> int:
        """The first window that is not committed."""
        return self.master.committed + 1

    @property
    def ended(self) -> bool:
        """True once all inputs have finished and their last window is committed."""
        return self.master.ended

    def open(self) -> None:
        """Begin to get ready for the first window, as triggers do first. Raises RidgelineError."""
        self._executor.open()

    def window(
        self,
        window_id: int,
        source: Any = None,
        due: float | None = None,
        offsets: SourceOffsets | None = None,
    ) -> None:
        """Run a window until it is committed and published; returns at once if it was committed before.

        A trigger that has one window in flight calls it, with `begin`'s arguments. Raises as `turn`.
        """
        self.begin(window_id, source, due, offsets)
        while self.master.committed < window_id:
            if not self.commit_held():
                self.turn(IDLE_SECONDS)

    def begin(
        self,
        window_id: int,
        source: Any = None,
        due: float | None = None,
        offsets: SourceOffsets | None = None,
    ) -> None:
        """Begin a window, which `master.can_begin` allows; nothing is done if it was committed before.

        `offsets`: where the window's Spark sources end. `due`: when it should have begun (wall clock). Raises
        as `turn`.
        """
        if self._early_warnings is not None:
            self._start()
        if window_id > self.master.committed:
            self._windows[window_id] = _Window(source, offsets, due, Timeline(self._clock))
            self._make_changes()
        self._process(WindowDue(window_id, round(self._clock.wall() * 1_000_000)))

    def turn(self, seconds: float) -> None:
        """Wait at most so long for what becomes of windows under way; commit and publish what is complete.

        Raises OperatorError when a window failed more often than `recovery_attempts` allows. Raises
        CheckpointError or FencedError when one could not be committed. FencedError also for a failure after
        another driver has taken the folder over. Nothing of it counts then, nor of later ones.
        CheckpointError also if a state cannot be compacted that windows wait for.
        """
        events = self._poll(seconds)
        for event in events:
            if isinstance(event, ContainerReported):
                window = self._windows.get(event.report.window.window_id)
                if window is not None:
                    window.returned = window.timeline.now()
        self._process(*events)
        if written := self._committer.finished():
            self._process(written)
        if not self.master.held:
            self._held_since = None
        elif self._held_since is None:
            self._held_since = self._clock.monotonic()
        elif self._clock.monotonic() - self._held_since >= _HELD_SECONDS:
            self.commit_held()

    def commit_held(self) -> bool:
        """Commit the windows that are held; True if there are any. To be called where no further one begins.

        Raises as `turn`.
        """
        self._held_since = None
        if not self.master.held:
            return False
        self._process(CommitDue())
        return True

    def _poll(self, seconds: float) -> Sequence[ExecutorEvent]:
        """What has come of the windows; waits at most so long for it, and does what can wait meanwhile."""
        while self._unsettled and self._settle is not None:
            events = self._poll_executor(0.0)
            if events or self._committer.done:
                return events
            self._unsettled = self._settle()
        return self._poll_executor(0.0 if self._committer.done else seconds)

    def _poll_executor(self, seconds: float) -> Sequence[ExecutorEvent]:
        try:
            return self._executor.poll(seconds)
        except OperatorError as error:
            raise self._cause(error)  # noqa: B904  it may be this one

    def _cause(self, error: OperatorError) -> RidgelineError:
        """Why the run ends: another driver owns the folder and removes files of this one, or the error."""
        with contextlib.suppress(OSError):
            try:
                self.checkpoint.check_owner()
            except FencedError as fenced:
                fenced.__cause__ = error
                return fenced
        return error

    # Events and instructions --------------------------------------------------------------------------------

    def _start(self) -> None:
        """Before the first window: emit the buffered warnings, begin compactions that are due."""
        warnings, self._early_warnings = self._early_warnings, None
        for warning in warnings or ():
            self._observe(warning)
        self._process(RunStarted(self._sizes))

    def _process(self, *events: ControlEvent) -> None:
        """Report events to the master and carry out its instructions, until no event follows from them."""
        instructions = deque(instruction for event in events for instruction in self.master.handle(event))
        while instructions:
            for result in self._carry_out(instructions.popleft()):
                instructions.extend(self.master.handle(result))

    def _carry_out(self, instruction: Instruction) -> Iterable[ControlEvent]:
        """Carry out one instruction; blocks. Returns the resulting events. Takes no decision."""
        match instruction:
            case RunWindow():
                self._begin_attempt(instruction)
                return ()
            case CheckStates():
                return (*self._repair.repair(self.master.states), StatesChecked())
            case Commit():
                self._commit(instruction)
                written = self._committer.finished()
                return (written,) if written else ()
            case Publish(window_id, before):
                self._outputs.publish(window_id)
                for published in (*before, window_id):
                    self._executor.committed(published, self.master.states)
                    window = self._windows.pop(published)
                    self.tails.take(window.reports)
                    self._report(published, window)
                self.recordings.publish(window_id)
                self.checkpoint.purge(self.plan.logical.attributes["windows_kept"])
                return (*self.compactions.finished(), WindowPublished(window_id))
            case GiveUp(failure):
                raise self._cause(OperatorError(failure))
            case Skip() | RefuseChange() | BeginRecording() | EndRecording() | ResumeRecording():
                self._change(instruction)
                return ()
            case _:
                return self._carry_out_compaction(instruction)

    def _make_changes(self) -> None:
        """Report what was asked for since the last window began."""
        for asked in self.changes.take():
            self._asked[asked.change.number] = asked
            self._process(ChangeAsked(asked.change))
            del self._asked[asked.change.number]

    def _change(self, instruction: ChangeInstruction | Skip) -> None:
        """Carry out one instruction about a change; there is nothing to do about a window to skip."""
        match instruction:
            case RefuseChange(change, reason):
                refused(self._asked[change.number], reason)
            case BeginRecording(change, recording):
                if fault := self.recordings.begin(recording):
                    self._recording_failed(recording.id, recording.first)
                    refused(self._asked[change.number], fault)
                else:
                    applied(self._asked[change.number], recording.first, recording.id)
            case EndRecording(change, recording):
                self.recordings.end(recording, f"stopped by {change.by}")
                applied(self._asked[change.number], recording.end, recording.id)
            case ResumeRecording(recording, fault):
                if fault:
                    self.recordings.end(replace(recording, end=self.next_window), fault)

    def _recording_failed(self, recording: str, window_id: int) -> None:
        self.master.handle(RecordingFailed(recording, window_id))

    def _carry_out_compaction(self, instruction: CompactionInstruction) -> Iterable[ControlEvent]:
        """Carry out one instruction about a compaction, as `_carry_out` does."""
        match instruction:
            case Compact():
                self.compactions.start(instruction)
                return self.compactions.finished()
            case AwaitCompaction(operator):
                return self.compactions.wait(operator)
            case DiscardCompaction(operator):
                self.compactions.discard(operator)
            case ReportCompaction(operator, files, size_bytes):
                self._observe(StateCompacted(self._clock.wall(), operator, files, size_bytes))
            case WarnOfState(operator, text):
                self.warn(operator, text)
            case GiveUpCompaction(message):
                raise CheckpointError(message)
        return ()

    def _begin_attempt(self, instruction: RunWindow) -> None:
        """Have all containers run the window."""
        request = instruction.request
        window_id, attempt = request.window_id, request.attempt
        window = self._windows[window_id]
        if attempt:
            window.planned = window.timeline.now()
            final = request.final and not instruction.reason
            self._observe(WindowRetried(window.planned, window_id, attempt, instruction.reason, final=final))
        else:
            due = window.began if window.due is None else min(window.due, window.began)
            self._observe(WindowPlanned(window.began, window_id, self.plan.version, due))
        self._observe(WindowStarted(window.planned, window_id, attempt))
        window.launched = self._executor.begin(self.tails.asked(request), window.source)

    def _commit(self, commit: Commit) -> None:
        """Let the outputs stage the windows, then begin to write a record with the small changes of state."""
        windows = [self._windows[window_id] for window_id in commit.reports]
        for window in windows[: commit.held]:
            window.held_seconds = max(0.0, window.timeline.now() - window.returned)
        publishers: dict[str, object] = {}
        changes: dict[str, bytes] = {}
        for window, (window_id, reports) in zip(windows, commit.reports.items(), strict=True):
            window.reports = reports
            publishers = self._outputs.stage(window_id, reports)
            self.recordings.stage(window_id, reports)
            window.staged = window.timeline.now()
            changes.update(report.small_change for report in reports if report.small_change)
        last = windows[-1]
        keys = self._state_keys
        manifest = Manifest(
            window_id=commit.window_id,
            epoch=self.checkpoint.epoch,
            plan_version=self.plan.version,
            states={keys[operator]: version for operator, version in commit.states.items()},
            finished=sorted(keys[operator] for operator in commit.finished),
            publishers=publishers,
            ended=commit.ends,
            reports=digest(last.reports),
            offsets=last.offsets,
            properties=self.properties,
        )

        def write() -> ManifestWritten:
            names = self.checkpoint.commit(manifest, changes)
            for window in windows:
                window.committed = window.timeline.now()
            return ManifestWritten(commit.window_id, names)

        self._committer.begin(write)

    # Events for subscribers ---------------------------------------------------------------------------------

    def _report(self, window_id: int, window: _Window) -> None:
        """Report a window that is published: its containers and operators, its outputs, then its times."""
        self._unsettled = True
        published = window.timeline.now()
        for event in report_events(window.reports, published, self._metric_aggregation):
            self._observe(event)
        if window_id == self.master.committed:  # outputs show all windows of a commit at once
            self._report_published()
        tasks: dict[str, int] = {}
        for report in window.reports:
            task = report.window.task
            tasks[task] = max(tasks.get(task, 0), report.task_attempt)
        self._observe(
            WindowCommitted(
                at=published,
                window_id=window_id,
                attempts=max(report.window.attempt for report in window.reports) + 1,
                began=window.began,
                planned=window.planned,
                launched=window.launched,
                returned=window.returned,
                staged=window.staged - window.held_seconds,
                committed=window.committed - window.held_seconds,
                published=published - window.held_seconds,
                tasks_retried=sum(tasks.values()),
                held_seconds=window.held_seconds,
            )
        )

    def _report_published(self) -> None:
        for event in self._outputs.take_published():
            self._observe(event)

    def warn(self, operator: int, text: str) -> None:
        """Report a fault in the checkpoint that was put right. `operator`: physical id of the one concerned.

        Warnings from before the first window are buffered until it begins: subscribers know the run then.
        """
        warning = StateWarning(self._clock.wall(), operator, text)
        if self._early_warnings is None:
            self._observe(warning)
        else:
            self._early_warnings.append(warning)

    def observe(self, event: RunEvent) -> None:
        """Report an event that happened outside of this run, such as Spark's own account of a window."""
        self._observe(event)

    # Between windows, and the end ---------------------------------------------------------------------------

    def idle(self) -> None:
        """Let outputs publish what has waited long enough.

        Triggers call it between windows, at least once a second. Raises what a publisher raises.

        Not while a commit is under way: outputs have staged windows for it that may never be committed.
        """
        if self._committer.under_way:
            return
        self._idled = self._clock.monotonic()
        self._outputs.idle(self.master.committed)
        self._report_published()

    def bring_on(self, seconds: float) -> None:
        """Wait a while, at most so long, for windows under way; outputs may publish. Raises as `turn`."""
        self.turn(min(seconds, _STOP_SECONDS))
        if self._clock.monotonic() - self._idled >= IDLE_SECONDS:
            self.idle()

    def rest(self, seconds: float, stop: threading.Event | None = None) -> None:
        """Wait until the next window is due or `stop` is set, perhaps less long; outputs publish meanwhile.

        No window is under way, but slots may come and go. Raises what a publisher raises, and as `turn`.
        """
        if self._executor.waits:
            self.bring_on(seconds)
            return
        due = self._clock.monotonic() + seconds
        while seconds > 0 and not self._clock.wait(min(seconds, IDLE_SECONDS), stop):
            seconds = due - self._clock.monotonic()
            if seconds > 0:
                self.turn(0.0)
                self.idle()

    def close(self, *, orderly: bool) -> None:
        """End the run and release the checkpoint. `orderly`: outputs show what they still hold back."""
        try:
            self.changes.close()
            self._committer.close()
            self.compactions.close()
            for failure in self._executor.close():
                self._warn_of_teardown(failure)
            if orderly and not self._committer.under_way:
                self._outputs.close(self.master.committed)
                self._report_published()
        finally:
            self.checkpoint.close()

    def _warn_of_teardown(self, failure: Failure) -> None:
        ids = [one.id for one in self.plan.physical.operators if failure.operator in (one.name, one.title)]
        operator = ids[min(failure.partition, len(ids) - 1)] if ids else -1
        where = f"operator `{failure.operator}` (partition {failure.partition})"
        text = f"{where}: `{failure.callback}` failed: {failure.error}; no result is lost"
        self._observe(StateWarning(self._clock.wall(), operator, text))


def _master(
    plan: Plan, checkpoint: Checkpoint, last: Manifest | None, capacity: int, *, groups: bool
) -> Master:
    """STRAM as of the last committed window.

    Raises CheckpointError if the manifest's operators are not those of the plan.
    """
    if last is None:
        return Master(plan, epoch=checkpoint.epoch, capacity=capacity, groups=groups)
    ids = {operator.state_key: operator.id for operator in plan.physical.operators}
    unknown = sorted({*last.states, *last.finished} - ids.keys())
    if unknown:
        name, partition, partitions = unknown[0].rsplit("/", 2)
        found = f"state of `{name}`, partition {partition} of {partitions}, which this application has not"
        remedy = "run it with the same operators and partitions, or give another `--checkpoint`"
        msg = f"checkpoint folder `{checkpoint.storage.uri}` holds {found}; {remedy}"
        raise CheckpointError(msg)
    return Master(
        plan,
        epoch=checkpoint.epoch,
        committed=last.window_id,
        states={ids[key]: version for key, version in last.states.items()},
        finished=frozenset(ids[key] for key in last.finished),
        capacity=capacity,
        groups=groups,
    )

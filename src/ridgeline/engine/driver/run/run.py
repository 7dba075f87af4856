"""One run of an application: reports events to the master and carries out its instructions."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ridgeline.api.clock import Clock, Timeline
from ridgeline.api.errors import (
    ApplicationKilledError,
    ChangeError,
    CheckpointError,
    OperatorError,
    RidgelineError,
    ValidationError,
    described,
)
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.engine.container.samples import StreamSamples
from ridgeline.engine.driver.checkpoint.compactions import Compactions
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest, SourceOffsets
from ridgeline.engine.driver.checkpoint.planning import Kept, Planner
from ridgeline.engine.driver.checkpoint.state_moves import (
    NOTHING,
    beginning,
    check_moves,
    conversions_of,
    give_up,
    moved,
)
from ridgeline.engine.driver.execution import WindowExecutor
from ridgeline.engine.driver.inputs import Inputs
from ridgeline.engine.driver.outputs import Outputs, OutputStores
from ridgeline.engine.driver.run.changes import ENDED, Asked, Changes, Coming, applied
from ridgeline.engine.driver.run.committing import Commits
from ridgeline.engine.driver.run.key_counting import KeyCounting
from ridgeline.engine.driver.run.opened import OpenPlan, Warm
from ridgeline.engine.driver.run.reporter import Observe, Reporter, Window
from ridgeline.engine.process.garbage import spare_reported
from ridgeline.measure.answers.application import DebugDumpAnswer
from ridgeline.measure.events import RunEvent, StateCompacted, WindowPlanned, WindowRetried, WindowStarted
from ridgeline.measure.wording.units import plural
from ridgeline.plan.change.difference import PlanDifference
from ridgeline.plan.change.edit_texts import refusal_text
from ridgeline.plan.change.state_moves import StatePlan, staying
from ridgeline.plan.change.succession import following_ids
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import is_of_store
from ridgeline.plan.shown_properties import holds_secret
from ridgeline.plan.transition import Transition
from ridgeline.stram.changes import (
    Control,
    EditPlan,
    Kill,
    Pause,
    Resume,
    Shutdown,
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
    AttemptFailed,
    CheckStates,
    Commit,
    CommitDue,
    ContainerReported,
    ControlEvent,
    ExecutorEvent,
    GiveUp,
    InputAwake,
    Instruction,
    ManifestWritten,
    Publish,
    RunStarted,
    RunWindow,
    StatesChecked,
    WindowDue,
    WindowPublished,
)
from ridgeline.stram.master import Master

IDLE_SECONDS = 1.0
"""How often outputs may publish beside windows."""
_HELD_SECONDS = 1.0
"""How long empty windows wait for a window in which something moved, and for its commit."""
_PATIENCE_SECONDS = 1.0
"""A window that takes longer is long.

At a stop windows under way are waited for for so long; then they run again at the next start.
"""
_STOP_SECONDS = 0.1
"""How soon a wait for containers sees that the run is to stop."""


UNSURE = f"{ENDED} while the first window of the change ran: a restart goes on with it if that was committed"
"""Why the outcome of a change is unknown."""


@dataclass(slots=True)
class _Since:
    """Times by the monotonic clock.

    `idle`: when outputs could last publish what waits. `held`: since when windows wait for their commit in
    which nothing moved. `not_asked`: when nobody had asked for the end. `published`: the last window was.
    """

    idle: float
    held: float | None = None
    not_asked: float = math.inf
    published: float | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """A change that is made, but not committed yet.

    `plan`, `kept`: those before. `window_id`: the first window of the new plan. `published`: when the window
    before was (monotonic).
    """

    asked: Asked
    plan: Plan
    kept: Kept
    window_id: int
    published: float | None


class ApplicationRun:
    """An application on its checkpoint: `begin` begins a window, `turn` advances those under way.

    It continues from the last committed window of its checkpoint. The master decides what is done, this class
    does it. One thread at a time.
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
        commits: Commits | None = None,
        planner: Planner | None = None,
        stores: OutputStores | None = None,
    ) -> None:
        """`settle` is called when there is time, after windows were reported.

        It does a piece of what is left to do with them, and returns True if more is left.

        `commits`: where they wait for their sync; None: in `turn`. `planner`: plans changes of the plan,
        and has what windows keep of what the application was given; None: the plan stays as it is. `stores`:
        lets outputs wait for their files; None: an output whose files are away ends the run. Raises
        CheckpointError if the checkpoint is of other operators, StateError if a state file is broken and
        nothing can replace it.
        """
        self.checkpoint = checkpoint
        self.samples = StreamSamples()
        self.keys = KeyCounting(plan, clock)
        self.compactions = compactions(plan, checkpoint)
        reporter = self._reporter = Reporter(plan, clock, observe)
        self.paused = False
        """No window begins, as a user has asked."""
        self.stopping = False
        """No window begins any more, as a user has asked."""
        self.executor = executor
        self._clock = clock
        self._planner = planner
        self._settle = settle
        self._unsettled = False
        self._since = _Since(clock.monotonic())
        self._windows: dict[int, Window] = {}
        self._commits = commits or Commits()
        self.outputs = Outputs(plan, clock, publisher_context, stores, reporter.warn_now)
        self.inputs = Inputs(
            plan, checkpoint, clock, executor.wake, reporter.warn_now, reporter.source_problem
        )
        self._trial: Trial | None = None
        """The change of the plan whose first window is not committed."""
        self._open = self._opened(plan)
        self.changes = Changes(
            clock, plan.logical.first_id, reporter.change, planner, executor, self._check_states
        )
        """Requests of users; any thread may add to them."""
        self.changes.is_secret = lambda name, value: holds_secret(self.plan.logical, name, value)
        for repair in self._open.repairs:
            self._process(repair)
        if (last := checkpoint.last()) is not None:
            self.outputs.publish_again(last.window_id, self._open.begin.publishers)
            executor.committed(last.window_id, self.master.states)

    @property
    def plan(self) -> Plan:
        """The plan of the next window."""
        return self._open.plan

    @property
    def master(self) -> Master:
        """Who decides about the windows of this plan."""
        return self._open.master

    @property
    def ending(self) -> bool:
        """True once a user has asked for the end, whether that was taken or not. Any thread may ask."""
        return self.stopping or self.changes.end_asked

    def lets_go(self, *, asked: bool) -> bool:
        """True once windows under way were waited for `_PATIENCE_SECONDS`, since the end was `asked` for.

        They are void then. What is about to be committed is waited for, however long. It was asked for after
        the last call without: outputs may have taken long since then.
        """
        now = self._clock.monotonic()
        self._since.not_asked = min(now, self._since.not_asked) if asked else now
        late = now - self._since.not_asked >= _PATIENCE_SECONDS
        return late and not self._commits.under_way and not self.master.held

    @property
    def publishers(self) -> Mapping[str, Publisher]:
        """The publishers of output operators, by operator."""
        return self.outputs.publishers

    @property
    def next_window(self) -> int:
        """The first window that is not committed."""
        return self.master.committed + 1

    @property
    def slots(self) -> int | None:
        """How many slots the containers could have now, see `WindowExecutor.slots`."""
        return self.executor.slots

    def kill(self, host: str, pid: int, reason: str) -> bool:
        """End the process of a slot, see `WindowExecutor.kill`."""
        return self.executor.kill(host, pid, reason)

    @property
    def may_begin(self) -> bool:
        """True if the next window may begin now: STRAM allows it, and no change has to come first."""
        master = self.master
        return (
            master.can_begin
            and not (self.paused or self.stopping)
            and not self._change_waits
            and not self._enough_under_way
            and self.outputs.full is None
        )

    @property
    def _change_waits(self) -> bool:
        """True if a change is due, or comes where windows take long: it need not wait for one more.

        Where none is under way it is waited for as long as the last one took.
        """
        if self._change_due(self.master.next_window):
            return self.master.under_way > 0
        if window := next(iter(self._windows.values()), None):
            long = window.timeline.now() - window.began >= _PATIENCE_SECONDS
        else:
            long = self._clock.monotonic() < self.changes.awaited_until
        return long and self.changes.comes

    @property
    def _enough_under_way(self) -> bool:
        """See `Budgets.enough_under_way`."""
        master, budgets = self.master, self.master.budgets
        windows = master.under_way - master.held if budgets.publishing else len(master.windows.running)
        if not windows:
            return False
        oldest = self._windows[master.next_window - windows]
        return budgets.enough_under_way(windows, oldest.timeline.now() - oldest.planned)

    def window(
        self,
        window_id: int,
        source: Any = None,
        offsets: SourceOffsets | None = None,
        over: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Run a window until it is committed and published; returns at once if it was committed before.

        A trigger that has one window in flight calls it, with `begin`'s arguments. False if it is `over`
        before that. Raises as `turn`.
        """
        self.begin(window_id, source, offsets=offsets)
        while self.master.committed < window_id:
            if over():
                return False
            if not self.commit_held():
                self.turn(_STOP_SECONDS)
        return True

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
        if not self._reporter.begun:
            self._start()
        # Spark repeats its last micro-batch after a restart: that window is committed already.
        if window_id > self.master.committed:
            self.take_changes()
            if not self.master.under_way and (coming := self._change_due(window_id)):
                self._switch(coming)
            read = self.inputs.advance(window_id, self.master.budgets.next)
            self._windows[window_id] = Window(source, offsets, due, Timeline(self._clock), read)
        self._due(window_id)

    def _due(self, window_id: int) -> None:
        """Report that a window is due, unless it was committed before."""
        window = self._windows.get(window_id)
        read = {} if window is None else window.read
        time = round(self.inputs.time.now() * 1_000_000)
        self._process(WindowDue(window_id, time, read, self.inputs.taken))

    def turn(self, seconds: float) -> None:
        """Wait at most so long for what becomes of windows under way; commit and publish what is complete.

        Raises OperatorError when a window failed more often than `recovery_attempts` allows. Raises
        CheckpointError or FencedError when one could not be committed. FencedError also for a failure after
        another driver has taken the folder over. Nothing of it counts then, nor of later ones.
        CheckpointError also if a state cannot be compacted that windows wait for.
        """
        events = self._poll(seconds)
        self._end_waiting(events)
        for event in events:
            if isinstance(event, ContainerReported):
                window = self._windows.get(event.report.window.window_id)
                if window is not None:
                    window.returned = window.timeline.now()
                    self._reporter.reported(event.report)
        if self.inputs.take_awake():
            self._process(InputAwake())
        self._process(*events)
        self._reporter.report_taken(self._windows)
        self._reporter.look_at_clock()
        if written := self._commits.finished():
            self._process(written)
        if not self.master.held:
            self._since.held = None
        elif self._since.held is None:
            self._since.held = self._clock.monotonic()
        elif self._clock.monotonic() - self._since.held >= _HELD_SECONDS:
            self.commit_held()

    def _end_waiting(self, events: Sequence[ExecutorEvent]) -> None:
        """Raise OperatorError if the run is to end, and a container has waited for a store for too long."""
        for event in events:
            if isinstance(event, AttemptFailed) and is_of_store(event.failure) and self.outputs.ending:
                error = OperatorError(event.failure)
                raise self.checkpoint.taken_over(error) or error

    def commit_held(self) -> bool:
        """Commit the windows that are held; True if there are any. To be called where no further one begins.

        Raises as `turn`.
        """
        self._since.held = None
        if not self.master.held:
            return False
        self._process(CommitDue())
        return True

    def _poll(self, seconds: float) -> Sequence[ExecutorEvent]:
        """Handle the events of windows; waits at most `seconds` for one, and does what can wait meanwhile."""
        while self._unsettled and self._settle is not None:
            events = self._poll_executor(0.0)
            if events or self._commits.done:
                return events
            self._unsettled = self._settle()
        return self._poll_executor(0.0 if self._commits.done else seconds)

    def _poll_executor(self, seconds: float) -> Sequence[ExecutorEvent]:
        try:
            return self.executor.poll(seconds)
        except OperatorError as error:
            raise self.checkpoint.taken_over(error) or error  # noqa: B904  it may be this one

    # What users ask for -------------------------------------------------------------------------------------

    def take_changes(self, *, wait: bool = False) -> None:
        """Take in what was asked for since the last call; `wait` until that is planned.

        Raises ApplicationKilledError.
        """
        for asked in self.changes.take():
            what = asked.what
            if isinstance(what, EditPlan):
                self._reporter.change(asked)
                self.changes.add(asked)
            else:
                self._control(asked, what)
        if self._trial is None:
            self.changes.turn(self.plan, wait=wait)

    def _control(self, asked: Asked, what: Control) -> None:
        """Pause, resume, or end. Raises ApplicationKilledError."""
        self.paused = isinstance(what, Pause) or (self.paused and not isinstance(what, Resume))
        self.stopping = self.stopping or isinstance(what, Shutdown)
        applied(asked, self.master.next_window)
        self._reporter.change(asked)
        if isinstance(what, Kill):
            raise ApplicationKilledError(
                f"the application was killed by {asked.by}; it goes on from its last commit"
            )

    def preview(self, edits: tuple[Edit, ...]) -> PlanDifference:
        """The effect of a change of the plan; nothing is done. Any thread may ask.

        Raises ValidationError with all faults, ChangeError. So it does if slots or states refuse the plan.
        """
        try:
            return self.changes.preview(edits, self.plan, self._check).difference
        except (ChangeError, ValidationError):
            raise
        except RidgelineError as error:
            raise ChangeError(refusal_text(error)) from error

    def on_plan(self, planned_event: Callable[[Plan], RunEvent]) -> None:
        """Report the event that this makes of each plan that follows, before the first window of it."""
        self._reporter.planned_event = planned_event

    def observe(self, event: RunEvent) -> None:
        """Report an event that happened outside of this run, such as Spark's own account of a window."""
        self._reporter.report(event)

    # Events and instructions --------------------------------------------------------------------------------

    def _start(self) -> None:
        """Before the first window: emit the buffered warnings, begin compactions that are due."""
        self._reporter.begin()
        self._process(RunStarted())

    def _process(self, *events: ControlEvent) -> None:
        """Report events to the master and carry out its instructions, until no event follows from them."""
        instructions = deque(instruction for event in events for instruction in self._handle(event))
        while instructions:
            for result in self._carry_out(instructions.popleft()):
                instructions.extend(self._handle(result))

    def _handle(self, event: ControlEvent) -> Sequence[Instruction]:
        return self._reporter.control_log.handle(event, self.master.handle)

    def debug_dump(self, error: BaseException | None = None) -> DebugDumpAnswer:
        """The last events and instructions. Any thread may ask. `error`: of which the driver dies."""
        return self._reporter.control_log.dump(self.master, error)

    def _carry_out(  # noqa: PLR0911  a case each
        self, instruction: Instruction
    ) -> Iterable[ControlEvent]:
        """Carry out one instruction; blocks. Returns the resulting events. Takes no decision."""
        match instruction:
            case RunWindow():
                self._begin_attempt(instruction)
                return ()
            case CheckStates():
                return (*self._open.repair.repair(self.master.states), StatesChecked())
            case Commit():
                if not self._begin_commit(instruction):
                    return ()
                written = self._commits.finished()
                return (written,) if written else ()
            case Publish(window_id, before):
                if self._trial is not None:  # applied: who has asked waits for no output
                    applied(self._trial.asked, self._trial.window_id)
                self.outputs.publish(window_id)
                for published in (*before, window_id):
                    self.executor.committed(published, self.master.states)
                    window = self._windows.pop(published)
                    self.inputs.committed(published, window.read, window.reports)
                    self.samples.take(window.reports)
                    self.keys.take(window.reports)
                    self._unsettled = True
                    took = window.timeline.now() - window.began
                    if took >= _PATIENCE_SECONDS:
                        self.changes.awaited_until = self._clock.monotonic() + took
                    seen = self.outputs.take_published() if published == window_id else ()
                    self._reporter.window(published, window, seen)  # outputs show a commit's windows at once
                self._end_trial()
                self.changes.ask_to_leave(self.outputs.over)
                self.checkpoint.purge(self.plan.logical.attributes["windows_kept"])
                spare_reported()
                seconds = self.outputs.take_seconds()
                return (*self.compactions.finished(), WindowPublished(window_id, seconds))
            case GiveUp(failure):
                if self._trial is None:
                    error = OperatorError(failure)
                    raise self.checkpoint.taken_over(error) or error
                self._take_back(self._trial, failure)
                return ()
            case _:
                return self._carry_out_compaction(instruction)

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
                self._reporter.report(StateCompacted(self._clock.wall(), operator, files, size_bytes))
            case WarnOfState(operator, text):
                self._reporter.warn(operator, text)
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
            window.closing = request.final and not instruction.reason
            self._reporter.report(
                WindowRetried(window.planned, window_id, attempt, instruction.reason, final=window.closing)
            )
        else:
            due = window.began if window.due is None else min(window.due, window.began)
            self._reporter.report(WindowPlanned(window.began, window_id, self.plan.version, due))
        self._reporter.report(WindowStarted(window.planned, window_id, attempt))
        request = self.keys.asked(self.samples.asked(request))
        window.launched = self.executor.begin(request, window.source)

    def _begin_commit(self, commit: Commit) -> bool:
        """Begin to commit windows; False if outputs refuse the first one of a plan: it is given up."""
        try:
            self._commit(commit)
        except OperatorError as error:
            if self._trial is None:
                raise
            self.outputs.abandon()
            self._take_back(self._trial, error.failure)
            return False
        return True

    def _commit(self, commit: Commit) -> None:
        """Let the outputs stage the windows, then begin to write a record with the small changes of state."""
        windows = [self._windows[window_id] for window_id in commit.reports]
        for window in windows[: commit.held]:
            window.held_seconds = max(0.0, window.timeline.now() - window.returned)
        now, kept = self._open, Kept() if self._planner is None else self._planner.kept
        publishers: dict[str, object] = {}
        changes: dict[str, bytes] = {}
        for window, (window_id, reports) in zip(windows, commit.reports.items(), strict=True):
            window.reports = reports
            publishers = self.outputs.stage(window_id, reports)
            now.note(reports)
            window.staged = window.timeline.now()
            changes.update(report.small_change for report in reports if report.small_change)
        last = windows[-1]
        keys = now.state_keys
        offsets = last.offsets and replace(last.offsets, waiting=self.inputs.cut(last.reports))
        manifest = Manifest(
            window_id=commit.window_id,
            epoch=self.checkpoint.epoch,
            plan_version=self.plan.version,
            states={**now.states, **{keys[one]: version for one, version in commit.states.items()}},
            finished=sorted(keys[operator] for operator in commit.finished),
            publishers=publishers,
            ended=commit.ends,
            offsets=offsets,
            properties=kept.properties,
            edits=kept.edits,
            divided=now.divisions,
            outputs=self.outputs.places,
            schemas=now.schemas.picture,
            passed_over=self.plan.passed_over,
            inputs={name: one.end for name, one in last.read.items() if one.end is not None},
        )

        def write() -> ManifestWritten:
            names = self.checkpoint.commit(manifest, changes)
            for window in windows:
                window.committed = window.timeline.now()
            return ManifestWritten(commit.window_id, names)

        self.outputs.committing(commit.window_id)
        self._commits.begin(write)

    # Another plan -------------------------------------------------------------------------------------------

    @property
    def _warm(self) -> Warm:
        return Warm(self.checkpoint, self.executor, self.inputs, self.outputs)

    def _opened(self, plan: Plan) -> OpenPlan:
        """Open the plan of a start where the last commit of any driver left it."""
        last, begin = self.checkpoint.last(), NOTHING
        if last is not None:
            begin = beginning(plan, self.checkpoint, last, self._planner)
            anew = {one.name for one in plan.logical.operators if not one.attributes["keep_state"]}
            inputs = {name: offset for name, offset in begin.inputs.items() if name not in anew}
            begin = replace(begin, inputs=inputs, moved=frozenset(begin.states))
        return OpenPlan(plan, begin, self._warm)

    def _reopen(self, plan: Plan, states: StatePlan, *, new: bool = False) -> None:
        """Open a plan in the place of this one; no window is under way. Raises as `OpenPlan`."""
        last, begin = self.checkpoint.last(), NOTHING
        try:
            if last is not None:
                begin = moved(plan, self.checkpoint, last, states)
            self._open = OpenPlan(plan, begin, self._warm, self.master, new=new)
        except Exception:
            give_up(self.checkpoint, begin.stems)
            raise
        self.keys.change(plan)
        self.compactions.change(plan)
        self._reporter.follow(plan)

    def _change_due(self, window_id: int) -> Coming | None:
        """The change that takes effect with this window, which is the next one to begin; None: none does.

        None does before the states that another version of the application has left are committed.
        """
        return None if self._open.begin.other else self.changes.due(window_id)

    def _switch(self, coming: Coming) -> None:
        """Continue with another plan; no window is under way. If that cannot be, the plan of now goes on."""
        before, window_id = self.plan, self.master.next_window
        what, following = coming.asked.what, coming.transition
        assert isinstance(what, EditPlan)  # noqa: S101  no other is planned
        assert following is not None  # noqa: S101  it is due
        assert self._planner is not None  # noqa: S101  it has planned
        try:
            self._reopen(following.plan, following.states, new=True)
        except Exception as error:  # noqa: BLE001  code of users may raise anything
            reason = refusal_text(error) if isinstance(error, RidgelineError) else described(error)
            self._reopen(before, staying(before))
            self.changes.refuse(coming.asked, reason)
        else:
            self._trial = Trial(coming.asked, before, self._planner.kept, window_id, self._since.published)
            self._planner.keep(what.edits, following.plan)
            self._reporter.planned(self.plan)
        self.changes.made()

    def _take_back(self, trial: Trial, failure: object) -> None:
        """Run the first window of a plan with the plan before: it cannot be committed."""
        assert self._planner is not None  # noqa: S101  it has planned
        self._trial, self._planner.kept = None, trial.kept
        give_up(self.checkpoint, self._open.begin.stems)
        before = replace(trial.plan, version=self.plan.version + 1, next_ids=following_ids(self.plan))
        self._reopen(before, staying(before))
        self._reporter.planned(self.plan)
        self.changes.refuse(trial.asked, f"its first window failed, so it was taken back: {failure}")
        window_id = self.master.next_window
        self._windows = {window_id: self._windows[window_id]}
        self._windows[window_id].read = self.inputs.advance(window_id, self.master.budgets.next)
        self._due(window_id)

    def _end_trial(self) -> None:
        """A window is committed and published; perhaps it is the first one of a plan."""
        now, last = self._clock.monotonic(), self.checkpoint.last()
        assert last is not None  # noqa: S101  it is committed
        self._open.states = last.states
        give_up(self.checkpoint, self._open.begin.stems)  # windows name them now, or do without
        self._open.begin = NOTHING
        if (trial := self._trial) is not None:
            held = 0.0 if trial.published is None else now - trial.published
            self._reporter.change(trial.asked, held)
        self._trial, self._since.published = None, now

    def _abandon_trial(self) -> None:
        """No further window runs: say what has become of a change whose first window was under way."""
        trial, self._trial = self._trial, None
        if trial is None:
            return
        if self.checkpoint.committed >= trial.window_id:
            applied(trial.asked, trial.window_id)
            self._reporter.change(trial.asked)
        else:
            self.changes.refuse(trial.asked, UNSURE)

    def _check(self, transition: Transition) -> None:
        """Raise RidgelineError for what slots or states would refuse of a plan as of now; any thread."""
        self._check_states(transition)
        self.executor.check(transition.plan)
        check_moves(transition.plan, self.checkpoint, transition.states)

    def _check_states(self, made: Transition) -> None:
        """Refuse a change that would lose a state or read it as another one. Raises ValidationError."""
        last = self.checkpoint.last()
        if last is not None:
            conversions_of(made.plan, last, made.states)

    # Between windows, and the end ---------------------------------------------------------------------------

    def idle(self) -> None:
        """Let outputs publish what has waited long enough.

        Triggers call it between windows, at least once a second. Raises what a publisher raises.

        Not while a commit is under way: outputs have staged windows for it that may never be committed.
        """
        if self._commits.under_way:
            return
        self._since.idle = self._clock.monotonic()
        self.outputs.idle(self.master.committed)
        self._reporter.published(self.outputs.take_published())

    def poll_windows(self, seconds: float) -> None:
        """Wait a while, at most so long, for windows under way; outputs may publish. Raises as `turn`."""
        self.turn(min(seconds, _STOP_SECONDS))
        if self._clock.monotonic() - self._since.idle >= IDLE_SECONDS:
            self.idle()

    def wait_until_due(self, seconds: float, stop: threading.Event | None = None) -> None:
        """Wait until the next window is due or `stop` is set, perhaps less long; outputs publish meanwhile.

        No window is under way, but slots may come and go. Raises what a publisher raises, and as `turn`.
        """
        if self.executor.waits:
            self.poll_windows(seconds)
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
            self._commits.close()
            self.inputs.close()
            self._abandon_trial()
            self.compactions.close()
            void = self.master.under_way if orderly else 0
            if void:
                what = f"{plural(void, 'window')} from window {self.next_window} on took too long to wait for"
                self._reporter.warn_now(f"{what}: void, and run again at the next start")
            for failure in self.executor.close(at_once=bool(void)):
                self._reporter.teardown_failed(failure)
            if orderly and not self._commits.under_way:
                self.outputs.close(self.master.committed)
                self._reporter.published(self.outputs.take_published())
            else:
                self.outputs.abandon()
        finally:
            self.checkpoint.close()

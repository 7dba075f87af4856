"""What a run has of its plan, and how it goes on with another one between two windows.

`ApplicationRun` adds what is done for each window.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from ridgeline.api.clock import Clock
from ridgeline.api.errors import (
    ApplicationKilledError,
    ChangeError,
    FencedError,
    RidgelineError,
    ValidationError,
    described,
)
from ridgeline.api.publisher import PublisherContext
from ridgeline.engine.container.samples import Tails
from ridgeline.engine.driver.checkpoint.compactions import Compactions
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.kept_properties import NOTHING_KEPT
from ridgeline.engine.driver.checkpoint.left_outputs import take_back_left
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.checkpoint.state_moves import (
    NOTHING,
    Beginning,
    beginning,
    check_moves,
    conversions_of,
    give_up,
    moved,
)
from ridgeline.engine.driver.checkpoint.state_repair import StateRepair
from ridgeline.engine.driver.execution import WindowExecutor
from ridgeline.engine.driver.outputs import Outputs
from ridgeline.engine.driver.run.changes import ENDED, Asked, Changes, applied, refused
from ridgeline.engine.driver.run.changing import PlanChanges, PlannedChange, Switch
from ridgeline.engine.driver.run.committing import CommitHere, Committer
from ridgeline.engine.driver.run.key_counting import KeyCounting
from ridgeline.engine.driver.run.recordings import Recordings
from ridgeline.engine.driver.run.reporter import Observe, Reporter
from ridgeline.engine.driver.run.window import Window
from ridgeline.engine.process.plan_files import PLAN_FILES
from ridgeline.measure.events import (
    RunEvent,
)
from ridgeline.plan.change.difference import PlanDifference
from ridgeline.plan.change.divisions import divisions
from ridgeline.plan.change.edit_texts import refusal_text
from ridgeline.plan.change.state_moves import staying
from ridgeline.plan.change.state_schemas import Schemas
from ridgeline.plan.change.succession import following_ids
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.plan.transition import Transition
from ridgeline.stram.changes import (
    ChangeAsked,
    Control,
    Kill,
    Pause,
    PlanChange,
    RecordingFailed,
    RecordingsFound,
    Resume,
    Shutdown,
    StartRecording,
    StopRecording,
)
from ridgeline.stram.control import (
    ControlEvent,
    StatesMoved,
    WindowDue,
)
from ridgeline.stram.master import Master

UNSURE = f"{ENDED} while the first window of the change ran: a restart goes on with it if that was committed"
"""Why nobody can say what has become of a change."""


class ChangingRun(ABC):
    """A run with its plan, which changes of the plan replace. One thread at a time."""

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
        planner: Planner | None = None,
    ) -> None:
        """`settle` is called when there is time, after windows were reported.

        It does a piece of what is left to do with them, and says if more is left.

        `committer`: where commits wait for their sync; None: in `turn`. `planner`: plans changes of the plan,
        and says what windows keep of what the application was given; None: the plan stays as it is.
        """
        self.plan = plan
        self.checkpoint = checkpoint
        self.tails = Tails()
        self.keys = KeyCounting(plan, clock)
        self._reporter = Reporter(plan, clock, observe)
        self.changes = Changes(clock.wall)
        self.changes.withdrawn = self._reporter.change
        self.recordings = Recordings(plan, checkpoint, clock)
        self._asked: dict[int, Asked] = {}
        self._executor = executor
        self._clock = clock
        self._settle = settle
        self._unsettled = False
        self._idled = clock.monotonic()
        self._held_since: float | None = None
        """Since when windows wait for their commit in which nothing moved."""
        self._windows: dict[int, Window] = {}
        self._committer = committer or CommitHere()
        self.properties = NOTHING_KEPT
        """What windows that are committed from now on keep of what the application was given from outside."""
        self._outputs = Outputs(plan, clock)
        self._state_keys = {operator.id: operator.state_key for operator in plan.physical.operators}
        self._divisions = divisions(plan)
        self._planner = planner
        self._plan_changes = PlanChanges(planner, executor, self.changes, self._refused, self._check_states)
        self._unused_plans: frozenset[str] | None = None
        """The files of plans that were in use no more when they were last purged; None: they never were."""
        self._switched: Switch | None = None
        """The change of the plan whose first window is not committed."""
        self._published_at: float | None = None
        """When the last window was published, by the monotonic clock."""
        self.planned_event: Callable[[Plan], RunEvent] | None = None
        """What is reported when the plan has changed, before the first window of it."""
        self.paused = self.stopping = False
        last = checkpoint.last()
        self._moved = NOTHING if last is None else beginning(plan, checkpoint, last, planner)
        self._schemas = Schemas(plan.physical.operators, self._moved.schemas)
        self.master = Master(
            plan,
            epoch=checkpoint.epoch,
            committed=-1 if last is None else last.window_id,
            states=self._moved.states,
            finished=self._moved.finished,
            capacity=executor.capacity,
            groups=self._outputs.group_windows,
        )
        self.compactions = compactions(plan, checkpoint)
        self._repair = StateRepair(plan, checkpoint)
        repairs, self._sizes = self._repair.recover(self.master.states)
        for repair in repairs:
            self._process(repair)
        take_back_left(plan, last, publisher_context)
        self._outputs.open(publisher_context, self._moved.publishers, self.master.committed)
        self.recordings.on_failure = self._recording_failed
        self._process(RecordingsFound(self.recordings.find(self.master.committed)))
        if last:
            self._outputs.publish_again(last.window_id, self._moved.publishers)
            self._executor.committed(last.window_id, self.master.states)

    @abstractmethod
    def _process(self, *events: ControlEvent) -> None:
        """Report events to the master and carry out its instructions, until no event follows from them."""

    # What was asked for -------------------------------------------------------------------------------------

    def take_changes(self, *, wait: bool = False) -> None:
        """Take in what was asked for since the last call; `wait` until that is planned.

        Raises ApplicationKilledError.
        """
        for asked in self.changes.take():
            what = asked.change.what
            if isinstance(what, PlanChange):
                self._reporter.change(asked)
                self._plan_changes.add(asked)
            elif isinstance(what, StartRecording | StopRecording):
                self._asked[asked.change.number] = asked
                self._process(ChangeAsked(asked.change))
                del self._asked[asked.change.number]
            else:
                self._control(asked, what)
        if self._switched is None:  # else it is not sure yet which plan is the one to change
            self._plan_changes.turn(self.plan, self.master.next_window, wait=wait)

    def preview(self, edits: tuple[Edit, ...]) -> PlanDifference:
        """What a change of the plan would do; nothing is done. Any thread may ask.

        Raises ValidationError with all faults, ChangeError. So it does if slots or states refuse the plan.
        """
        try:
            return self._plan_changes.preview(edits, self.plan, self._check)
        except (ChangeError, ValidationError):
            raise
        except RidgelineError as error:
            raise ChangeError(refusal_text(error)) from error

    def _check(self, transition: Transition) -> None:
        """Raise RidgelineError for what slots or states would refuse of a plan as of now."""
        self._check_states(transition)
        self._executor.check(transition.plan)
        check_moves(transition.plan, self.checkpoint, transition.states)

    def _check_states(self, made: Transition) -> None:
        """Refuse a change that would lose a state or read it as another one. Raises ValidationError."""
        last = self.checkpoint.last()
        if last is not None:
            conversions_of(made.plan, last, made.states, live=True)

    def _control(self, asked: Asked, what: Control) -> None:
        """Pause, go on, or end. Raises ApplicationKilledError."""
        self.paused = isinstance(what, Pause) or (self.paused and not isinstance(what, Resume))
        self.stopping = self.stopping or isinstance(what, Shutdown)
        applied(asked, self.master.next_window, "")
        self._reporter.change(asked)
        if isinstance(what, Kill):
            msg = f"the application was killed by {asked.change.by}; it goes on from its last commit"
            raise ApplicationKilledError(msg)

    def _refused(self, asked: Asked, reason: str) -> None:
        refused(asked, reason)
        self._reporter.change(asked)

    def _recording_failed(self, recording: str, window_id: int) -> None:
        self.master.handle(RecordingFailed(recording, window_id))

    # Another plan -------------------------------------------------------------------------------------------

    def _due(self, window_id: int) -> PlannedChange | None:
        """The change that takes effect with this window, which is the next one to begin; None: none does.

        None does before the states that another version of the application has left are committed.
        """
        return None if self._moved.other else self._plan_changes.due(window_id)

    def _switch(self, planned: PlannedChange) -> None:
        """Go on with another plan; no window is under way. What cannot be is refused, and the plan stays."""
        before, last, committed = self.plan, self.checkpoint.last(), self.master.committed
        shown = {} if last is None else last.publishers
        begin = NOTHING
        try:
            if last is not None:
                begin = moved(planned.plan, self.checkpoint, last, planned.transition.states)
            self._outputs.change(planned.plan, begin.publishers, committed, shown)
            self._executor.change(planned.plan)
        except Exception as error:  # noqa: BLE001  code of users may raise anything
            give_up(self.checkpoint, begin.stems)
            self._executor.abandon()
            if self._outputs.plan is planned.plan:
                self._executor.change(before)
                self._outputs.change(before, shown, committed)
            reason = refusal_text(error) if isinstance(error, RidgelineError) else described(error)
            self._refused(planned.asked, reason)
        else:
            assert self._planner is not None  # noqa: S101  it has planned
            take_back = self._planner.keep(planned.edits, planned.plan)
            window_id = self.master.next_window
            self._switched = Switch(planned.asked, before, take_back, window_id, self._published_at)
            self._take_plan(planned.plan, begin)
        self._plan_changes.made()

    def _take_plan(self, plan: Plan, begin: Beginning) -> None:
        """Go on with a plan that the executor and the outputs have, and with these states."""
        before = self.master
        self.plan, self._moved = plan, begin
        self.recordings.change(plan)
        self.keys.change(plan)
        self.compactions.change(plan)
        self._repair = StateRepair(plan, self.checkpoint)
        self._reporter.follow(plan)
        self._state_keys = {operator.id: operator.state_key for operator in plan.physical.operators}
        self._divisions = divisions(plan)
        self._schemas = Schemas(plan.physical.operators, begin.schemas)
        self.master = Master(
            plan,
            epoch=self.checkpoint.epoch,
            committed=before.committed,
            states=begin.states,
            finished=begin.finished,
            capacity=self._executor.capacity,
            groups=self._outputs.group_windows,
            follows=before,
        )
        moved_states = {one: begin.states[one] for one in begin.moved if one in begin.states}
        _, sizes = self._repair.recover(moved_states)
        self._process(StatesMoved(sizes), RecordingsFound(before.recordings))
        if self.planned_event is not None:
            self._reporter.tell(self.planned_event(plan))

    def _switch_back(self, failure: object, *, staged: bool = False) -> None:
        """The first window of a plan cannot be committed: go back to the plan before, and run it there.

        `staged`: outputs were about to stage it.
        """
        switch, self._switched = self._switched, None
        assert switch is not None  # noqa: S101  the caller has looked
        switch.take_back()
        give_up(self.checkpoint, self._moved.stems)
        last = self.checkpoint.last()
        before = replace(switch.plan, version=self.plan.version + 1, next_ids=following_ids(self.plan))
        self._executor.change(before)
        shown = {} if last is None else last.publishers
        self._outputs.change(before, shown, self.master.committed, void=staged)
        states = staying(before)
        self._take_plan(before, NOTHING if last is None else moved(before, self.checkpoint, last, states))
        self._refused(switch.asked, f"its first window failed, so it was taken back: {failure}")
        window_id = self.master.next_window
        self._windows = {window_id: self._windows[window_id]}
        self._process(WindowDue(window_id, round(self._clock.wall() * 1_000_000)))

    def _settle_change(self) -> None:
        """A window is committed and published; perhaps it is the first one of a plan."""
        now = self._clock.monotonic()
        if self._switched is not None or self._unused_plans is None:
            self._plan_changes.beside(self._purge_plans)
        give_up(self.checkpoint, self._moved.stems)  # windows name them now, or do without
        self._moved = NOTHING
        if self._switched is not None:
            switch, self._switched = self._switched, None
            applied(switch.asked, switch.window_id, "")
            held = 0.0 if switch.published_at is None else now - switch.published_at
            self._reporter.change(switch.asked, held)
        self._published_at = now

    def _purge_plans(self) -> None:
        """Remove the files of plans that nobody needs any more. What cannot be removed is tried again.

        A driver that was displaced removes nothing: the files may be those of the one that goes on.
        """
        with contextlib.suppress(OSError, FencedError):
            self.checkpoint.check_owner()
            storage, epoch = self.checkpoint.storage, self.checkpoint.epoch
            self._unused_plans = PLAN_FILES.purge(storage, epoch, self._unused_plans)

    def _settle_at_end(self) -> None:
        """No window goes on: say what has become of a change whose first window was under way."""
        if self._switched is None:
            return
        switch, self._switched = self._switched, None
        last = self.checkpoint.last()
        if last is not None and last.window_id >= switch.window_id:
            applied(switch.asked, switch.window_id, "")
            self._reporter.change(switch.asked)
        else:
            self._refused(switch.asked, UNSURE)

    # Events for subscribers ---------------------------------------------------------------------------------

    def warn(self, operator: int, text: str) -> None:
        """Report a fault in the checkpoint that was put right, as `Reporter.warn`."""
        self._reporter.warn(operator, text)

    def observe(self, event: RunEvent) -> None:
        """Report an event that happened outside of this run, such as Spark's own account of a window."""
        self._reporter.tell(event)

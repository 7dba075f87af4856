"""The plan of a run, and how the run continues with another one between two windows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ridgeline.api.clock import Clock
from ridgeline.api.errors import FencedError, RidgelineError, described
from ridgeline.api.publisher import PublisherContext
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
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
from ridgeline.engine.driver.inputs import Inputs
from ridgeline.engine.driver.outputs import Outputs
from ridgeline.engine.driver.run.changes import ENDED, Asked, Changes, applied, refused
from ridgeline.engine.driver.run.changing import ChangePlanner, PlannedChange, Switch
from ridgeline.engine.driver.run.reporter import Reporter
from ridgeline.engine.process.plan_files import PLAN_FILES
from ridgeline.measure.events import RunEvent
from ridgeline.plan.change.difference import PlanDifference
from ridgeline.plan.change.divisions import divisions
from ridgeline.plan.change.edit_texts import refusal_text
from ridgeline.plan.change.state_moves import staying
from ridgeline.plan.change.state_schemas import Schemas
from ridgeline.plan.change.succession import following_ids
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import WindowReport
from ridgeline.plan.transition import Transition
from ridgeline.stram.changes import RecordingsFound
from ridgeline.stram.compaction import StateSize
from ridgeline.stram.control import StatesMoved
from ridgeline.stram.master import Master

UNSURE = f"{ENDED} while the first window of the change ran: a restart goes on with it if that was committed"
"""Why the outcome of a change is unknown."""


class PlanRecord:
    """Parts of a plan that each commit writes: names of states, divisions of tuples, classes in states."""

    def __init__(self, plan: Plan, schemas: Mapping[str, object]) -> None:
        """`schemas`: those of the commits before."""
        self.state_keys = {operator.id: operator.state_key for operator in plan.physical.operators}
        self.divisions = divisions(plan)
        self.schemas = Schemas(plan.physical.operators, schemas)

    def note(self, reports: Iterable[WindowReport]) -> None:
        """Note which states hold something from now on, and of what classes."""
        for report in reports:
            for one in report.operators:
                if one.changed:
                    key = self.state_keys[one.window.operator].rsplit("/", 2)[0]
                    self.schemas.note(key, one.changed)


class LivePlan:
    """The plan of a run, with the master that decides about its windows. One thread at a time.

    `inputs`: what each window reads. `record`: what commits write of the plan. `planned_event`: makes the
    event to report when the plan has changed, before the first window of it.
    """

    def __init__(  # noqa: PLR0913, PLR0917  what a plan has to do with
        self,
        plan: Plan,
        checkpoint: Checkpoint,
        executor: WindowExecutor,
        clock: Clock,
        inputs: Inputs,
        outputs: Outputs,
        reporter: Reporter,
        changes: Changes,
        planner: Planner | None,
    ) -> None:
        """`planner`: plans changes of the plan; None: the plan stays as it is."""
        self.plan = plan
        self.planned_event: Callable[[Plan], RunEvent] | None = None
        self._checkpoint = checkpoint
        self._executor = executor
        self._clock = clock
        self.inputs = inputs
        self._outputs = outputs
        self._reporter = reporter
        self._planner = planner
        self.changes = ChangePlanner(planner, executor, changes, self.refuse, self._check_states)
        """The changes of the plan that wait."""
        self._followers: Sequence[Callable[[Plan], None]] = ()
        self._process: Callable[..., None]
        self._unused_files: frozenset[str] | None = None
        """The files of plans that were in use no more when they were last purged; None: they never were."""
        self._switched: Switch | None = None
        """The change of the plan whose first window is not committed."""
        self._published_at: float | None = None
        """When the last window was published, by the monotonic clock."""
        last = checkpoint.last()
        self._begin = NOTHING if last is None else beginning(plan, checkpoint, last, planner)
        self.record = PlanRecord(plan, self._begin.schemas)
        self.master = self._new_master(-1 if last is None else last.window_id)
        self.repair = StateRepair(plan, checkpoint)

    def _new_master(self, committed: int, follows: Master | None = None) -> Master:
        """Who decides about the windows of this plan after the one that is committed."""
        return Master(
            self.plan,
            epoch=self._checkpoint.epoch,
            committed=committed,
            states=self._begin.states,
            finished=self._begin.finished,
            capacity=self._executor.capacity,
            groups=self._outputs.group_windows,
            follows=follows,
        )

    def open(
        self,
        process: Callable[..., None],
        publisher_context: Callable[[str], PublisherContext],
        recordings: Callable[[int], RecordingsFound],
        followers: Sequence[Callable[[Plan], None]],
    ) -> Mapping[int, StateSize]:
        """Bring states and outputs to where the last commit left them; the sizes of the states by operator.

        `process`: reports events to the master and carries out its instructions. `recordings`: those that the
        checkpoint has as of a window. `followers`: are called with each plan that follows.
        """
        self._process, self._followers = process, followers
        last, committed = self._checkpoint.last(), self.master.committed
        repairs, sizes = self.repair.recover(self.master.states)
        for repair in repairs:
            process(repair)
        self._outputs.open(publisher_context, self._begin.publishers, committed)
        self.inputs.open(self._begin.inputs)
        process(recordings(committed))
        if last:
            self._outputs.publish_again(last.window_id, self._begin.publishers)
            self._executor.committed(last.window_id, self.master.states)
        return sizes

    @property
    def is_sure(self) -> bool:
        """False while the first window of a change is not committed: either plan may stay."""
        return self._switched is None

    def preview(self, edits: tuple[Edit, ...]) -> PlanDifference:
        """The effect of a change of the plan; nothing is done. Any thread may ask.

        Raises ValidationError with all faults, ChangeError. So it does if slots or states refuse the plan.
        """
        return self.changes.preview(edits, self.plan, self._check)

    def due(self, window_id: int) -> PlannedChange | None:
        """The change that takes effect with this window, which is the next one to begin; None: none does.

        None does before the states that another version of the application has left are committed.
        """
        return None if self._begin.other else self.changes.due(window_id)

    def refuse(self, asked: Asked, reason: str) -> None:
        """Refuse a change, and report it."""
        refused(asked, reason)
        self._reporter.change(asked)

    def _check(self, transition: Transition) -> None:
        """Raise RidgelineError for what slots or states would refuse of a plan as of now."""
        self._check_states(transition)
        self._executor.check(transition.plan)
        check_moves(transition.plan, self._checkpoint, transition.states)

    def _check_states(self, made: Transition) -> None:
        """Refuse a change that would lose a state or read it as another one. Raises ValidationError."""
        last = self._checkpoint.last()
        if last is not None:
            conversions_of(made.plan, last, made.states, live=True)

    # Another plan -------------------------------------------------------------------------------------------

    def switch(self, planned: PlannedChange) -> None:
        """Continue with another plan; no window is under way. An impossible change is refused."""
        before, last, committed = self.plan, self._checkpoint.last(), self.master.committed
        shown = {} if last is None else last.publishers
        begin = NOTHING
        try:
            if last is not None:
                begin = moved(planned.plan, self._checkpoint, last, planned.transition.states)
            self.inputs.prepare(planned.plan, begin.inputs)
            self._outputs.change(planned.plan, begin.publishers, committed, shown)
            self._executor.change(planned.plan)
        except Exception as error:  # noqa: BLE001  code of users may raise anything
            give_up(self._checkpoint, begin.stems)
            self.inputs.abandon()
            self._executor.abandon()
            if self._outputs.plan is planned.plan:
                self._executor.change(before)
                self._outputs.change(before, shown, committed)
            reason = refusal_text(error) if isinstance(error, RidgelineError) else described(error)
            self.refuse(planned.asked, reason)
        else:
            assert self._planner is not None  # noqa: S101  it has planned
            take_back = self._planner.keep(planned.edits, planned.plan)
            window_id = self.master.next_window
            self._switched = Switch(planned.asked, before, take_back, window_id, self._published_at)
            self._take(planned.plan, begin)
        self.changes.made()

    def _take(self, plan: Plan, begin: Beginning) -> None:
        """Continue with a plan that the executor and the outputs have, and with these states."""
        before = self.master
        self.plan, self._begin = plan, begin
        self.inputs.change()
        for follow in self._followers:
            follow(plan)
        self.repair = StateRepair(plan, self._checkpoint)
        self.record = PlanRecord(plan, begin.schemas)
        self.master = self._new_master(before.committed, before)
        moved_states = {one: begin.states[one] for one in begin.moved if one in begin.states}
        _, sizes = self.repair.recover(moved_states)
        self._process(StatesMoved(sizes), RecordingsFound(before.recordings))
        if self.planned_event is not None:
            self._reporter.report(self.planned_event(plan))

    def switch_back(self, failure: object, *, staged: bool = False) -> None:
        """Return to the plan before: the first window of this one, the next to begin, cannot be committed.

        `staged`: outputs were about to stage it.
        """
        switch, self._switched = self._switched, None
        assert switch is not None  # noqa: S101  the caller has looked
        switch.take_back()
        give_up(self._checkpoint, self._begin.stems)
        last = self._checkpoint.last()
        before = replace(switch.plan, version=self.plan.version + 1, next_ids=following_ids(self.plan))
        self._executor.change(before)
        shown = {} if last is None else last.publishers
        self._outputs.change(before, shown, self.master.committed, void=staged)
        states = staying(before)
        begin = NOTHING if last is None else moved(before, self._checkpoint, last, states)
        self.inputs.prepare(before, begin.inputs)
        self._take(before, begin)
        self.refuse(switch.asked, f"its first window failed, so it was taken back: {failure}")

    def settle(self) -> None:
        """A window is committed and published; perhaps it is the first one of a plan."""
        now = self._clock.monotonic()
        if self._switched is not None or self._unused_files is None:
            self.changes.beside(self._purge_files)
        give_up(self._checkpoint, self._begin.stems)  # windows name them now, or do without
        self._begin = NOTHING
        if self._switched is not None:
            switch, self._switched = self._switched, None
            applied(switch.asked, switch.window_id, "")
            held = 0.0 if switch.published_at is None else now - switch.published_at
            self._reporter.change(switch.asked, held)
        self._published_at = now

    def _purge_files(self) -> None:
        """Remove the files of plans that are in use no more. A file that cannot be removed is tried again.

        A driver that was displaced removes nothing: the files may be those of its successor.
        """
        with contextlib.suppress(OSError, FencedError):
            self._checkpoint.check_owner()
            storage, epoch = self._checkpoint.storage, self._checkpoint.epoch
            self._unused_files = PLAN_FILES.purge(storage, epoch, self._unused_files)

    def settle_at_end(self) -> None:
        """No further window runs: say what has become of a change whose first window was under way."""
        if self._switched is None:
            return
        switch, self._switched = self._switched, None
        last = self._checkpoint.last()
        if last is not None and last.window_id >= switch.window_id:
            applied(switch.asked, switch.window_id, "")
            self._reporter.change(switch.asked)
        else:
            self.refuse(switch.asked, UNSURE)

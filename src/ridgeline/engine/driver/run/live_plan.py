"""The plan of a run, and how the run continues with another one between two windows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from ridgeline.api.clock import Clock
from ridgeline.api.errors import ChangeError, RidgelineError, described
from ridgeline.api.operator import SparkSource
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
from ridgeline.engine.driver.run.reporter import Reporter
from ridgeline.measure.events import RunEvent
from ridgeline.plan.change.difference import PlanDifference
from ridgeline.plan.change.edit_texts import refusal_text
from ridgeline.plan.change.state_moves import StatePlan, staying
from ridgeline.plan.change.state_schemas import Schemas
from ridgeline.plan.change.succession import changed_properties, divisions, following_ids
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import StateVersion, WindowReport
from ridgeline.plan.transition import Transition
from ridgeline.stram.changes import EditPlan
from ridgeline.stram.compaction import Repaired
from ridgeline.stram.master import Master

# Changes of the plan that wait: each is planned beside the windows, then waits for its boundary.
#
# One at a time, in the order in which they were asked for. The next one is planned against the plan that the
# one before has made.

NO_PLANNER = "this run was given a plan, not an application: there is nothing to plan anew"


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change that is planned."""

    asked: Asked
    edits: tuple[Edit, ...]
    transition: Transition


@dataclass(frozen=True, slots=True)
class Switch:
    """A change that is made, but not committed yet.

    `plan`: the one before. `take_back`: lets the planner forget the edits. `window_id`: the first window
    of the new plan. `published_at`: when the window before was published (monotonic).
    """

    asked: Asked
    plan: Plan
    take_back: Callable[[], None]
    window_id: int
    published_at: float | None


class ChangePlanner:
    """The changes of the plan that were asked for. The thread of windows calls it; one of its own plans."""

    def __init__(
        self,
        planner: Planner | None,
        executor: WindowExecutor,
        changes: Changes,
        refuse: Callable[[Asked, str], None],
        check: Callable[[Transition], None] = lambda _transition: None,
    ) -> None:
        """`check`: raises for a change that cannot use the states that there are; any thread."""
        self._planner = planner
        self._check = check
        self._executor = executor
        self._changes = changes
        self._refuse = refuse
        self._asked: deque[Asked] = deque()
        self._planning: tuple[Asked, Future[PlannedChange]] | None = None
        self._next: PlannedChange | None = None
        self._thread = ThreadPoolExecutor(1, "ridgeline-changes")
        self.awaited_until = 0.0
        """Until then no window begins where a change comes: the last one took as long (monotonic)."""

    def add(self, asked: Asked) -> None:
        """A change of the plan waits from now on."""
        self._asked.append(asked)

    def turn(self, plan: Plan, *, wait: bool = False) -> None:
        """Take in what was planned, and begin to plan the next one. Costs nothing if there is none.

        `wait`: until it is planned, for runs in process.
        """
        if self._next is not None and self._next.asked.done.is_set():  # withdrawn
            self._next = None
            self._executor.abandon()
        if self._next is None and self._planning is not None and self._planning[1].done():
            self._take()
        while self._next is None and self._planning is None and self._asked:
            asked = self._asked.popleft()
            if not asked.done.is_set():
                self._planning = asked, self._thread.submit(self._plan, asked, plan)
                if wait:
                    futures.wait([self._planning[1]])
                    self._take()

    def _take(self) -> None:
        """Have the executor prepare what was planned, or refuse it."""
        assert self._planning is not None  # noqa: S101  the caller has looked
        asked, future = self._planning
        self._planning = None
        if asked.done.is_set():
            return
        try:
            planned = future.result()
            self._executor.prepare(planned.transition.plan)
        except Exception as error:  # noqa: BLE001  code of users may raise anything
            self._refuse(asked, refusal_text(error))
        else:
            self._next = planned

    def preview(
        self, edits: tuple[Edit, ...], plan: Plan, check: Callable[[Transition], None]
    ) -> PlanDifference:
        """The effect of edits, without making them; any thread may ask.

        Raises ValidationError with all faults, ChangeError, and what `check` does.

        It is planned in the thread that plans changes: planning calls code of users, one at a time.
        """
        try:
            future = self._thread.submit(_changed, edits, plan, self._planner, check)
        except RuntimeError:
            raise ChangeError(ENDED) from None
        return future.result().difference

    def due(self, window_id: int) -> PlannedChange | None:
        """The change that takes effect with this window, which is the next one to begin; None: none does."""
        planned = self._next
        if planned is None or not self._executor.prepared:
            return None
        aligned = planned.transition.aligned
        planned.asked.window = -(-window_id // aligned) * aligned
        return planned if planned.asked.window == window_id and self._changes.claim(planned.asked) else None

    @property
    def comes(self) -> bool:
        """True if a change is planned or prepared that may take effect with any window."""
        return self._planning is not None or (self._next is not None and self._next.transition.aligned == 1)

    def made(self) -> None:
        """The change that was due is made, or refused."""
        self._next = None

    def close(self) -> None:
        """No window begins any more: refuse what waits."""
        waiting = [*self._asked, *([self._planning[0]] if self._planning else [])]
        waiting += [self._next.asked] if self._next is not None else []
        for asked in waiting:
            if not asked.done.is_set():
                self._refuse(asked, ENDED)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _plan(self, asked: Asked, plan: Plan) -> PlannedChange:
        """Plan a change; in the thread for it. Raises RidgelineError."""
        change = asked.change.what
        assert isinstance(change, EditPlan)  # noqa: S101  no other is added
        if not change.edits:
            raise ChangeError("the change has no edits")
        return PlannedChange(asked, change.edits, _changed(change.edits, plan, self._planner, self._check))


def _changed(
    edits: tuple[Edit, ...], plan: Plan, planner: Planner | None, check: Callable[[Transition], None]
) -> Transition:
    """Apply edits to a plan. Raises ValidationError with all faults, ChangeError, and what `check` does."""
    if planner is None:
        raise ChangeError(NO_PLANNER)
    transition = planner.changed(plan, edits)
    _check_sources(plan, transition.plan)
    check(transition)
    return transition


def _check_sources(old: Plan, new: Plan) -> None:
    """Raise ChangeError where a plan needs another query of Spark than the one that runs."""
    before, after = _sources(old), _sources(new)
    for name in sorted(before.keys() | after.keys()):
        was, will_be = before.get(name, {}), after.get(name, {})
        if was.keys() != will_be.keys() or any(_reads_else(was[one], will_be[one]) for one in was):
            what = f"`{name}` reads from Spark, whose query stays as it is while the application runs"
            remedy = "make this change in the application, stop it, and start it with the same `--checkpoint`"
            raise ChangeError(f"{what}; {remedy}")


def _reads_else(before: PhysicalOperator, after: PhysicalOperator) -> bool:
    """Whether Spark would have to read otherwise."""
    errors = before.attributes["on_error"] is not after.attributes["on_error"]
    sifts = isinstance(after.operator, SparkSource) and after.operator.leaves_out_records
    return bool(changed_properties(before, after)) or (errors and sifts)


def _sources(plan: Plan) -> dict[str, dict[int, PhysicalOperator]]:
    """The partitions of all Spark sources, by id."""
    found: dict[str, dict[int, PhysicalOperator]] = {}
    for one in plan.physical.operators:
        if isinstance(one.operator, SparkSource) and not one.unifier:
            found.setdefault(one.name, {})[one.id] = one
    return found


UNSURE = f"{ENDED} while the first window of the change ran: a restart goes on with it if that was committed"
"""Why the outcome of a change is unknown."""


class PlanRecord:
    """Parts of a plan that each commit writes: names of states, divisions of tuples, classes in states.

    `states`: their versions, by state key, as of the last commit; a commit says which of them change.
    """

    def __init__(self, plan: Plan, begin: Beginning) -> None:
        self.state_keys = {operator.id: operator.state_key for operator in plan.physical.operators}
        self.states: Mapping[str, StateVersion] = {
            self.state_keys[one]: version for one, version in begin.states.items()
        }
        self.divisions = divisions(plan)
        self.schemas = Schemas(plan.physical.operators, begin.schemas)

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
        self._switched: Switch | None = None
        """The change of the plan whose first window is not committed."""
        self._published_at: float | None = None
        """When the last window was published, by the monotonic clock."""
        self._begin = NOTHING
        self.record: PlanRecord
        self.master: Master
        self.repair: StateRepair

    def start(
        self,
        process: Callable[..., None],
        followers: Sequence[Callable[[Plan], None]],
    ) -> None:
        """Open the plan where the last commit of any driver left it.

        `process`: reports events to the master and carries out its instructions. `followers`: are called
        with each plan that follows.
        """
        last, begin, anew = self._checkpoint.last(), NOTHING, set[str]()
        if last is not None:
            begin = beginning(self.plan, self._checkpoint, last, self._planner)
            anew = {one.name for one in self.plan.logical.operators if not one.attributes["keep_state"]}
        inputs = {name: offset for name, offset in begin.inputs.items() if name not in anew}
        repairs = self._open(self.plan, replace(begin, inputs=inputs, moved=frozenset(begin.states)), None)
        for repair in repairs:
            process(repair)
        if last is not None:
            self._outputs.publish_again(last.window_id, begin.publishers)
            self._executor.committed(last.window_id, self.master.states)
        self._followers = followers

    def _open(
        self, plan: Plan, begin: Beginning, before: Master | None, *, new: bool = False
    ) -> Sequence[Repaired]:
        """Have a plan go on from where the last commit has left states, inputs and outputs.

        What is open, and the same in this plan, stays open. Raises what any of it does: a plan before has to
        be opened again then. `before`: its master. `new`: outputs that cannot be opened are not waited for.
        """
        last = self._checkpoint.last()
        committed = -1 if last is None else last.window_id
        repair = StateRepair(plan, self._checkpoint)
        read = {one: begin.states[one] for one in begin.moved if one in begin.states}
        repairs, sizes = repair.recover(read)
        # Outputs first: where one cannot be opened, inputs keep what they have read and nobody has taken.
        self._outputs.open(plan, begin.publishers, committed, new=new)
        self.inputs.open(plan, begin.inputs)
        if before is not None:
            self._executor.change(plan)
        record = PlanRecord(plan, begin)
        self.master = Master(
            plan,
            epoch=self._checkpoint.epoch,
            committed=committed,
            states=begin.states,
            sizes=sizes,
            finished=begin.finished,
            capacity=self._executor.capacity,
            groups=self._outputs.group_windows,
            bounded=self._executor.waits,
            follows=before,
        )
        self.plan, self._begin, self.repair, self.record = plan, begin, repair, record
        return repairs

    @property
    def is_sure(self) -> bool:
        """False while the first window of a change is not committed: either plan may stay."""
        return self._switched is None

    def due(self, window_id: int) -> PlannedChange | None:
        """The change that takes effect with this window, which is the next one to begin; None: none does.

        None does before the states that another version of the application has left are committed.
        """
        return None if self._begin.other else self.changes.due(window_id)

    def refuse(self, asked: Asked, reason: str) -> None:
        """Refuse a change, and report it."""
        refused(asked, reason)
        self._reporter.change(asked)

    def check(self, transition: Transition) -> None:
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
        """Continue with another plan; no window is under way. If that cannot be, the plan of now goes on."""
        before, window_id, following = self.plan, self.master.next_window, planned.transition
        try:
            self._reopen(following.plan, following.states, new=True)
        except Exception as error:  # noqa: BLE001  code of users may raise anything
            reason = refusal_text(error) if isinstance(error, RidgelineError) else described(error)
            self._reopen(before, staying(before))
            self.refuse(planned.asked, reason)
        else:
            assert self._planner is not None  # noqa: S101  it has planned
            take_back = self._planner.keep(planned.edits, following.plan)
            self._switched = Switch(planned.asked, before, take_back, window_id, self._published_at)
            self._report_plan()
        self.changes.made()

    def switch_back(self, failure: object) -> None:
        """Open the plan before again: the first window of this one cannot be committed."""
        switch, self._switched = self._switched, None
        assert switch is not None  # noqa: S101  the caller has looked
        switch.take_back()
        give_up(self._checkpoint, self._begin.stems)
        before = replace(switch.plan, version=self.plan.version + 1, next_ids=following_ids(self.plan))
        self._reopen(before, staying(before))
        self._report_plan()
        self.refuse(switch.asked, f"its first window failed, so it was taken back: {failure}")

    def _reopen(self, plan: Plan, states: StatePlan, *, new: bool = False) -> None:
        """Open a plan in the place of this one; no window is under way. Raises as `_open`."""
        last, before, begin = self._checkpoint.last(), self.master, NOTHING
        try:
            if last is not None:
                begin = moved(plan, self._checkpoint, last, states)
            self._open(plan, begin, before, new=new)
        except Exception:
            give_up(self._checkpoint, begin.stems)
            raise
        for follow in self._followers:
            follow(plan)

    def _report_plan(self) -> None:
        if self.planned_event is not None:
            self._reporter.report(self.planned_event(self.plan))

    def committed(self) -> None:
        """A window is committed. A change that begins with it is applied: who asked waits for no output."""
        if self._switched is not None:
            applied(self._switched.asked, self._switched.window_id)

    def settle(self) -> None:
        """A window is committed and published; perhaps it is the first one of a plan."""
        now = self._clock.monotonic()
        if (last := self._checkpoint.last()) is not None:
            self.record.states = last.states
        give_up(self._checkpoint, self._begin.stems)  # windows name them now, or do without
        self._begin = NOTHING
        if self._switched is not None:
            switch, self._switched = self._switched, None
            held = 0.0 if switch.published_at is None else now - switch.published_at
            self._reporter.change(switch.asked, held)
        self._published_at = now

    def settle_at_end(self) -> None:
        """No further window runs: say what has become of a change whose first window was under way."""
        if self._switched is None:
            return
        switch, self._switched = self._switched, None
        last = self._checkpoint.last()
        if last is not None and last.window_id >= switch.window_id:
            applied(switch.asked, switch.window_id)
            self._reporter.change(switch.asked)
        else:
            self.refuse(switch.asked, UNSURE)

"""Changes of the plan that wait: each is planned beside the windows, then waits for its boundary.

One at a time, in the order in which they were asked for. The next one is planned against the plan that the
one before has made.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ridgeline.api.errors import ChangeError
from ridgeline.api.operator import SparkSource
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.execution import WindowExecutor
from ridgeline.engine.driver.run.changes import ENDED, Asked, Changes
from ridgeline.plan.change.difference import PlanDifference
from ridgeline.plan.change.edit_texts import refusal_text
from ridgeline.plan.change.succession import changed_properties
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.transition import Transition
from ridgeline.stram.changes import EditPlan

NO_PLANNER = "this run was given a plan, not an application: there is nothing to plan anew"


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change that is planned."""

    asked: Asked
    edits: tuple[Edit, ...]
    transition: Transition

    @property
    def plan(self) -> Plan:
        """The plan that follows."""
        return self.transition.plan

    @property
    def aligned(self) -> int:
        """It may begin with windows that are multiples of this."""
        return self.transition.aligned


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

    def add(self, asked: Asked) -> None:
        """A change of the plan waits from now on."""
        self._asked.append(asked)

    def turn(self, plan: Plan, next_window: int, *, wait: bool = False) -> None:
        """Take in what was planned, and begin to plan the next one. Costs nothing if there is none.

        `wait`: until it is planned, for runs in process.
        """
        if self._next is not None and self._next.asked.done.is_set():  # withdrawn
            self._next = None
            self._executor.abandon()
        if self._next is None and self._planning is not None and self._planning[1].done():
            self._take(next_window)
        while self._next is None and self._planning is None and self._asked:
            asked = self._asked.popleft()
            if not asked.done.is_set():
                self._planning = asked, self._thread.submit(self._plan, asked, plan)
                if wait:
                    futures.wait([self._planning[1]])
                    self._take(next_window)

    def _take(self, next_window: int) -> None:
        """Have the executor prepare what was planned, or refuse it."""
        assert self._planning is not None  # noqa: S101  the caller has looked
        asked, future = self._planning
        self._planning = None
        if asked.done.is_set():
            return
        try:
            planned = future.result()
            self._executor.prepare(planned.plan)
        except Exception as error:  # noqa: BLE001  code of users may raise anything
            self._refuse(asked, refusal_text(error))
        else:
            self._next = planned
            asked.window = -(-next_window // planned.aligned) * planned.aligned

    def preview(
        self, edits: tuple[Edit, ...], plan: Plan, check: Callable[[Transition], None]
    ) -> PlanDifference:
        """The effect of edits, without making them; any thread may ask.

        Raises as `planned`, and what `check` does.

        It is planned in the thread that plans changes: planning calls code of users, one at a time.
        """
        try:
            future = self._thread.submit(preview, edits, plan, self._planner, check)
        except RuntimeError:
            raise ChangeError(ENDED) from None
        return future.result()

    def beside(self, work: Callable[[], None]) -> None:
        """Do something beside the windows, in the thread that plans changes; not if the run is at its end."""
        with contextlib.suppress(RuntimeError):
            self._thread.submit(work)

    def due(self, window_id: int) -> PlannedChange | None:
        """The change that takes effect with this window, which is the next one to begin; None: none does."""
        planned = self._next
        if planned is None or window_id % planned.aligned or not self._executor.prepared:
            return None
        return planned if self._changes.claim(planned.asked) else None

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
        made = planned(asked, change.edits, plan, self._planner)
        self._check(made.transition)
        return made


def planned(asked: Asked, edits: tuple[Edit, ...], plan: Plan, planner: Planner | None) -> PlannedChange:
    """Plan what edits make of a plan. Raises ValidationError with all faults, ChangeError."""
    if not edits:
        raise ChangeError("the change has no edits")
    if planner is None:
        raise ChangeError(NO_PLANNER)
    return PlannedChange(asked, edits, _changed(edits, plan, planner))


def preview(
    edits: tuple[Edit, ...], plan: Plan, planner: Planner | None, check: Callable[[Transition], None]
) -> PlanDifference:
    """The effect of edits, without making them.  Raises as `planned`, and what `check` does."""
    if planner is None:
        raise ChangeError(NO_PLANNER)
    transition = _changed(edits, plan, planner)
    check(transition)
    return transition.difference


def _changed(edits: tuple[Edit, ...], plan: Plan, planner: Planner) -> Transition:
    """Apply edits to a plan. Raises ValidationError, ChangeError."""
    transition = planner.changed(plan, edits)
    _check_sources(plan, transition.plan)
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

"""The changes that are asked of a running application, until they take effect between two windows."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ridgeline.api.clock import Clock
from ridgeline.api.errors import ChangeError
from ridgeline.api.operator import SparkSource
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.execution import WindowExecutor
from ridgeline.measure.events import ApplicationChanged
from ridgeline.plan.change.edit_texts import IsSecret, edits_text, refusal_text, shown_edit
from ridgeline.plan.change.succession import changed_properties
from ridgeline.plan.edits import Edit, RemoveOperator
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.transition import Transition
from ridgeline.stram.changes import EditPlan, Kill, Shutdown, What

QUEUED, APPLIED, REFUSED, WITHDRAWN = "QUEUED", "APPLIED", "REFUSED", "WITHDRAWN"
ENDED = "the application has ended"
"""Why a change that waits is refused at the end."""
NO_PLANNER = "this run was given a plan, not an application: there is nothing to plan anew"
_MOST_QUEUED = 1_000
_MOST_KEPT = 1_000
_LONGEST_NAME = 200
_ASK_AGAIN_SECONDS = 60.0
"""When an output is asked to leave the plan again whose removal was refused."""


@dataclass(eq=False, slots=True)
class Asked:
    """A change that is asked of a running application, and what has become of it.

    `number` counts those of one driver; `by`: who asked. `at`: when it was asked for (wall clock). `window`:
    the first one in which it has effect; of one that is queued, the one that it waits for. `due`: it is about
    to be applied, so it cannot be withdrawn. `is_secret`: which values of properties are not shown.
    """

    number: int
    by: str
    what: What
    at: float = 0.0
    state: str = QUEUED
    window: int | None = None
    reason: str = ""
    due: bool = False
    done: threading.Event = field(default_factory=threading.Event)
    is_secret: IsSecret | None = None

    @property
    def text(self) -> str:
        """The change in one line, without secrets."""
        what = self.what
        if not isinstance(what, EditPlan):
            return str(what)
        return what.note if what.result else edits_text(what.edits, self.is_secret)

    def row(self) -> dict[str, Any]:
        """It as it is shown."""
        return {
            "id": self.number,
            "what": self.text,
            "state": self.state,
            "window": self.window,
            "who": self.by,
            "note": getattr(self.what, "note", ""),
            "result": getattr(self.what, "result", ""),
            "reason": self.reason,
            "at": self.at,
        }


class Requests:
    """The changes that are asked of a run: any thread may ask, and look at them."""

    def __init__(
        self,
        now: Callable[[], float] = lambda: 0.0,
        first_id: int = 0,
        report: Callable[[Asked], None] = lambda _asked: None,
    ) -> None:
        """`now`: the wall clock. `first_id`: numbers of changes are greater.

        `report`: takes a change that is refused or taken back, in the thread of who does that.
        """
        self.is_secret: IsSecret = lambda _property, _value: False
        """Whether a property's value is a secret, in the plan that runs."""
        self._now = now
        self._report = report
        self._lock = threading.Lock()
        self._queued: deque[Asked] = deque()
        self._all: deque[Asked] = deque(maxlen=_MOST_KEPT)
        self._count = first_id
        self._closed = ""

    def ask(self, what: What, by: str) -> Asked:
        """Ask for a change; `done` is set once it is applied or refused."""
        with self._lock:
            self._count += 1
            asked = Asked(self._count, by[:_LONGEST_NAME], what, self._now(), is_secret=self.is_secret)
            self._all.append(asked)
            if not self._closed and len(self._queued) < _MOST_QUEUED:
                self._queued.append(asked)
                return asked
            reason = self._closed or f"{_MOST_QUEUED:,} changes wait already; ask again later"
        _settle(asked, REFUSED, reason=reason)
        return asked

    @property
    def end_asked(self) -> bool:
        """Whether the end of the application was asked for, taken or not."""
        return any(isinstance(one.what, Shutdown | Kill) and one.state != WITHDRAWN for one in self.all())

    def find(self, number: int) -> Asked:
        """A change by its number. Raises KeyError if it is not among the last ones."""
        found = next((asked for asked in self.all() if asked.number == number), None)
        if found is None:
            raise KeyError(number)
        return found

    def withdraw(self, number: int) -> Asked:
        """Take back a change that waits; one that does not wait any more is as it was.

        Raises KeyError if it is not among the last ones.
        """
        asked = self.find(number)
        with self._lock:
            taken_back = asked.state == QUEUED and not asked.due
            if taken_back:
                if asked in self._queued:
                    self._queued.remove(asked)
                _settle(asked, WITHDRAWN)
        if taken_back:
            self._report(asked)
        return asked

    @property
    def closed(self) -> bool:
        """True once no window begins any more."""
        return bool(self._closed)

    def all(self) -> list[Asked]:
        """The last changes, the newest last."""
        with self._lock:
            return list(self._all)

    def rows(self) -> list[dict[str, Any]]:
        """The last changes as they are shown, the newest last."""
        return [asked.row() for asked in self.all()]

    def take(self) -> list[Asked]:
        """The changes requested since the last call. Costs nothing if that is nothing."""
        if not self._queued:
            return []
        with self._lock:
            taken, self._queued = list(self._queued), deque()
        return taken

    def refuse(self, asked: Asked, reason: str) -> None:
        """Refuse a change that was taken, and report it."""
        _settle(asked, REFUSED, reason=reason)
        self._report(asked)

    def close(self) -> None:
        """No window begins any more: refuse what waits, and what is still asked for."""
        with self._lock:
            self._closed = ENDED
        for asked in self.take():
            _settle(asked, REFUSED, reason=ENDED)


@dataclass(slots=True)
class Coming:
    """A change of the plan that is planned beside the windows, then waits for the window it begins with.

    `transition`: once the executor gets ready for it.
    """

    asked: Asked
    planned: Future[Transition]
    transition: Transition | None = None


class Changes(Requests):
    """The changes of one run, which its thread takes, plans in another one, and makes between two windows.

    Those of the plan are made one at a time, in the order in which they were asked for. The next one is
    planned against the plan that the one before has made.
    """

    def __init__(
        self,
        clock: Clock,
        first_id: int,
        report: Callable[[Asked], None],
        planner: Planner | None,
        executor: WindowExecutor,
        check: Callable[[Transition], None],
    ) -> None:
        """`check`: raises for a change that cannot use the states that there are; any thread."""
        super().__init__(clock.wall, first_id, report)
        self._monotonic = clock.monotonic
        self._planner = planner
        self._executor = executor
        self._check = check
        self._waiting: deque[Asked] = deque()
        """The changes of the plan that were taken and are not planned yet."""
        self._coming: Coming | None = None
        self._thread = ThreadPoolExecutor(1, "ridgeline-changes")
        self._leaving: dict[str, tuple[Asked, float]] = {}
        """The outputs that were asked to leave the plan, and when (monotonic)."""
        self.awaited_until = 0.0
        """Until then no window begins where a change comes: the last one took as long (monotonic)."""

    def add(self, asked: Asked) -> None:
        """A change of the plan, which was taken, waits from now on."""
        self._waiting.append(asked)

    def ask_to_leave(self, over: Mapping[str, str]) -> None:
        """Ask for the removal of outputs that are done, each with why; later again if it was refused."""
        self._leaving = {name: found for name, found in self._leaving.items() if name in over}
        now = self._monotonic() if over else 0.0
        for name, why in over.items():
            if name in self._leaving:
                asked, at = self._leaving[name]
                if not asked.done.is_set() or now - at < _ASK_AGAIN_SECONDS:
                    continue
            self._leaving[name] = self.ask(EditPlan((RemoveOperator(name),), why), "ridgeline"), now

    def turn(self, plan: Plan, *, wait: bool = False) -> None:
        """Take in what was planned, and begin to plan the next one. Costs nothing if there is none.

        `wait`: until it is planned, for runs in process.
        """
        while (coming := self._coming) is not None or self._waiting:
            if coming is None:
                asked = self._waiting.popleft()
                if not asked.done.is_set():
                    self._coming = Coming(asked, self._thread.submit(self._plan, asked, plan))
                continue
            if wait:
                futures.wait([coming.planned])
            if coming.transition is None and coming.planned.done() and not coming.asked.done.is_set():
                self._prepare(coming)
            if not coming.asked.done.is_set():
                return
            if coming.transition is not None:  # it was withdrawn
                self._executor.abandon()
            elif not coming.planned.done():
                return  # planning calls code of users: one at a time
            self._coming = None

    def _prepare(self, coming: Coming) -> None:
        """Have the executor prepare what was planned, or refuse it."""
        try:
            found = coming.planned.result()
            self._executor.prepare(found.plan)
        except Exception as error:  # noqa: BLE001  code of users may raise anything
            self.refuse(coming.asked, refusal_text(error))
        else:
            coming.transition = found

    def due(self, window_id: int) -> Coming | None:
        """The change that takes effect with this window, which is the next one to begin; None: none does.

        It cannot be withdrawn from then on.
        """
        coming = self._coming
        if coming is None or coming.transition is None or not self._executor.prepared:
            return None
        asked, aligned = coming.asked, coming.transition.aligned
        asked.window = -(-window_id // aligned) * aligned
        if asked.window != window_id:
            return None
        with self._lock:
            asked.due = asked.due or asked.state == QUEUED
        return coming if asked.due else None

    @property
    def comes(self) -> bool:
        """True if a change is planned or prepared that may take effect with any window."""
        coming = self._coming
        return coming is not None and (coming.transition is None or coming.transition.aligned == 1)

    def made(self) -> None:
        """The change that was due is made, or refused."""
        self._coming = None

    def close(self) -> None:
        """As of `Requests`; those that were taken are refused, too."""
        super().close()
        for asked in (*self._waiting, *([self._coming.asked] if self._coming else [])):
            if not asked.done.is_set():
                self.refuse(asked, ENDED)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def preview(self, edits: tuple[Edit, ...], plan: Plan, check: Callable[[Transition], None]) -> Transition:
        """What edits would make of a plan, without making them.

        Raises ValidationError with all faults, ChangeError, and what `check` does.

        It is planned in the thread that plans changes: planning calls code of users, one at a time.
        """
        try:
            future = self._thread.submit(self._changed, edits, plan, check)
        except RuntimeError:
            raise ChangeError(ENDED) from None
        return future.result()

    def _plan(self, asked: Asked, plan: Plan) -> Transition:
        """Plan a change. Raises RidgelineError."""
        change = asked.what
        assert isinstance(change, EditPlan)  # noqa: S101  no other is added
        if not change.edits:
            raise ChangeError("the change has no edits")
        return self._changed(change.edits, plan, self._check)

    def _changed(
        self, edits: tuple[Edit, ...], plan: Plan, check: Callable[[Transition], None]
    ) -> Transition:
        """Apply edits to a plan. Raises ValidationError with all faults, ChangeError, what `check` does."""
        if self._planner is None:
            raise ChangeError(NO_PLANNER)
        transition = self._planner.changed(plan, edits)
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


def _settle(asked: Asked, state: str, window: int | None = None, reason: str = "") -> None:
    asked.state, asked.window, asked.reason = state, window, reason
    asked.done.set()


def applied(asked: Asked, window: int) -> None:
    """The change has effect from this window on."""
    _settle(asked, APPLIED, window)


def changed_event(
    asked: Asked, at: float, plan_version: int, held_seconds: float = 0.0
) -> ApplicationChanged:
    """The event that reports a change. `held_seconds`: so long no window could run for it."""
    edits = asked.what.edits if isinstance(asked.what, EditPlan) else ()
    return ApplicationChanged(
        at,
        asked.number,
        asked.by,
        getattr(asked.what, "note", ""),
        asked.text,
        asked.state,
        asked.window,
        asked.reason,
        plan_version,
        tuple(shown_edit(edit, asked.is_secret) for edit in edits),
        held_seconds,
    )

"""The thread that judges the promises of a run, beside its windows, and calls their hooks."""

from __future__ import annotations

import logging
import math
import queue
import threading
from collections import Counter
from collections.abc import Callable, Sequence

from ridgeline.api.clock import Clock
from ridgeline.api.policy import Promise
from ridgeline.engine.driver.run.changes import Asked
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.measure.answers.progress import ProgressAnswer
from ridgeline.measure.deciding.figures import PromiseState
from ridgeline.measure.events import (
    ApplicationChanged,
    ApplicationEnded,
    OperatorWindow,
    PromiseChanged,
    RunEvent,
    WindowCommitted,
    WindowPlanned,
)
from ridgeline.observe.watch import Watch
from ridgeline.plan.edits import Edit
from ridgeline.policies.alerts import Hook
from ridgeline.policies.deciding import Deciders
from ridgeline.policies.keeping import Keeping, Observation
from ridgeline.stram.changes import EditPlan

_Seen = OperatorWindow | WindowCommitted | WindowPlanned | ApplicationChanged

_log = logging.getLogger(__name__)
_TICK_SECONDS = 0.25
"""How often promises are judged while no window is committed."""
_HELD_SECONDS = 1.5
"""Windows in which nothing moves wait for a later commit: so long one is under way without being late."""
_LOOK_SECONDS = 1.0
"""How often it is asked how long it takes to catch up while no window is committed."""
_CLOSE_SECONDS = 1.0


class PromiseThread:
    """Judges promises after each commit, and while there is none; reports `PromiseChanged`.

    Nothing is started without promises, and `close` ends it. No window waits for it, or for a hook.
    """

    def __init__(
        self,
        promises: Sequence[Promise],
        application: str,
        watch: Watch,
        observe: Callable[[RunEvent], None],
        clock: Clock,
    ) -> None:
        self._watch, self._observe, self._clock = watch, observe, clock
        self._application = application
        self._keeping = Keeping(promises)
        self._kinds = {promise.kind for promise in promises}
        self._hooks: dict[tuple[str, bool], Hook] = {}
        for promise in promises:
            for kept, target in ((False, promise.on_broken), (True, promise.on_kept)):
                if target:
                    self._hooks[promise.name, kept] = Hook(target)
        self._was_broken: set[str] = set()
        self._seen: queue.SimpleQueue[tuple[float, _Seen | None]] = queue.SimpleQueue()
        self._names: dict[int, str] = {}
        self._tuples: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._late: Counter[str] = Counter()
        self._planned: dict[int, float] = {}
        self._paused = False
        self._through: float | None = None
        """When the first window was committed: those that began before say nothing of the others."""
        self._looked = -math.inf
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        if promises:
            for state in self._keeping.states:
                self._report(state)
            self._unsubscribe = watch.subscribe(self._take)
            self._thread = threading.Thread(target=self._work, name="ridgeline-promises", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Judge what has come, and no more. Hooks that are under way get little time. May be called twice."""
        self._unsubscribe()
        if self._thread is not None and not self._over.is_set():
            self._over.set()
            self._seen.put((self._clock.monotonic(), None))
            self._thread.join(_CLOSE_SECONDS)
            for hook in self._hooks.values():
                hook.close(_CLOSE_SECONDS / len(self._hooks))

    def _take(self, event: RunEvent) -> None:
        """Subscribed to the watch: called by the thread of the windows, so only put aside."""
        if isinstance(event, _Seen):
            self._seen.put((self._clock.monotonic(), event))

    def _work(self) -> None:
        while True:
            try:
                at, event = self._seen.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                self._safely(self._tick, self._clock.monotonic())
                continue
            if event is None:
                return
            self._safely(self._apply, at, event)

    def _safely(self, step: Callable[..., None], *given: object) -> None:
        try:
            step(*given)
        except Exception:  # noqa: BLE001  the application goes on without this judgement
            _log.exception("promises could not be judged")

    def _apply(self, at: float, event: _Seen) -> None:
        """Take what has happened at a time of the monotonic clock."""
        if isinstance(event, WindowPlanned):
            self._planned[event.window_id] = at
        elif isinstance(event, OperatorWindow):
            self._operator(event)
        elif isinstance(event, WindowCommitted):
            self._commit(at, event)
        elif event.state == "APPLIED" and event.what in {"pause", "resume"}:
            self._tick(at)
            self._paused = event.what == "pause"

    def _operator(self, event: OperatorWindow) -> None:
        """Count the tuples of an operator: those that came in, those that went out of an input."""
        if event.operator not in self._names:
            topology = self._watch.topology
            self._names = {node.id: "" if node.unifier else node.name for node in topology.operators}
        name = self._names.get(event.operator, "")
        if name:
            counts = event.tuples_in or event.tuples_out
            self._tuples[name] += sum(counts.values())
            self._errors[name] += event.errors
            self._late[name] += event.late

    def _commit(self, at: float, event: WindowCommitted) -> None:
        """Judge with a window that is committed."""
        if self._through is None:
            self._through = event.at
        if event.began < self._through:
            self._forget(event.window_id)
            return
        latency: dict[str, float] = {}
        if "latency" in self._kinds:
            try:
                latency = self._watch.window_latencies(event.window_id)
            except KeyError:
                _log.debug("window %d is not kept: the latency of operators is not known", event.window_id)
        behind = None
        if "caught_up_within" in self._kinds:
            behind = _caught_up_in(self._watch.progress(), self._clock.wall())
            self._looked = at
        seen = Observation(
            event.published - event.began,
            latency,
            dict(self._tuples),
            dict(self._errors),
            dict(self._late),
            behind,
        )
        self._forget(event.window_id)
        if self._paused:
            self._keeping.tick(at=at, wall=event.at, paused=True)
        for state in self._keeping.on_window(seen, at=at, wall=event.at):
            self._report(state)

    def _forget(self, window_id: int) -> None:
        """A window is over."""
        self._tuples.clear()
        self._errors.clear()
        self._late.clear()
        self._names.clear()  # the plan may be another one in the next window
        for window in [one for one in self._planned if one <= window_id]:
            del self._planned[window]

    def _tick(self, at: float) -> None:
        """Judge without a window."""
        looks = "caught_up_within" in self._kinds and self._through is not None and not self._paused
        if looks and at - self._looked >= _LOOK_SECONDS:
            self._looked = at
            self._keeping.look(_caught_up_in(self._watch.progress(), self._clock.wall()))
        oldest = min(self._planned.values(), default=at)
        overdue = max(0.0, at - oldest - _HELD_SECONDS)
        wall = self._clock.wall()
        for state in self._keeping.tick(at=at, wall=wall, overdue=overdue, paused=self._paused):
            self._report(state)

    def _report(self, state: PromiseState) -> None:
        """Report a verdict; call the hook if it is broken now, or kept again."""
        at = self._clock.wall() if state.since is None else state.since
        figure = state.figure if state.figure is not None and math.isfinite(state.figure) else None
        self._observe(
            PromiseChanged(
                at, state.name, state.kind, state.operator, state.kept, figure, state.limit, state.unit
            )
        )
        if state.kept is False or (state.kept and state.name in self._was_broken):
            hook = self._hooks.get((state.name, state.kept))
            if hook is not None and not hook.fire(self._application, state):
                _log.warning("the hook of promise `%s` is too slow: a call is left out", state.name)
        if state.kept is False:
            self._was_broken.add(state.name)
        elif state.kept:
            self._was_broken.discard(state.name)


def _caught_up_in(progress: ProgressAnswer, now: float) -> float | None:
    """Seconds until all backlogs are worked off; infinite: never, None: not known."""
    whole = progress["application"]
    if whole["verdict"] in {"keeping up", "paced"}:
        return 0.0
    if whole["caughtUpAt"] is not None:
        return max(0.0, whole["caughtUpAt"] - now)
    return math.inf if whole["verdict"] in {"falling behind", "stuck", "holding"} else None


_LEAST_SECONDS = 0.1
"""Deciders are asked at most so often."""
_LOOKS = 20


class PolicyThread:
    """Asks the deciders of a run after windows were committed; ends with `close`.

    Nothing is started if there are none. A decider that hangs holds up the others, and no window.
    """

    def __init__(self, run: ApplicationRun, watch: Watch, observe: Callable[[RunEvent], None]) -> None:
        self._run, self._watch = run, watch
        logical = run.plan.logical
        self._deciders = Deciders(logical.listeners, logical.policies, self._ask, observe)
        self._committed = threading.Event()
        self._over = threading.Event()
        self._most_slots: int | None = None
        self._looks = 0
        self._thread: threading.Thread | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        if self._deciders:
            watch.keep_figures()
            self._unsubscribe = watch.subscribe(self._seen, (WindowCommitted, ApplicationEnded))
            self._thread = threading.Thread(target=self._decide, name="ridgeline-deciders", daemon=True)
            self._thread.start()

    def _seen(self, event: RunEvent) -> None:
        if isinstance(event, WindowCommitted):
            self._committed.set()
        elif isinstance(event, ApplicationEnded):
            self._over.set()
            self._committed.set()

    def _ask(self, edits: tuple[Edit, ...], note: str, who: str) -> Asked:
        return self._run.changes.ask(EditPlan(edits, note), who)

    def _decide(self) -> None:
        """Ask the deciders until the run is over; the thread does."""
        while not self._over.is_set():
            self._committed.wait()
            self._committed.clear()
            if self._over.is_set():
                return
            changing = any(not asked.done.is_set() for asked in self._run.changes.all())
            try:
                self._deciders.planned(self._run.plan.logical)
                self._deciders.look(
                    self._watch.application_figures(
                        changing=changing, keys=self._run.keys.load, slots=self._slots()
                    )
                )
            except Exception:  # noqa: BLE001  the application goes on without decisions
                _log.exception("deciders have failed, and decide nothing in this window")
            self._over.wait(_LEAST_SECONDS)

    def _slots(self) -> int | None:
        """How many slots there could be, as of some decisions ago: it may take milliseconds."""
        if self._looks % _LOOKS == 0:
            self._most_slots = self._run.slots
        self._looks += 1
        return self._most_slots

    def close(self) -> None:
        """Stop deciding."""
        self._over.set()
        self._committed.set()
        self._unsubscribe()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)

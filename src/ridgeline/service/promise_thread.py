"""The threads that judge the promises of a run and ask its policies, beside its windows."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence

from ridgeline.api.clock import Clock
from ridgeline.api.policy import Promise
from ridgeline.engine.driver.run.changes import Asked
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.measure.events import (
    ApplicationEnded,
    RunEvent,
    WindowCommitted,
)
from ridgeline.observe.judging import SEEN, Judge
from ridgeline.observe.watch import Watch
from ridgeline.plan.edits import Edit
from ridgeline.policies.deciding import Deciders
from ridgeline.stram.changes import EditPlan

_log = logging.getLogger(__name__)
_TICK_SECONDS = 0.25
"""How often promises are judged while no window is committed."""
_CLOSE_SECONDS = 1.0


class PromiseThread:
    """Judges promises after each commit, and while there is none; reports `PromiseChanged`.

    Nothing is started without promises, and `close` ends it. No window waits for it.
    """

    def __init__(
        self,
        promises: Sequence[Promise],
        watch: Watch,
        observe: Callable[[RunEvent], None],
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._judge = Judge(promises, watch, observe, clock)
        self._seen: queue.SimpleQueue[tuple[float, RunEvent | None]] = queue.SimpleQueue()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        if promises:
            self._judge.begin()
            self._unsubscribe = watch.subscribe(self._take, SEEN)
            self._thread = threading.Thread(target=self._work, name="ridgeline-promises", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Judge what has come, and no more. May be called twice."""
        self._unsubscribe()
        if self._thread is not None and not self._over.is_set():
            self._over.set()
            self._seen.put((self._clock.monotonic(), None))
            self._thread.join(_CLOSE_SECONDS)

    def _take(self, event: RunEvent) -> None:
        """Subscribed to the watch: called by the thread of the windows, so only put aside."""
        self._seen.put((self._clock.monotonic(), event))

    def _work(self) -> None:
        while True:
            try:
                at, event = self._seen.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                self._safely(self._judge.tick, self._clock.monotonic())
                continue
            if event is None:
                return
            self._safely(self._judge.apply, at, event)

    def _safely(self, step: Callable[..., None], *given: object) -> None:
        try:
            step(*given)
        except Exception:  # noqa: BLE001  the application goes on without this judgement
            _log.exception("promises could not be judged")


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
        self._deciders = Deciders(
            logical.listeners, logical.policies, self._ask, observe, first_id=logical.first_id
        )
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

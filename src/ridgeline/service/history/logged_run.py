"""A run that is read from its event log, and followed if it is still written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.measure.events import ApplicationEnded, ApplicationPlanned, RunEvent
from ridgeline.observe.watch import Watch
from ridgeline.service.history.tail import Tail
from ridgeline.service.http.answers import LogicalPlanAnswer
from ridgeline.service.http.apex import KeptPlan
from ridgeline.service.page.live import LiveStream

_PARTS = ("operators", "streams", "modules")


FOLLOW_SECONDS = 0.5
"""How often a log that is still written is looked at."""
FRESH_SECONDS = 30.0
"""A log without an end that was written to so lately is taken to be still written."""
BROKEN_OFF = (
    "the event log breaks off here: the driver was killed, or could not write it any more; what came after "
    "is not known"
)


class NotALogError(RidgelineError):
    """A file that is no event log, or that does not begin with the start of a run."""


def plan_of(event: ApplicationPlanned, name: str) -> KeptPlan:
    """The plan that an event of the log `name` begins. Raises NotALogError for one that keeps none."""
    kept = event.logical
    if not all(isinstance(kept.get(part), list) for part in _PARTS):
        raise NotALogError(
            f"`{name}` is of an earlier version, and keeps no plan; `ridgeline replay` may read it"
        )
    return KeptPlan(event.application, cast("LogicalPlanAnswer", dict(kept)))


class LoggedRun:
    """The figures of one run as of the end of its log. Thread-safe.

    Args:
        path: The event log, or one of its files.
        runs: Whether the application of an id runs, as far as this machine knows.
        run: As `FileHead.run`, of a log whose files may be of several runs.
        clock: Where the time comes from.
    """

    def __init__(
        self,
        path: Path,
        runs: Callable[[str], bool],
        *,
        run: object = None,
        clock: Clock | None = None,
    ) -> None:
        self.path = path
        self.problem = ""
        """Why the log is not read to its end."""
        self._clock = clock or SystemClock()
        self._runs = runs
        self.notes: list[str] = []
        """The parts of the log that are missing."""
        self._tail = Tail(path, self.notes.append, run)
        self._at = 0.0
        self._plan: KeptPlan | None = None
        self._id = ""
        self._ended = False
        self._broken_off_at: int | None = None
        """The size of a log that breaks off, when it was taken to; None: it does not, or is damaged."""
        self.watch = Watch(lambda: self._at)
        self._pages: LiveStream | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._ready = threading.Event()
        self._fault = ""
        self._reader: threading.Thread | None = None

    @property
    def plan(self) -> KeptPlan:
        """The plan of the run's last windows. Raises NotALogError before the first event is read."""
        if self._plan is None:
            raise NotALogError(f"`{self.path.name}` has no run yet")
        return self._plan

    @property
    def pages(self) -> LiveStream:
        """The streams of the pages that show it."""
        with self._lock:
            if self._pages is None:
                self._pages = LiveStream(self.watch, lambda: self.plan)
                if self._closed.is_set():
                    self._pages.close()
            return self._pages

    def share(self) -> float:
        """How much of the log is read, from 0 to 1."""
        try:
            return min(1.0, self._tail.read / max(1, self._tail.size()))
        except RidgelineError:
            return 1.0

    def is_outdated(self) -> bool:
        """Whether a log that was taken to break off was written on since."""
        if self._broken_off_at is None:
            return False
        try:
            return self._tail.size() != self._broken_off_at
        except RidgelineError:
            return False

    def begin(self) -> None:
        """Read it in a thread, and on as long as it is written. To be called once, instead of `load`."""
        self._reader = threading.Thread(target=self._work, name="ridgeline-history", daemon=True)
        self._reader.start()

    def fault(self, seconds: float) -> str | None:
        """Why it cannot be read, "" if it is; None if it is being read still, after so many seconds."""
        return self._fault if self._ready.wait(seconds) else None

    def load(self) -> None:
        """Read the log. One that is still written is of a run under way, as of its last event.

        A line that is no event ends the figures there, with a note. Raises NotALogError.
        """
        try:
            self._read()
            if self._plan is None:
                why = self.problem or "it has no events"
                raise NotALogError(
                    f"`{self.path.name}` is no event log: {why}; give what `--event-log` has written"
                )
            self._look()
        finally:
            if self._plan is None or self._ended:
                self._tail.close()

    def close(self) -> None:
        """End what reads the log, and the streams of pages. May be called twice."""
        self._closed.set()
        if self._reader is not None:
            self._reader.join()
        self._tail.close()
        with self._lock:
            if self._pages is not None:
                self._pages.close()

    def _work(self) -> None:
        """Read what is there, then what is written, until the run has ended or nothing more comes."""
        try:
            self.load()
        except NotALogError as error:
            self._fault = str(error)
        except Exception as error:  # noqa: BLE001  said to who asks
            self._fault = f"`{self.path.name}` cannot be read: {str(error) or type(error).__name__}"
        finally:
            self._ready.set()
        while not (self._fault or self._ended or self._closed.is_set()):
            self._clock.wait(FOLLOW_SECONDS, self._closed)
            self._read()
            self._look()
        self._tail.close()

    def _look(self) -> None:
        """A log that is not written any more, and has no end of its run, breaks off."""
        if not self._ended and (
            self.problem or not is_written(self._tail, self._clock, runs=self._runs(self._id))
        ):
            self._break_off()

    def _read(self) -> None:
        """Take in the events since the last call."""
        try:
            for event in self._tail.events():
                if self._closed.is_set():
                    return
                self._take(event)
        except NotALogError:
            raise
        except Exception as error:  # noqa: BLE001  what a damaged log does to the figures must not end the service
            self.problem = str(error) or type(error).__name__

    def _take(self, event: RunEvent) -> None:
        """Fold an event. Raises NotALogError for a first one that begins no run."""
        first = self._plan is None
        if isinstance(event, ApplicationPlanned):
            self._plan, self._id = plan_of(event, self.path.name), event.application_id or self._id
        elif first:
            raise NotALogError(
                f"`{self.path.name}` begins with `{type(event).__name__}`, in the middle of a run; its first "
                "part is missing"
            )
        if isinstance(event, ApplicationEnded):
            self._ended = True
        self._at = max(self._at, event.at)
        self.watch.observe(event)

    def _break_off(self) -> None:
        """The log has no end of the run: it is one that failed, as far as is known."""
        damaged = f"the event log is damaged: {self.problem}; what comes after is not shown"
        why = damaged if self.problem else BROKEN_OFF
        self._ended = True
        try:
            self.watch.observe(ApplicationEnded(self._at, "failed", why))
            if not self.problem:
                self._broken_off_at = self._tail.size()
        except Exception as error:  # noqa: BLE001  as in `_read`
            self.problem = self.problem or str(error) or type(error).__name__


def is_written(tail: Tail, clock: Clock, *, runs: bool) -> bool:
    """Whether more may come to a log, whose application runs as far as is known, or does not."""
    return runs or tail.written_at() > clock.wall() - FRESH_SECONDS

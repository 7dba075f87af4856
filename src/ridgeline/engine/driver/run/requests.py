"""Requests to a running application: changes of its plan, recordings, pauses, its end."""

from __future__ import annotations

from collections.abc import Callable

from ridgeline.api.errors import ApplicationKilledError
from ridgeline.engine.driver.run.changes import Asked, Changes, applied
from ridgeline.engine.driver.run.live_plan import LivePlan
from ridgeline.engine.driver.run.reporter import Reporter
from ridgeline.stram.changes import (
    ChangeAsked,
    Control,
    EditPlan,
    Kill,
    Pause,
    Resume,
    Shutdown,
    StartRecording,
    StopRecording,
)


class Requests:
    """Takes in between windows what any thread has put into `changes`. One thread at a time.

    `paused`: no window begins. `stopping`: none begins any more. `asked`: the changes that the master is
    about to answer, by number.
    """

    def __init__(
        self, changes: Changes, live: LivePlan, reporter: Reporter, process: Callable[..., None]
    ) -> None:
        self.asked: dict[int, Asked] = {}
        self.paused = self.stopping = False
        self.changes = changes
        self._live = live
        self._reporter = reporter
        self._process = process

    def take(self, *, wait: bool = False) -> None:
        """Take in what was asked for since the last call; `wait` until that is planned.

        Raises ApplicationKilledError.
        """
        for asked in self.changes.take():
            what = asked.change.what
            if isinstance(what, EditPlan):
                self._reporter.change(asked)
                self._live.changes.add(asked)
            elif isinstance(what, StartRecording | StopRecording):
                self.asked[asked.change.number] = asked
                self._process(ChangeAsked(asked.change))
                del self.asked[asked.change.number]
            else:
                self._control(asked, what)
        if self._live.is_sure:
            self._live.changes.turn(self._live.plan, self._live.master.next_window, wait=wait)

    def _control(self, asked: Asked, what: Control) -> None:
        """Pause, resume, or end. Raises ApplicationKilledError."""
        self.paused = isinstance(what, Pause) or (self.paused and not isinstance(what, Resume))
        self.stopping = self.stopping or isinstance(what, Shutdown)
        applied(asked, self._live.master.next_window, "")
        self._reporter.change(asked)
        if isinstance(what, Kill):
            raise ApplicationKilledError(
                f"the application was killed by {asked.change.by}; it goes on from its last commit"
            )

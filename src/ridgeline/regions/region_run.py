"""One region of a running application: its run, what watches it, and how it is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal, TypeAlias

from ridgeline.api.errors import ChangeError
from ridgeline.engine.driver.run.options import Outcome
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.observe.watch import Watch
from ridgeline.plan.execution import Plan
from ridgeline.plan.region import Region

RegionState: TypeAlias = Literal["STARTING", "RUNNING", "FINISHED", "STOPPED", "FAILED"]
Launch: TypeAlias = Callable[["RegionRun"], Outcome]
"""Runs a region to its end; blocks. It calls `started` before the first window."""


class RegionRun:
    """A region of a running application, which has a thread of its own while it runs.

    `number`: the same in all runs on one checkpoint. `watch`: its figures, there before it has started.
    `stop`: set, it ends after the windows under way.
    """

    def __init__(self, region: Region, number: int, plan: Plan, watch: Watch, launch: Launch) -> None:
        self.region = region
        self.number = number
        self.watch = watch
        self.stop = threading.Event()
        self.halted = False
        """It was ended by a user, who will start it again: others wait for it."""
        self.run: ApplicationRun | None = None
        """The run; None before its first window."""
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        self._plan = plan
        self._launch = launch
        self._settled = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The name of the region."""
        return self.region.name

    @property
    def plan(self) -> Plan:
        """The plan of its next window."""
        return self._plan if self.run is None else self.run.plan

    @property
    def state(self) -> RegionState:
        """How it is. `FINISHED`: its inputs have finished; `STOPPED`: it was ended before."""
        if self.error is not None:
            return "FAILED"
        if self.outcome is not None:
            return "FINISHED" if self.outcome.ended else "STOPPED"
        return "STARTING" if self.run is None else "RUNNING"

    @property
    def is_running(self) -> bool:
        """True from `start` until it has ended."""
        return self._thread is not None and self._thread.is_alive()

    def running(self) -> ApplicationRun:
        """Its run. Raises ChangeError if it does not run."""
        if self.run is None or not self.is_running:
            state = state_of(self).lower()
            how = {"failed": "has failed", "pending": "has not started"}.get(state, f"is {state}")
            start = f"start it first: `ridgeline regions APP --start {self.name}`"
            raise ChangeError(f"region `{self.name}` {how}; {start}")
        return self.run

    def start(self) -> None:
        """Run it in a thread; again, from its checkpoint, after it has ended."""
        self.halted = False
        self.stop.clear()
        self._settled.clear()
        self.run = self.outcome = self.error = None
        self._thread = threading.Thread(target=self._run, name=f"ridgeline-{self.name}", daemon=True)
        self._thread.start()

    def halt(self) -> None:
        """End it after the windows under way, until it is started again."""
        self.halted = True
        self.stop.set()

    def started(self, run: ApplicationRun) -> None:
        """Its first window is about to begin; `launch` calls it."""
        self.run = run
        self._settled.set()

    def wait_until_started(self, timeout: float | None = None) -> None:
        """Block until the first window is about to begin, or it has failed before: see `error`."""
        self._settled.wait(timeout)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, at most so long; True if it has."""
        if self._thread is not None:
            self._thread.join(timeout)
        return not self.is_running

    def _run(self) -> None:
        try:
            self.outcome = self._launch(self)
        except BaseException as error:  # noqa: BLE001  raised in the thread that waits for all regions
            self.error = error
        finally:
            self._settled.set()


def state_of(region: RegionRun) -> str:
    """The state of a region: `PAUSED` too, and what its events say where it has no thread here."""
    seen = str(region.watch.info()["state"])
    if region.state in {"STARTING", "RUNNING"} and seen != "PENDING":
        return seen
    return "PENDING" if region.state == "STARTING" else region.state


def failure_of(region: RegionRun) -> str:
    """Why a region has failed; empty if it has not."""
    if region.error is not None:
        return str(region.error) or type(region.error).__name__
    info = region.watch.info()
    return info["reason"] if "id" in info else ""

"""Starts a driver again that died or failed, until it ends by itself or another start is of no use."""

from __future__ import annotations

import logging
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.cli.errors import FAILED, KILLED_BY, NOT_VALID
from ridgeline.cli.output import OUTPUT_GONE
from ridgeline.cli.supervising.announcing import Announcer
from ridgeline.cli.supervising.child import Child, Signals
from ridgeline.measure.wording.units import duration

_log = logging.getLogger(__name__)
STOPPED = "stopped before it was started again"
POISON = 3
"""So often the same fault at the same window is met before the driver is not started again."""


@dataclass(frozen=True, slots=True)
class Policy:
    """When a driver is started again. Times in seconds.

    The pause before a start begins with `first` and doubles up to `most`. It is `first` again once a driver
    has run windows for `well`. After `failures` within `within` the supervisor gives up.
    """

    first: float = 1.0
    most: float = 60.0
    well: float = 300.0
    failures: int = 10
    within: float = 900.0


@dataclass(slots=True)
class Failures:
    """The failures so far, and what follows from the next one."""

    policy: Policy
    _times: deque[float] = field(default_factory=deque)
    _pause: float = 0.0
    _same: str = ""
    _sames: int = 0

    def next(self, now: float, ran: float, report: Mapping[str, Any], code: int) -> tuple[float, str]:
        """The seconds before the next start, and why there is none; "" if there is one.

        `now`: a monotonic clock. `ran`: seconds that the driver ran windows. `report`: as of `judged`.
        """
        policy = self.policy
        if why := self._final(report, code):
            return 0.0, why
        if ran >= policy.well:
            self._pause = 0.0
            self._times.clear()
        self._pause = min(policy.most, self._pause * 2 or policy.first)
        self._times.append(now)
        while now - self._times[0] > policy.within:
            self._times.popleft()
        if len(self._times) >= policy.failures:
            times, within = len(self._times), now - self._times[0]
            return 0.0, f"it gives up: {times} failures within {duration(within)} (`--give-up`)"
        return self._pause, ""

    def _final(self, report: Mapping[str, Any], code: int) -> str:
        """Why another start is of no use; "" if it may be."""
        if code in {KILLED_BY + signal.SIGINT, KILLED_BY + signal.SIGTERM}:
            return "it was killed on request"
        if code == OUTPUT_GONE:
            return "its output has no reader any more"
        if code == NOT_VALID or not report.get("again", True):
            return "another start would end in the same way"
        same = report.get("same", "")
        self._sames = self._sames + 1 if same and same == self._same else 1
        self._same = same
        if same and self._sames >= POISON:
            return f"it failed {POISON} times in the same way at the same window"
        return ""


class Supervisor:
    """Runs `ridgeline WORDS` again and again.

    `say`: prints a line. `announcer`: says elsewhere how it stands. `given`: fields of `Link` that each
    driver is to know.
    """

    def __init__(
        self,
        words: Sequence[str],
        policy: Policy,
        say: Callable[[str], None],
        announcer: Announcer,
        given: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._words = words
        self._given = dict(given or {})
        self._failures = Failures(policy)
        self._say = say
        self._clock = clock or SystemClock()
        self._restarts = 0
        self._announcer = announcer
        self._final = ""

    def run(self, signals: Signals, child: Child | None = None) -> int:
        """Supervise drivers until one ends in order; the exit code. Call it in the main thread.

        `child`: the first of them, if it was started before.
        """
        announcer = self._announcer
        try:
            while True:
                child = child or self.start(signals)
                code = child.wait()
                if child.ran_since is not None:
                    self._given["begun"] = True
                pause = self.judge(child, code, signals)
                if pause is None:
                    if not child.ended:
                        announcer.over("failed", f"{reason_of(child, code)}{self._final}")
                    return exit_code(code)
                announcer.restarting(pause, self._given["reason"])
                if self._clock.wait(pause, signals.stopped):
                    announcer.over("ended", STOPPED)
                    self._say(STOPPED)
                    return 0
                self._restarts += 1
                child = None
        finally:
            announcer.close()

    def start(self, signals: Signals) -> Child:
        """Start a driver, and say so."""
        known, announcer = {"restarts": self._restarts, "begun": False, **self._given}, self._announcer
        with announcer.quiet():
            child = Child(self._words, known, signals, report=announcer.report)
            announcer.started(child.process.pid, self._restarts)
        return child

    def leave(self) -> None:
        """Supervise no longer: a driver that was started has ended, and another command follows it."""
        self._announcer.close()

    def judge(self, child: Child, code: int, signals: Signals) -> float | None:
        """The seconds after which the driver is started again; None: it is over. Says which and why."""
        if signals.count or (code == 0 and child.ended):
            return None
        reason = reason_of(child, code)
        show_cursor()
        ran = child.ran_seconds()
        pause, final = self._failures.next(self._clock.monotonic(), ran, child.failed, code)
        if final:
            self._final = f"; it is not started again: {final}"
            self._say(f"the driver {reason}; it is not started again: {final}")
            for line in child.lines:
                self._say(f"  its log said: {line}")
            return None
        self._given["reason"] = reason
        after = f"after {duration(ran)} of windows" if ran else "before its first window"
        self._say(f"the driver {reason}, {after}; it is started again in {duration(pause)}")
        return pause


def reason_of(child: Child, code: int) -> str:
    """How a driver has ended, in words that follow `the driver`."""
    if code < 0:
        name = signal.Signals(-code).name
        more = ", as by a system that is out of memory" if -code == signal.SIGKILL else ""
        return f"was killed by {name}{more}"
    if error := child.failed.get("error"):
        return f"failed: {error}"
    return f"ended with exit code {code}"


def exit_code(code: int) -> int:
    """The exit code of a supervisor or upgrade by that of the driver's process."""
    return code if code >= 0 else KILLED_BY - code


def show_cursor() -> None:
    """Show the cursor again, which a live view of a process that was killed has hidden."""
    if sys.stdout.isatty():
        Console().show_cursor(show=True)


__all__ = ["FAILED", "Failures", "Policy", "Supervisor", "exit_code", "reason_of", "show_cursor"]

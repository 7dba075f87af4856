"""Windows under way, as STRAM sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ridgeline.api.errors import Failure
from ridgeline.plan.protocol import OperatorReport, WindowReport


@dataclass(slots=True)
class Flight:
    """A window under way.

    `attempt`: the last one begun. `runs`: that attempt counts; else all were void, and the next one waits.
    `told`: its request named the states. `final`: the window is to run as the last. `reason`: why the attempt
    before was void. `reports`: by container. `finished`: the inputs that finish in this attempt. `delays`: a
    delay operator has tuples for the next window. `empty`: as far as has been reported, nothing has moved in
    this attempt. `time`: when it was due, the same for all attempts.
    """

    window_id: int
    time: int = 0
    attempt: int = -1
    runs: bool = False
    told: bool = False
    final: bool = False
    reason: str = ""
    reports: dict[int, WindowReport] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    delays: bool = False
    empty: bool = True

    def add(self, report: WindowReport) -> None:
        """Take in the report of a container that has run the attempt."""
        self.reports[report.window.container] = report
        self.finished.update(one.window.operator for one in report.operators if one.window.finished)
        self.delays = self.delays or any(one.delays for one in report.operators)
        self.empty = self.empty and is_empty(report)

    def void(self, reason: str) -> None:
        """The attempt does not count."""
        self.runs, self.reason, self.empty, self.delays = False, reason, True, False
        self.reports.clear()
        self.finished.clear()


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure that waits until the windows before `first` are committed.

    `window_id`: the window that it is counted for. `counts`: false if a container only needs the committed
    states to deal with it. `checked`: the files of states have been checked.
    """

    window_id: int
    first: int
    failure: Failure
    counts: bool = True
    checked: bool = False


def mismatch(reports: Mapping[int, WindowReport]) -> str:
    """What is wrong with the reports of all containers, empty if nothing is.

    A container may have read the blocks of an attempt that did not report. `seen` says so where that can be.
    """
    for consumer, report in sorted(reports.items()):
        for producer, tag in report.seen.items():
            if producer not in reports or reports[producer].window.task != tag:
                seen = f"container {consumer} saw another attempt of container {producer}"
                return f"{seen} than the one that reported"
    return ""


def is_empty(report: WindowReport) -> bool:
    """True if no tuple has moved, no state has changed, and nothing else has to be durable."""
    return report.small_change is None and not any(map(_has_moved, report.operators))


def _has_moved(report: OperatorReport) -> bool:
    window = report.window
    return bool(
        report.change
        or report.handed_over
        or window.finished
        or window.dropped
        or window.errors
        or any(window.tuples_in.values())
        or any(window.tuples_out.values())
    )

"""Where the time of windows goes: blame chains, added up."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from ridgeline.cli.tables import Columns, fitted
from ridgeline.measure.answers.windows import BlameStepAnswer, WindowSummaryAnswer
from ridgeline.measure.wording.times import STEPS
from ridgeline.measure.wording.units import milliseconds

SMALL = 0.01
"""Steps of less than this part of a window are put together with others of their kind."""


def average_phases(windows: Sequence[WindowSummaryAnswer]) -> dict[str, float]:
    """Milliseconds a window by what they went to, by the blame chains; their sum is the mean latency."""
    sums: dict[str, float] = {}
    for window in windows:
        for what, ms in window["phases"].items():
            sums[what] = sums.get(what, 0.0) + ms
    return {what: ms / len(windows) for what, ms in sums.items()}


def window_time_table(windows: Sequence[WindowSummaryAnswer], width: int) -> Table:
    """The parts of a window's time on average, the largest first; the last row is the sum."""
    found = sorted(average_phases(windows).items(), key=lambda part: -part[1])
    whole = sum(ms for _, ms in found)
    columns: Columns = {
        "what": [*(Text(STEPS.get(what, what)) for what, _ in found), Text("window", "bold")],
        "time": [*(Text(milliseconds(ms)) for _, ms in found), Text(milliseconds(whole), "bold")],
        "share": [*(Text(f"{ms / (whole or 1.0):.0%}", "dim") for _, ms in found), Text("")],
    }
    return fitted(columns, width, ("share",), left=("what",))


def blame_table(blame: Sequence[BlameStepAnswer], width: int) -> Table:
    """A window's blame chain from trigger to commit, small steps put together, and the sum."""
    whole = sum(step["ms"] for step in blame)
    rows = [
        (STEPS.get(step["what"], step["what"]), step["operator"], step["ms"])
        for step in blame
        if step["ms"] >= SMALL * whole
    ]
    if len(rows) < len(blame):
        rows.append((f"{len(blame) - len(rows)} small steps", "", whole - sum(ms for _, _, ms in rows)))
    columns: Columns = {
        "what": [*(Text(what) for what, _, _ in rows), Text("window", "bold")],
        "operator": [*(Text(operator) for _, operator, _ in rows), Text("")],
        "time": [*(Text(milliseconds(ms)) for _, _, ms in rows), Text(milliseconds(whole), "bold")],
        "share": [*(Text(f"{ms / (whole or 1.0):.0%}", "dim") for _, _, ms in rows), Text("")],
    }
    return fitted(columns, width, ("share",), left=("what", "operator"))

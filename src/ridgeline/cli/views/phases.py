"""The time of windows, phase by phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ridgeline.cli.tables import Columns, fitted
from ridgeline.measure.wording.units import milliseconds, plural

_TIMES = {"median": "medianMs", "mean": "meanMs", "p95": "p95Ms", "first window": "firstMs"}


def phases_parts(answer: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    """The output of `ridgeline run --profile`; `answer` is a `PhaseTable` as plain data."""
    without = f", without the first {answer['leftOut']}" if answer["leftOut"] else ""
    every = f"; a window every {milliseconds(answer['everyMs'])}" if answer["everyMs"] is not None else ""
    yield Text(f"phases of a window, {plural(answer['windows'], 'warm window')}{without}{every}:")
    yield phases_table(answer, width)
    yield Text(f"explained: {answer['explained']:.1%}")


def phases_table(answer: Mapping[str, Any], width: int) -> Table:
    """Median, mean and 95th percentile of each phase, its share, and its time in the first window.

    The last row is the sum of the means.
    """
    phases, whole = answer["phases"], answer["window"]
    times: Columns = {
        name: [*(Text(milliseconds(phase[key])) for phase in phases), Text(milliseconds(whole[key]), "bold")]
        for name, key in _TIMES.items()
    }
    columns: Columns = {
        "phase": [*(Text(phase["phase"]) for phase in phases), Text("window", "bold")],
        **times,
    }
    first = columns.pop("first window")
    columns["share"] = [*(Text(f"{phase['share']:.1%}", "dim") for phase in phases), Text("")]
    return fitted({**columns, "first window": first}, width, ("first window", "p95"), left=("phase",))

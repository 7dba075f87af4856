"""The backlogs of sources, and when they will be worked off."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from ridgeline.cli.tables import Columns, fitted
from ridgeline.cli.views.verdict import STYLES, end
from ridgeline.measure.answers.progress import ProgressAnswer, SourceAnswer
from ridgeline.measure.wording.units import UNKNOWN, duration, rate
from ridgeline.measure.wording.waiting import known_as

_DISPENSABLE = ("arrive/s", "taken/s", "in time", "caught up")
_KILO = 1024


def sources_table(progress: ProgressAnswer, width: int, at: float | None) -> Table | None:
    """A row for each source whose backlog is known; None if there is none. `at`: STRAM's clock, if known."""
    sources = [
        source
        for source in progress["sources"]
        if source["verdict"] != "unknown" or source["backlog"]["value"] is not None
    ]
    if not sources:
        return None
    columns: Columns = {
        "source": [Text(source["operator"]) for source in sources],
        "waits": [Text(_backlog(source)) for source in sources],
        "in time": [Text(_seconds(source["backlogSeconds"])) for source in sources],
        "taken/s": [Text(rate(source["drainPerSecond"])) for source in sources],
        "arrive/s": [Text(rate(source["arrivalPerSecond"])) for source in sources],
        "caught up": [Text(end(source["caughtUpAt"], at) or UNKNOWN) for source in sources],
        "verdict": [Text(source["verdict"], STYLES.get(source["verdict"], "dim")) for source in sources],
    }
    return fitted(columns, width, _DISPENSABLE, left=("source", "verdict"))


def _backlog(source: SourceAnswer) -> str:
    backlog, unit = source["backlog"], source["unit"]
    if backlog.get("infinite"):
        return "no end"
    if backlog["value"] is None:
        return UNKNOWN
    value = size(backlog["value"]) if unit == "bytes" else f"{rate(backlog['value'])} {unit}"
    return f"{known_as(backlog['basis'])}{value}"


def _seconds(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else duration(seconds)


def size(value: float | None) -> str:
    """Bytes as people read them.

    >>> size(None), size(900), size(4_000_000)
    ('-', '900 B', '3.8 MiB')
    """
    if value is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < _KILO:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= _KILO
    return f"{value:,.1f} TiB"

"""How old records are where they leave the application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from ridgeline.cli.tables import Columns, fitted
from ridgeline.measure.answers.operators import RecordAgesAnswer
from ridgeline.measure.wording.times import logical_name, place_order
from ridgeline.measure.wording.units import count, milliseconds

_DISPENSABLE = ("min", "p99.9", "p90", "negative", "oldest", "records", "p50", "max")
_LATER, _LATER_MS = 1.2, 100.0


def sink_ages(ages: RecordAgesAnswer) -> list[dict[str, Any]]:
    """The ages at the commit, one entry a sink; partitions are put together (see `together`)."""
    return together([entry for entry in ages["operators"] if entry["at"] == "commit"])


def together(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Ages by operator and place.

    Least, greatest and mean are over all partitions; percentiles are those of the worst partition.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for entry in entries:
        groups.setdefault((logical_name(entry["operator"]), entry["at"]), []).append(entry)
    return [_merged(title, place, group) for (title, place), group in groups.items()]


def sink_lines(ages: RecordAgesAnswer, limit: int = 4) -> list[Text]:
    """`record age at console, committed: avg 120 ms, p99 300 ms`; the oldest sinks first."""
    found = sorted(sink_ages(ages), key=lambda entry: -(entry["p99Ms"] or 0.0))
    seen = {
        entry["operator"]: entry
        for entry in together([entry for entry in ages["operators"] if entry["at"] == "publish"])
    }
    lines = [
        Text.assemble(
            ("record age behind the newest at " if ages.get("fromNewestRecord") else "record age at ", "dim"),
            (entry["operator"], "bold"),
            (", committed: ", "dim"),
            f"avg {milliseconds(entry['avgMs'])}, p99 "
            f"{milliseconds(entry['p99Ms'])}{_seen_later(entry, seen.get(entry['operator']))}",
        )
        for entry in found[:limit]
    ]
    if len(found) > limit:
        lines.append(Text(f"and {len(found) - limit} more sinks", "dim"))
    return lines


def _seen_later(committed: Mapping[str, Any], published: Mapping[str, Any] | None) -> str:
    """`; published: avg 5 min 0 s`, if readers see records noticeably later than they are committed."""
    if (
        published is None
        or published["avgMs"] is None
        or published["avgMs"] < _LATER * (committed["avgMs"] or 0.0) + _LATER_MS
    ):
        return ""
    return f"; published: avg {milliseconds(published['avgMs'])}, p99 {milliseconds(published['p99Ms'])}"


def ages_table(entries: Sequence[Mapping[str, Any]], width: int) -> Table:
    """All figures of some entries of `/recordAge`."""
    ordered = sorted(entries, key=lambda entry: place_order(entry["at"]))
    columns: Columns = {
        "operator": [Text(entry["operator"]) for entry in ordered],
        "at": [Text(entry["at"]) for entry in ordered],
    }
    for title, name in (
        ("min", "minMs"),
        ("avg", "avgMs"),
        ("p50", "p50Ms"),
        ("p90", "p90Ms"),
        ("p99", "p99Ms"),
        ("p99.9", "p999Ms"),
        ("max", "maxMs"),
        ("oldest", "oldestMs"),
    ):
        columns[title] = [Text(milliseconds(entry.get(name))) for entry in ordered]
    columns["records"] = [Text(count(entry["count"])) for entry in ordered]
    if any(entry["negative"] for entry in ordered):
        columns["negative"] = [
            Text(count(entry["negative"]), "yellow" if entry["negative"] else "dim") for entry in ordered
        ]
    return fitted(columns, width, _DISPENSABLE, left=("operator", "at"))


def _merged(title: str, place: str, group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The ages of several partitions as one row."""
    records = sum(entry["count"] for entry in group)
    known = [entry for entry in group if entry["count"] and entry["avgMs"] is not None]
    weights = sum(entry["count"] for entry in known)
    merged: dict[str, Any] = {
        "operator": title,
        "at": place,
        "count": records,
        "negative": sum(entry["negative"] for entry in group),
        "minMs": min((entry["minMs"] for entry in known), default=None),
        "avgMs": sum(entry["avgMs"] * entry["count"] for entry in known) / weights if weights else None,
    }
    for name in ("maxMs", "p50Ms", "p90Ms", "p99Ms", "p999Ms", "oldestMs"):
        merged[name] = max((entry[name] for entry in known if entry.get(name) is not None), default=None)
    return merged

"""One overview as a screen: sentence, window, critical path, operators, ages, backlog, what runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.cli.tables import drawn, flow
from ridgeline.cli.views.lines import hottest_line
from ridgeline.cli.views.own_metrics import metrics_lines
from ridgeline.cli.views.path import path_text, rest_text
from ridgeline.cli.views.running import running_lines, sentence_text, sources_table
from ridgeline.measure.age.record_age import place_order
from ridgeline.measure.answers.application import OverviewAnswer
from ridgeline.measure.answers.operators import MetricsAnswer, OperatorLinesAnswer, RecordAgesAnswer
from ridgeline.measure.changes import text_of
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.measure.wording.times import logical_name
from ridgeline.measure.wording.units import count, duration, milliseconds, percentile, plural, rate
from ridgeline.service.columns import Column, words
from ridgeline.service.tables import TABLES, warned

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
    return drawn(TABLES["ages"], sorted(entries, key=lambda entry: place_order(entry["at"])), width)


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
        merged[name] = _greatest(known, name)
    return merged


BAR_WIDTH = 20
_PARTS = (("compute", "█", "green"), ("wait", "░", "yellow"), ("transfer", "▒", "blue"))


Row = Mapping[str, Any]
"""The partitions of an operator, or its unifiers, as one row, in the names of an operator's answer."""


def rows_of(operators: Sequence[Row]) -> list[Row]:
    """One row for each logical operator and each of its unified ports, in the operators' order."""
    groups: dict[str, list[Row]] = {}
    for operator in operators:
        groups.setdefault(logical_name(operator["operator"]), []).append(operator)
    return [_row(title, partitions) for title, partitions in groups.items()]


def operators_figures(
    operators: Sequence[Mapping[str, object]], width: int, limit: int | None = None
) -> list[Any]:
    """Table and legend of the last window.

    Beyond `limit` rows those with the least latency are left out and counted.
    """
    rows = rows_of(operators)
    hidden = len(rows) - limit if limit is not None else 0
    if hidden > 0:
        slowest = sorted(range(len(rows)), key=lambda row: -(rows[row]["latencyMs"] or 0.0))[:limit]
        rows = [rows[row] for row in sorted(slowest)]
    longest = max((row["latencyMs"] or 0.0 for row in rows), default=0.0)
    several = any(row["partitions"] != 1 for row in rows)

    def title(row: Row) -> Text:
        return Text(row["operator"], "bold" if longest and row["latencyMs"] == longest else "")

    columns = (
        words("operator", title),
        Column("partitions", lambda row: row["partitions"] if several else 0, count, keep=1, optional=True),
        Column("latency", "latencyMs", milliseconds),
        Column("p50", "p50Ms", percentile, keep=2),
        Column("p99", "p99Ms", percentile, keep=6),
        words("bar", lambda row: bar(row, longest), keep=4),
        Column("in/s", "tuplesProcessedPSMA", rate, keep=5),
        Column("out/s", "tuplesEmittedPSMA", rate, keep=3),
        Column("errors", "errors", count, warned, optional=True),
    )
    table = drawn(columns, rows, width)
    names = [str(column.header) for column in table.columns]
    parts: list[Any] = [table]
    below = Text()
    if "bar" in names:
        table.columns[names.index("bar")].header = Text("where it goes")
        below = legend()
    if hidden > 0:
        below = Text.assemble(
            below,
            "  " if below else "",
            (f"{hidden} more with less latency: `ridgeline operators`", "dim"),
        )
    return [*parts, below] if below else parts


def bar(row: Row, longest_ms: float) -> Text:
    """Compute, wait and transfer as parts of a bar.

    The longest operator's bar is `BAR_WIDTH` wide; all are padded to that.
    """
    text = Text()
    cells, whole = 0, 0.0
    for name, character, style in _PARTS:
        whole += row[f"{name}Ms"] or 0.0
        upto = min(BAR_WIDTH, round(BAR_WIDTH * whole / longest_ms)) if longest_ms > 0 else 0
        text.append(character * (upto - cells), style)
        cells = max(cells, upto)
    return text.append(" " * (BAR_WIDTH - cells))


def legend() -> Text:
    """The meaning of the characters of the bars."""
    return Text("  ").join(
        Text.assemble((character, style), (f" {name}", "dim")) for name, character, style in _PARTS
    )


def _row(title: str, partitions: Sequence[Row]) -> Row:
    """An operator's partitions together: the slowest's times, the sum of tuples."""
    slowest = max(partitions, key=lambda partition: partition["latencyMs"] or 0.0)
    sums = ("tuplesProcessedPSMA", "tuplesEmittedPSMA", "errors")
    return {
        **slowest,
        "operator": title,
        "partitions": sum(partition.get("partitions", 1) for partition in partitions),
        **{name: sum(partition[name] or 0 for partition in partitions) for name in sums},
        **{name: _greatest(partitions, name) for name in ("p50Ms", "p99Ms")},
    }


def _greatest(rows: Sequence[Row], name: str) -> float | None:
    return max((row[name] for row in rows if row.get(name) is not None), default=None)


_FEWEST_ROWS = 3
_NEWS_SECONDS = 60.0
_HEAD_LINES = 3  # of the operators' table, its legend and what may come below


def screen(
    overview: OverviewAnswer,
    width: int,
    height: int | None = None,
    metrics: MetricsAnswer | None = None,
    lines: OperatorLinesAnswer | None = None,
) -> list[RenderableType]:
    """The screen while an application runs. Operators get the lines that are left of `height`.

    Args:
        overview: As `/overview` answers.
        width: Columns.
        height: Lines; None: as many as it needs.
        metrics: Those that operators declare, as `/metrics`; None: they are not shown.
        lines: Where the time of the operator to blame goes; its hottest line is shown. None: none is.
    """
    progress = overview["progress"]
    sentence = sentence_text(sentence_of(overview))
    above: list[Text] = [flow(list(sentence.split(" ")), width), window_line(overview, width)]
    above += [*change_lines(overview), *promise_lines(overview)]
    above += [
        line
        for line in (path_text(overview["criticalPath"], width), rest_text(overview["criticalPath"], width))
        if line
    ]
    if lines is not None and (line := hottest_line(lines)):
        named = Text(f"hot line of {printable(lines['operator'])}", "dim")
        above.append(flow([named, *line.split(" ")], width, indent=2))
    own = metrics_lines(metrics, width) if metrics is not None else []
    below: list[RenderableType] = [*own, *sink_lines(overview["recordAge"])]
    height_below = len(below) + sum(line.plain.count("\n") for line in own)
    sources = sources_table(progress, width, overview["at"])
    if sources is not None:
        below.append(sources)
        height_below += sources.row_count + 1
    running = running_lines(progress)
    limit = None
    if height is not None:
        used = sum(1 + line.plain.count("\n") for line in above) + height_below + len(running) + _HEAD_LINES
        limit = max(_FEWEST_ROWS, height - used)
    return [*above, *operators_figures(overview["operators"], width, limit), *below, *running]


def promise_lines(overview: OverviewAnswer) -> list[Text]:
    """The promises that are broken, a line each; in a line that all are kept, or nothing without any."""
    rows = overview.get("promises", [])
    broken = [row for row in rows if row["kept"] is False]
    lines = []
    for row in broken:
        since = duration(max(0.0, overview["at"] - row["since"]))
        reason = f": {row['reason']}" if row["reason"] else ""
        lines.append(Text(printable(f"promise {row['promise']} is broken for {since}{reason}"), "bold red"))
    if rows and all(row["kept"] for row in rows):
        lines.append(Text(f"{plural(len(rows), 'promise')} kept", "green"))
    return lines


def change_lines(overview: OverviewAnswer) -> list[Text]:
    """The newest change, while it waits and for a minute after that; one that was refused in colour."""
    change = overview.get("change")
    if change is None or (change["state"] != "QUEUED" and overview["at"] - change["since"] > _NEWS_SECONDS):
        return []
    return [Text(printable(text_of(change)), "yellow" if change["state"] == "REFUSED" else "cyan")]


def window_line(overview: Mapping[str, Any], width: int) -> Text:
    """The window, its latency and lateness, and tuples per second into and out of the application."""
    window, operators = overview.get("window") or {}, overview["operators"]
    pieces = [
        _named("window", count(overview["windowId"])),
        _named("latency", milliseconds(overview["criticalPath"].get("windowLatencyMs"))),
    ]
    if window.get("lateMs") is not None:
        pieces.append(_named("late", milliseconds(window["lateMs"])))
    for title, kind, name in (
        ("in/s", "input", "tuplesEmittedPSMA"),
        ("out/s", "output", "tuplesProcessedPSMA"),
    ):
        pieces.append(
            _named(
                title, rate(sum(operator[name] or 0.0 for operator in operators if operator["kind"] == kind))
            )
        )
    return flow(pieces, width)


def _named(name: str, value: str) -> Text:
    return Text.assemble((f"{name} ", "dim"), (value, "bold"), " ")

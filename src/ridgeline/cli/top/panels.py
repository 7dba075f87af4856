"""The panels below the table: the operator under the cursor, the sources, the slots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.cli.tables import Columns, fitted, flow
from ridgeline.cli.top.board import ACCENT, KEPT, OperatorRow, spark
from ridgeline.cli.views.backlog import sources_table
from ridgeline.cli.views.lines import NONE, hottest_line, lines_table
from ridgeline.measure.answers.application import OverviewAnswer
from ridgeline.measure.answers.lines import OperatorLinesAnswer
from ridgeline.measure.wording.units import about, count, duration, milliseconds, percentile, rate

_PARTITIONS = 6


def operator_panel(
    overview: OverviewAnswer, row: OperatorRow, lines: OperatorLinesAnswer | None, width: int
) -> RenderableType:
    """An operator: where its time goes, whether it is on the critical path, its partitions and processes.

    `lines`: where its time goes by line, if that is known.
    """
    rows: list[Mapping[str, Any]] = [dict(one) for one in overview["operators"] if one["id"] in row.ids]
    first = rows[0]
    path, share = overview["criticalPath"], overview["criticalPath"]["logicalShare"].get(row.logical)
    head = Text.assemble(
        (row.title, ACCENT if row.on_path else "bold"), f"  {first['className'].rpartition('.')[2]}"
    )
    if row.on_path:
        head.append("  on the critical path", ACCENT)
    elif (
        slack := min(
            (path["slack"][r["operator"]] for r in rows if r["operator"] in path["slack"]), default=None
        )
    ) is not None:
        head.append(f"  {milliseconds(slack)} from the critical path", "dim")
    if share is not None:
        head.append(f", {share:.0%} of windows", "dim")
    times = Text.assemble(
        ("compute ", "dim"), about(milliseconds(row.parts_ms[0]), row.estimated),
        ("  wait ", "dim"), milliseconds(row.parts_ms[1]),
        ("  transfer ", "dim"), milliseconds(row.parts_ms[2]), ("  p99 ", "dim"), percentile(row.p99_ms),
    )  # fmt: skip
    trend = spark(row.trend, min(KEPT, width - 20))
    history = Text.assemble(
        ("latency ", "dim"), (trend, "cyan"), f" max {milliseconds(max(row.trend, default=None))}"
    )
    hot = hottest_line(lines) if lines is not None else Text()
    hot_line = [flow([Text("hot line", "dim"), *hot.split(" ")], width, indent=2)] if hot else []
    return Group(head, times, history, *hot_line, *_ages(overview, row), *_partitions(rows, width))


def owner_of(overview: OverviewAnswer, row: OperatorRow) -> str | None:
    """The logical operator of a row: of unifiers the one before them; None if the plan has not got it now."""
    return next((one["logicalName"] for one in overview["operators"] if one["id"] in row.ids), None)


def lines_panel(
    operator: str, known: Mapping[str, OperatorLinesAnswer | None], width: int, *, to_blame: bool
) -> list[RenderableType]:
    """Where the time of an operator goes by line; in words why that is not known.

    `known`: by operator, those that were asked for. `to_blame`: it is the slowest of the critical path.
    """
    head = Text.assemble((printable(operator), ACCENT if to_blame else "bold"))
    if to_blame:
        head.append("  slowest of the critical path", ACCENT)
    lines = known.get(operator)
    if lines is None:
        return [head, Text(NONE if operator in known else "asking ...", "dim")]
    head.append(f"  {duration(lines['seconds'])} of the last minute", "dim")
    return [head, lines_table(lines, width)]


def _ages(overview: OverviewAnswer, row: OperatorRow) -> Iterable[Text]:
    found = [one for one in overview["recordAge"]["operators"] if one["id"] in row.ids and one["count"]]
    for place in dict.fromkeys(one["at"] for one in found):
        p99 = max(
            (one["p99Ms"] for one in found if one["at"] == place and one["p99Ms"] is not None), default=None
        )
        yield Text.assemble((f"record age at {place} ", "dim"), f"p99 {milliseconds(p99)}")


def _partitions(rows: list[Mapping[str, Any]], width: int) -> Iterable[RenderableType]:
    """Partitions side by side: the slowest first."""
    rows = sorted(rows, key=lambda row: -(row["latencyMs"] or 0.0))
    shown = rows[:_PARTITIONS]
    columns: Columns = {
        "partition": [Text(row["operator"]) for row in shown],
        "latency": [Text(milliseconds(row["latencyMs"])) for row in shown],
        "in/s": [Text(rate(row["tuplesProcessedPSMA"])) for row in shown],
        "cpu": [
            Text("-" if row["cpuPercentageMA"] is None else f"{row['cpuPercentageMA']:.0f}%") for row in shown
        ],
        "pid": [Text(str(row["pid"] or "-")) for row in shown],
        "host": [Text(row["host"] or "-") for row in shown],
    }
    yield fitted(columns, width, ("host", "pid"), left=("partition",))
    if len(rows) > len(shown):
        yield Text(f"and {len(rows) - len(shown)} more", "dim")


def sources_panel(overview: OverviewAnswer, width: int) -> list[RenderableType]:
    """The sources with their backlogs; a line if they say nothing of it."""
    table = sources_table(overview["progress"], width, overview["at"])
    return [Text("no source knows its backlog", "dim") if table is None else table]


def slots_panel(overview: OverviewAnswer, width: int) -> list[RenderableType]:
    """The processes that run the operators, the busiest first."""
    slots: dict[tuple[str | None, int | None], list[Mapping[str, Any]]] = {}
    for operator in overview["operators"]:
        slots.setdefault((operator["host"], operator["pid"]), []).append(dict(operator))
    busiest = sorted(slots.items(), key=lambda item: -_busy(item[1]))[:_PARTITIONS]
    columns: Columns = {
        "slot": [Text(f"{host or '-'}:{pid or '-'}") for (host, pid), _ in busiest],
        "operators": [Text(count(len(rows))) for _, rows in busiest],
        "containers": [Text(count(len({row["container"] for row in rows}))) for _, rows in busiest],
        "compute": [Text(milliseconds(_busy(rows))) for _, rows in busiest],
    }
    more = [Text(f"and {len(slots) - len(busiest)} more slots", "dim")] if len(slots) > len(busiest) else []
    return [Text(), fitted(columns, width, ("containers",), left=("slot",)), *more]


def _busy(rows: Iterable[Mapping[str, Any]]) -> float:
    """The time in callbacks of a window."""
    return sum(row["computeMs"] or 0.0 for row in rows)

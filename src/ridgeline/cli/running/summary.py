"""What a run says at its end."""

from __future__ import annotations

import statistics as mathematics
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.text import Text

from ridgeline.cli.running.report import Report, report_parts
from ridgeline.cli.running.statistics import RunStatistics
from ridgeline.cli.running.totals import totals_table
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.units import count, duration, plural

if TYPE_CHECKING:
    from ridgeline.engine.driver.launch import Outcome


WIDEST = 100
"""Columns that the figures at a run's end take at most."""


def ended_line(outcome: Outcome, stopped_by: str) -> str:
    """How the run ended: `finished`, `stopped after 20 windows`, `stopped by Ctrl-C`."""
    if outcome.ended and not outcome.windows_committed:
        return f"nothing to do: all inputs had finished with window {outcome.last_window}"
    windows = plural(outcome.windows_committed, "window")
    if outcome.ended:
        return f"finished: all inputs have given everything, {windows} committed"
    if stopped_by:
        return (
            f"stopped by {stopped_by} after {windows}"
            if outcome.windows_committed
            else f"stopped by {stopped_by} before the first window"
        )
    return f"stopped after {windows}"


def print_summary(
    console: Console,
    outcome: Outcome,
    run: RunStatistics,
    report: Report | None,
    settings: RunSettings,
    stopped_by: str,
) -> None:
    """Print how it ended, what operators did, where time went, and how to go on."""
    console.print()
    say(console, Text(ended_line(outcome, stopped_by), "bold green" if outcome.ended else "bold"))
    print_figures(console, run, report)
    print_going_on(console, settings, outcome.checkpoint, ended=outcome.ended)


def print_figures(console: Console, run: RunStatistics, report: Report | None) -> None:
    """Print what a run's events add up to; nothing if no window was committed."""
    if run.last is None:
        return
    width = min(console.width, WIDEST)
    for part in summary(run, width):
        say(console, part)
    if report is not None:
        for part in report_parts(report, width):
            say(console, part)
    for part in errors(run):
        say(console, part)


def print_going_on(console: Console, settings: RunSettings, checkpoint: str, *, ended: bool = False) -> None:
    """Say what the checkpoint folder is good for now; nothing if it was a temporary one that is removed."""
    if ended and settings.checkpoint is None:
        return
    console.print()
    if ended:
        say(console, Text(f"the run's state is in {checkpoint}; it is not needed any more", "dim"))
    else:
        say(console, Text("go on with:", "dim"))
        console.print(Text(f"  {settings.command(checkpoint)}"), soft_wrap=True)


def say(console: Console, part: RenderableType) -> None:
    """Print; texts are wrapped at words on terminals and not at all elsewhere, tables are at most `WIDEST` wide."""
    if isinstance(part, Text):
        console.print(part, soft_wrap=not console.is_terminal)
    else:
        console.print(part, width=min(console.width, WIDEST))


def summary(run: RunStatistics, width: int) -> Iterator[RenderableType]:
    """Windows and their times, operators; nothing if no window was committed."""
    if run.last is None or run.started is None:
        return
    first = run.last.window_id - run.windows + 1
    windows = (
        f"windows {first} to {run.last.window_id}" if run.windows > 1 else f"window {run.last.window_id}"
    )
    repeated = f", {plural(run.retries, 'attempt')} repeated" if run.retries else ""
    tasks = (
        f", {plural(run.tasks_retried, 'task')} begun again by Spark: processes were lost"
        if run.tasks_retried
        else ""
    )
    yield Text(f"{windows} in {duration(run.committed - run.started)}{repeated}{tasks}")
    if run.seconds:
        ordered = sorted(run.seconds)
        median, p90 = mathematics.median(ordered), ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
        line = f"window time: median {duration(median)}, 90% within {duration(p90)}; the first one {duration(run.first_seconds)}"
    else:
        line = f"window time: {duration(run.first_seconds)}"
    yield Text(line)
    yield Text()
    yield totals_table(list(run.rows.values()), width)


def errors(run: RunStatistics) -> Iterator[RenderableType]:
    """Tuples that failed and windows that were dropped, with the last ones of each."""
    with_errors = [row for row in run.rows.values() if row.errors]
    if with_errors:
        yield Text()
        yield Text(
            "errors: " + ", ".join(f"{row.title} {count(row.errors)}" for row in with_errors), "yellow"
        )
        for title, window_id, text in run.error_tuples:
            yield Text(f"  {title}, window {window_id}: {text}")
    dropped = [row for row in run.rows.values() if row.windows_dropped]
    if dropped:
        yield Text()
        names = ", ".join(f"{row.title} {plural(row.windows_dropped, 'window')}" for row in dropped)
        yield Text(f"dropped (AT_MOST_ONCE): {names}; the last ones:", "yellow")
        for text in run.drops:
            yield Text(f"  {text}")

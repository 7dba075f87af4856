"""What a run says at its end."""

from __future__ import annotations

import statistics as mathematics
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.text import Text

from ridgeline.cli.settings import RunSettings
from ridgeline.cli.statistics import RunStatistics
from ridgeline.cli.tables import operators_table, phases_table
from ridgeline.cli.units import count, duration, plural

if TYPE_CHECKING:
    from ridgeline.engine.launch import Outcome


def ended_line(outcome: Outcome, stopped_by: str) -> str:
    """How the run ended: `finished`, `stopped after 20 windows`, `stopped by Ctrl-C`."""
    if outcome.ended and not outcome.windows_committed:
        return f"nothing to do: all inputs had finished with window {outcome.last_window}"
    windows = plural(outcome.windows_committed, "window")
    if outcome.ended:
        return f"finished: all inputs have given everything, {windows} committed"
    if stopped_by:
        return (
            f"stopped by {stopped_by} after {windows}" if outcome.windows_committed else f"stopped by {stopped_by} before the first window"
        )
    return f"stopped after {windows}"


def print_summary(console: Console, outcome: Outcome, run: RunStatistics, settings: RunSettings, stopped_by: str) -> None:
    """Print how it ended, where time went, what operators did, and how to go on."""
    console.print()
    _say(console, Text(ended_line(outcome, stopped_by), "bold green" if outcome.ended else "bold"))
    for part in summary(run, console.width):
        _say(console, part)
    print_going_on(console, settings, outcome.checkpoint, ended=outcome.ended)


def print_going_on(console: Console, settings: RunSettings, checkpoint: str, *, ended: bool = False) -> None:
    """Say what the checkpoint folder is good for now."""
    console.print()
    if ended:
        _say(console, Text(f"the run's state is in {checkpoint}; it is not needed any more", "dim"))
    else:
        _say(console, Text("go on with:", "dim"))
        console.print(Text(f"  {settings.command(checkpoint)}"), soft_wrap=True)


def _say(console: Console, part: RenderableType) -> None:
    """Print; texts are wrapped at words on terminals and not at all elsewhere."""
    console.print(part, soft_wrap=isinstance(part, Text) and not console.is_terminal)


def summary(run: RunStatistics, width: int) -> Iterator[RenderableType]:
    """Windows and their times, operators, errors, drops; nothing if no window was committed."""
    if run.last is None:
        return
    windows = (
        f"windows {run.last.window_id - run.windows + 1} to {run.last.window_id}" if run.windows > 1 else f"window {run.last.window_id}"
    )
    yield Text(f"{windows} in {duration(run.committed - run.started)}{_retried(run)}")
    if run.seconds:
        ordered = sorted(run.seconds)
        median, p90 = mathematics.median(ordered), ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
        line = f"window time: median {duration(median)}, 90% within {duration(p90)}; the first one {duration(run.first_seconds)}"
    else:
        line = f"window time: {duration(run.first_seconds)}"
    yield Text(line)
    if run.phases.windows:
        yield Text()
        yield Text("where a window's time goes, on average; the first three inside of containers:")
        yield phases_table(run.phases)
    yield Text()
    yield operators_table(list(run.rows.values()), width, totals=True)
    yield from _errors(run)


def _retried(run: RunStatistics) -> str:
    return f", {plural(run.retries, 'attempt')} repeated" if run.retries else ""


def _errors(run: RunStatistics) -> Iterator[RenderableType]:
    with_errors = [row for row in run.rows.values() if row.errors]
    if with_errors:
        yield Text()
        yield Text("errors: " + ", ".join(f"{row.title} {count(row.errors)}" for row in with_errors), "yellow")
        for title, window_id, text in run.error_tuples:
            yield Text(f"  {title}, window {window_id}: {text}")
    dropped = [row for row in run.rows.values() if row.windows_dropped]
    if dropped:
        yield Text()
        names = ", ".join(f"{row.title} {plural(row.windows_dropped, 'window')}" for row in dropped)
        yield Text(f"dropped (AT_MOST_ONCE): {names}; the last ones:", "yellow")
        for text in run.drops:
            yield Text(f"  {text}")

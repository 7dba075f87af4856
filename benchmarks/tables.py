"""What the terminal shows: a line for each contestant on the way, a table at the end."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.frame import Benchmark
from benchmarks.summary import Ran, figures_of, judge_all, readable, readable_compared, readable_limit, spread

STYLES = {"met": "green", "missed": "red", "not run": "yellow"}
Finished = Sequence[tuple[Benchmark, Sequence[Ran]]]


def show_begin(console: Console, benchmark: Benchmark) -> None:
    """A benchmark begins."""
    console.print(f"\n[bold]{benchmark.name}[/]  {escape(benchmark.title)}")


def show_ran(console: Console, benchmark: Benchmark, ran: Ran) -> None:
    """A contestant has run."""
    width = max(map(len, [*benchmark.contestants, "prepare"]))
    head = f"  {ran.number + 1}/{benchmark.rounds}  {ran.contestant:<{width}}"
    if ran.error:
        console.print(f"{head}  [red]{escape(ran.error.splitlines()[0])}[/]", highlight=False, soft_wrap=True)
    elif ran.figures:
        shown = []
        for figure, samples in ran.figures.items():
            found = spread(samples)
            around = (
                f" ({readable(figure, found.low)} to {readable(figure, found.high)})"
                if len(samples) > 1
                else ""
            )
            shown.append(f"{figure} {readable(figure, found.median)}{around}")
        console.print(
            f"{head}  {escape(', '.join(shown))}  [dim]{ran.seconds:.0f} s[/]",
            highlight=False,
            soft_wrap=True,
        )
    if ran.notes:
        for line in ran.notes.splitlines():
            console.print(f"      [dim]{escape(line)}[/]", highlight=False, soft_wrap=True)


def show_end(console: Console, finished: Finished, *, judged: bool) -> None:
    """The table of goals, and why some of them were not judged."""
    table = Table(
        title="" if judged else "a quick trial: the figures mean nothing",
        title_justify="left",
        title_style="yellow",
    )
    for column in ("benchmark", "figure", "contestant", "", "against", ""):
        table.add_column(column, overflow="fold")
    for column in ("ratio", "p10 to p90", "goal"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    reasons = []
    for benchmark, rounds in finished:
        name = benchmark.name
        for found in judge_all(benchmark, rounds):
            goal = found.goal
            ours = _value(rounds, goal.of, goal.figure)
            against = (
                goal.against
                if goal.against_figure == goal.figure
                else f"{goal.against}, {goal.against_figure}"
            )
            theirs = _value(rounds, goal.against, goal.against_figure) if goal.against else ""
            compared, around = readable_compared(goal, found.compared) if found.compared else ("-", "-")
            verdict = found.verdict if judged or found.verdict == "not run" else "-"
            shown = f"[{STYLES.get(verdict, 'dim')}]{verdict}[/]"
            table.add_row(
                name,
                goal.figure,
                goal.of,
                ours,
                against,
                theirs,
                compared,
                around,
                readable_limit(goal),
                shown,
            )
            name = ""
            if found.reason:
                reasons.append(f"{benchmark.name}, {goal.figure} against {goal.against}: {found.reason}")
        table.add_section()
    if table.row_count:
        console.print()
        console.print(table)
    for reason in reasons:
        console.print(f"not run: {escape(reason.splitlines()[0])}", highlight=False, soft_wrap=True)


def _value(rounds: Sequence[Ran], contestant: str, figure: str) -> str:
    found = figures_of(rounds, contestant).get(figure)
    return readable(figure, found.median) if found else "-"

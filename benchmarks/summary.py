"""From samples to medians, spreads, ratios and verdicts. Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from benchmarks.frame import Benchmark, Figures, Goal

Verdict = Literal["met", "missed", "not run"]


@dataclass(frozen=True)
class Ran:
    """One contestant in one round: its figures, or `error`, the reason why there are none."""

    contestant: str
    number: int
    figures: Figures = field(default_factory=dict)
    error: str = ""
    notes: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Spread:
    """A median with the tenth and the ninetieth percentile of what it is the median of."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Judged:
    """A goal after the benchmark.

    `compared` is the median of the rounds' ratios (or differences); None if there is none: `reason`.
    """

    goal: Goal
    verdict: Verdict
    compared: Spread | None = None
    reason: str = ""


def spread(samples: Sequence[float]) -> Spread:
    """Median, p10 and p90, interpolated.

    >>> spread([3.0, 1.0, 2.0])
    Spread(median=2.0, low=1.2, high=2.8)
    """
    low, middle, high = (
        float(value) for value in np.percentile(np.asarray(samples, dtype=float), [10, 50, 90])
    )
    return Spread(middle, round(low, 12), round(high, 12))


def figures_of(rounds: Sequence[Ran], contestant: str) -> dict[str, Spread]:
    """A contestant's figures: the median of the rounds' medians, and the spread of all samples."""
    found: dict[str, list[Sequence[float]]] = {}
    for ran in rounds:
        if ran.contestant == contestant:
            for figure, samples in ran.figures.items():
                found.setdefault(figure, []).append(samples)
    spreads = {}
    for figure, samples_of_rounds in found.items():
        whole = spread([sample for samples in samples_of_rounds for sample in samples])
        spreads[figure] = Spread(
            statistics.median(map(statistics.median, samples_of_rounds)), whole.low, whole.high
        )
    return spreads


def judge(goal: Goal, rounds: Sequence[Ran]) -> Judged:
    """Compare round by round: what disturbs a machine for a while disturbs both."""
    of = _medians(rounds, goal.of, goal.figure)
    against = _medians(rounds, goal.against, goal.against_figure) if goal.against else of
    numbers = sorted(of.keys() & against.keys())
    if not numbers:
        return Judged(goal, "not run", reason=_why(goal, rounds))
    compared = spread([goal.compare(of[number], against[number]) for number in numbers])
    return Judged(goal, "met" if goal.met(compared.median) else "missed", compared)


def judge_all(benchmark: Benchmark, rounds: Sequence[Ran]) -> list[Judged]:
    """All goals of a benchmark."""
    return [judge(goal, rounds) for goal in benchmark.goals]


def _medians(rounds: Sequence[Ran], contestant: str, figure: str) -> dict[int, float]:
    """A contestant's figure by round."""
    own = [ran for ran in rounds if ran.contestant == contestant]
    return {ran.number: statistics.median(ran.figures[figure]) for ran in own if figure in ran.figures}


def _why(goal: Goal, rounds: Sequence[Ran]) -> str:
    others = [(goal.against, goal.against_figure)] if goal.against else []
    for name, figure in [(goal.of, goal.figure), *others]:
        of_it = [ran for ran in rounds if ran.contestant == name]
        if not of_it:
            return f"{name}: ended no round"
        if not _medians(of_it, name, figure):
            return f"{name}: {of_it[-1].error or f'gives no `{figure}`'}"
    return "no round in which both ran"


def readable(figure: str, value: float) -> str:
    """A value with its unit, by the figure's name.

    >>> (
    ...     readable("window seconds", 0.0314),
    ...     readable("seconds", 12.5),
    ...     readable("tuples/s", 18_640_000),
    ...     readable("state bytes", 5e8),
    ... )
    ('31.4 ms', '12.5 s', '18.6 M/s', '500 MB')
    """
    if figure.endswith("seconds"):
        return f"{_short(value)} s" if abs(value) >= 1 else f"{_short(value * 1e3)} ms"
    unit = "/s" if figure.endswith("/s") else "B" if figure.endswith("bytes") else ""
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{_short(value / size)} {prefix}{unit}"
    return f"{_short(value)} {unit}".rstrip()


def _short(value: float) -> str:
    """Three digits, no exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def readable_limit(goal: Goal) -> str:
    """The goal's limit as the table shows it.

    >>> (
    ...     readable_limit(Goal(figure="seconds", against="x", at_most=0.4)),
    ...     readable_limit(Goal(figure="tuples/s", against="x", at_least=8)),
    ... )
    ('<= 0.4', '>= 8')
    """
    sign, limit = ("<=", goal.at_most) if goal.at_most is not None else (">=", goal.at_least or 0.0)
    if not goal.against:
        return f"{sign} {readable(goal.figure, limit)}"
    return f"{sign} {'+' + readable(goal.figure, limit) if goal.difference else f'{limit:g}'}"


def readable_compared(goal: Goal, compared: Spread) -> tuple[str, str]:
    """What was compared, and its spread."""
    if not goal.against:
        low, high = readable(goal.figure, compared.low), readable(goal.figure, compared.high)
        return readable(goal.figure, compared.median), f"{low} to {high}"
    if goal.difference:
        low, high = readable(goal.figure, compared.low), readable(goal.figure, compared.high)
        return (
            f"{'+' if compared.median >= 0 else ''}{readable(goal.figure, compared.median)}",
            f"{low} to {high}",
        )
    return f"{compared.median:.3g}", f"{compared.low:.3g} to {compared.high:.3g}"


def as_json(benchmark: Benchmark, rounds: Sequence[Ran], *, judged: bool) -> Mapping[str, object]:
    """What a benchmark found, for the file: every sample of every round, and what was made of them."""
    contestants = {}
    for name in benchmark.contestants:
        contestants[name] = {
            "figures": {figure: vars(value) for figure, value in figures_of(rounds, name).items()},
            "rounds": [
                {
                    "round": ran.number,
                    "seconds": ran.seconds,
                    "error": ran.error,
                    "notes": ran.notes,
                    "samples": dict(ran.figures),
                }
                for ran in rounds
                if ran.contestant == name
            ],
        }
    goals = []
    for found in judge_all(benchmark, rounds) if judged else ():
        goal = found.goal
        limit = {"at_most": goal.at_most} if goal.at_most is not None else {"at_least": goal.at_least}
        goals.append(
            {
                "figure": goal.figure,
                "of": goal.of,
                "against": goal.against,
                "against_figure": goal.against_figure,
                "compared_by": "itself" if not goal.against else "difference" if goal.difference else "ratio",
                **limit,
                "compared": vars(found.compared) if found.compared else None,
                "verdict": found.verdict,
                "reason": found.reason,
            }
        )
    return {"name": benchmark.name, "title": benchmark.title, "contestants": contestants, "goals": goals}

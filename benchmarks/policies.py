"""Our policies beside fixed plans and DS2's arithmetic, under a load that changes.

All run at the same time on the same trace, each in a process of its own: what disturbs one disturbs all.
Their tuples cost waiting, not a processor. The best fixed plan is found by search: all that may be good run a
short trace of the highest and the middle load, and the best one of them the whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.apps.changing_load import Job
from benchmarks.frame import OURS, Benchmark, Figures, Goal, Round
from benchmarks.side_by_side import side_by_side

P50, P99, RATE = "p50 age seconds", "p99 age seconds", "tuples/s"
WORSE, STEPS = "worse than the first plan, seconds", "changes after a step of load"
AT_ONCE = 4
"""So many applications run at the same time while plans are searched."""
_BUCKET_SECONDS = 10.0
_WORSE, _WORSE_SECONDS = 1.15, 0.02
"""Worse in a bucket is by so much, and by no less than these seconds."""


@dataclass(frozen=True)
class Example:
    """Loads, in tuples a second, one after the other; the plans that may be good."""

    name: str
    rates: tuple[float, ...]
    plans: tuple[Mapping[str, int], ...]
    most: int


WORDS = Example(
    "words",
    (300, 900, 1_500, 500, 1_800, 700, 1_200, 300),
    tuple({"count": number} for number in (1, 2, 3, 4)),
    4,
)
ARTICLE = Example(
    "article",
    (100, 300, 500, 150, 400, 600, 200, 100),
    tuple({"C": number, "D": others, "E": others} for number in (3, 4, 5, 6) for others in (1, 2, 3)),
    6,
)


def _side_by_side(jobs: Sequence[Job], folder: Path, name: str) -> list[dict[str, Any]]:
    """Run them at the same time; what came of each. Raises RuntimeError if one has failed."""
    values = [asdict(job) for job in jobs]
    return side_by_side("benchmarks.apps.changing_load", values, folder, name, max(j.seconds for j in jobs))


def _search(example: Example, folder: Path, seconds: float) -> tuple[Mapping[str, int], list[str]]:
    """The plan of the lowest mean age in a short trace, and a line for each."""
    loads = (max(example.rates), sorted(example.rates)[len(example.rates) // 2])
    jobs = [Job(example.name, plan, "", loads, seconds, example.most) for plan in example.plans]
    found = []
    for number, some in enumerate(_batched(jobs)):
        found += _side_by_side(some, folder, f"search-{number}")
    ages = [float(np.mean(one["ages"])) for one in found]
    lines = [f"search: {plan}: mean age {age:.3g} s" for plan, age in zip(example.plans, ages, strict=True)]
    return example.plans[int(np.argmin(ages))], lines


def _batched(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    for first in range(0, len(jobs), AT_ONCE):
        yield jobs[first : first + AT_ONCE]


def prepare(of_round: Round, example: Example) -> None:
    """Search the best fixed plan, then run all."""
    step, rest, short = (8.0, 4.0, 5.0) if of_round.quick else (75.0, 5.0, 10.0)
    best, lines = _search(example, of_round.data, short)
    common = {"example": example.name, "rates": example.rates, "step_seconds": step, "most": example.most}
    jobs = {
        OURS: Job(**common, decides="policies", cooldown=rest),
        "DS2": Job(**common, decides="ds2", cooldown=rest),
        "best fixed plan": Job(**common, partitions=best),
        "first plan": Job(**common),
    }
    found = _side_by_side(list(jobs.values()), of_round.data, "whole")
    (of_round.data / "found.json").write_text(
        json.dumps({"search": lines, "best": best, **dict(zip(jobs, found, strict=True))}), encoding="utf-8"
    )


def contestant(of_round: Round, name: str) -> Figures:
    """The figures of one of them, and its decisions as a note."""
    all_found = json.loads((of_round.data / "found.json").read_text(encoding="utf-8"))
    found = all_found[name]
    job = found["job"]
    ages, created = np.array(found["ages"]), np.array(found["created"])
    seconds = len(job["rates"]) * job["step_seconds"]
    changes = [0] * len(job["rates"])
    for row in found["decisions"]:
        after = row["seconds"] if row["seconds"] is not None else 0.0
        if row["state"] != "REFUSED":
            changes[min(int(max(after, 0.0) / job["step_seconds"]), len(changes) - 1)] += 1
        outcome = row["found"] or row["expected"]
        of_round.note(f"{after:6.1f} s  {row['state']}: {row['note']}" + (f" [{outcome}]" if outcome else ""))
    if name == "best fixed plan":
        for line in all_found["search"]:
            of_round.note(line)
        of_round.note(f"the best fixed plan: {all_found['best']}")
    by_step = [
        np.median(part) if len(part := ages[(created >= n * step) & (created < (n + 1) * step)]) else np.nan
        for step in [job["step_seconds"]]
        for n in range(len(changes))
    ]
    loads = ", ".join(f"{rate:g}/s {age:.3g} s" for rate, age in zip(job["rates"], by_step, strict=True))
    of_round.note(f"median age by load: {loads}")
    p50, p99 = np.percentile(ages, [50, 99])
    figures = {P50: p50, P99: p99, RATE: len(ages) / seconds, STEPS: float(max(changes))}
    if name == OURS:
        figures[WORSE] = _worse_for(found, all_found["first plan"], seconds)
    return {figure: [float(value)] for figure, value in figures.items()}


def _worse_for(found: Mapping[str, Any], first: Mapping[str, Any], seconds: float) -> float:
    """For how long at a stretch it was worse than the plan that it began with."""
    longest = now = 0.0
    for begin in np.arange(0.0, seconds, _BUCKET_SECONDS):
        mean, other = (_mean_age(one, begin) for one in (found, first))
        worse = mean > _WORSE * other + _WORSE_SECONDS  # nothing seen of the other: it is worse itself
        now = now + _BUCKET_SECONDS if worse else 0.0
        longest = max(longest, now)
    return longest


def _mean_age(found: Mapping[str, Any], begin: float) -> float:
    created = np.array(found["created"])
    part = np.array(found["ages"])[(created >= begin) & (created < begin + _BUCKET_SECONDS)]
    return float(np.mean(part)) if len(part) else np.inf


def _benchmark(example: Example, title: str) -> Benchmark:
    names = (OURS, "DS2", "best fixed plan", "first plan")
    return Benchmark(
        name=f"policies-{example.name}",
        title=f"policies: {title} under changing load",
        contestants={name: partial(contestant, name=name) for name in names},
        goals=[
            Goal(figure=RATE, against="best fixed plan", at_least=0.85),
            Goal(figure=P50, against="best fixed plan", at_most=1.15),
            Goal(figure=P99, against="best fixed plan", at_most=1.15),
            Goal(figure=P50, against="DS2", at_most=1.0),
            Goal(figure=P99, against="DS2", at_most=1.0),
            Goal(figure=STEPS, at_most=3.0),
            Goal(figure=WORSE, at_most=60.0),
        ],
        prepare=partial(prepare, example=example),
        rounds=1,
        budget_seconds=1_800,
        part_of_all=False,
    )


BENCHMARKS = (
    _benchmark(WORDS, "a count of Zipf-distributed words"),
    _benchmark(ARTICLE, "the article's operators"),
)

"""Skewed keys beside uniform ones: throughput at saturation once `SkewPolicy` has evened them out.

All run at the same time. They begin with the default division, of which the rate is the one before the first
change. Each checks its counts: those that readers saw against those of the trace.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from benchmarks.apps.skewed_keys import Job
from benchmarks.frame import OURS, Benchmark, Figures, Goal, Round
from benchmarks.side_by_side import side_by_side

UNIFORM, PLAIN = "uniform keys", "default division"
SKEWS = {
    "zipf 1.0": "Zipf 1.0, tuples/s",
    "zipf 1.3": "Zipf 1.3, tuples/s",
    "zipf 1.6": "Zipf 1.6, tuples/s",
    "hot 0.3": "one key of 30 %, tuples/s",
}
_SECONDS, _MEASURED = 60.0, 20.0
"""The rate is that of the last part, in which nothing changes any more."""


def prepare(of_round: Round) -> None:
    """Run all of them."""
    seconds = 12.0 if of_round.quick else _SECONDS
    jobs = {keys: Job(keys, seconds, cooldown=2.0 if of_round.quick else 5.0) for keys in ("uniform", *SKEWS)}
    values = [asdict(job) for job in jobs.values()]
    found = side_by_side("benchmarks.apps.skewed_keys", values, of_round.data, "skew", seconds)
    (of_round.data / "found.json").write_text(
        json.dumps(dict(zip(jobs, found, strict=True))), encoding="utf-8"
    )


def contestant(of_round: Round, name: str) -> Figures:
    """Rates by skew. Raises RuntimeError if a count is not that of the trace."""
    found = json.loads((of_round.data / "found.json").read_text(encoding="utf-8"))
    figures = {}
    for keys, figure in SKEWS.items():
        one = found["uniform" if name == UNIFORM else keys]
        if not one["exact"]:
            raise RuntimeError(f"{keys}: the counts of {one['total']} tuples are not those of the trace")
        if name == OURS:
            of_round.note(f"{keys}: the counts of {one['total']:,} tuples are exact")
            for row in one["decisions"]:
                outcome = row["found"] or row["expected"]
                note = f"{keys}, {row['seconds']:.1f} s  {row['state']}: {row['note']}"
                of_round.note(note + (f" [{outcome}]" if outcome else ""))
        seconds = one["job"]["seconds"]
        first = next((row["seconds"] for row in one["decisions"]), seconds)
        span = (0.5, first) if name == PLAIN else (max(seconds - _MEASURED, seconds / 2), seconds)
        figures[figure] = [_rate(one, *span)]
    return figures


def _rate(found: dict[str, Any], begin: float, end: float) -> float:
    """Tuples a second between two times, windows as a whole."""
    times = np.array(found["times"])
    first, last = np.searchsorted(times, [begin, end])
    last = min(last, len(times) - 1)
    if last <= first:
        return float("nan")
    return float(np.sum(found["sizes"][first + 1 : last + 1]) / (times[last] - times[first]))


BENCHMARKS = (
    Benchmark(
        name="skew",
        title="skew: a count of words, by keys of several distributions",
        contestants={name: partial(contestant, name=name) for name in (OURS, UNIFORM, PLAIN)},
        goals=[Goal(figure=figure, against=UNIFORM, at_least=0.8) for figure in SKEWS.values()],
        prepare=prepare,
        rounds=1,
        budget_seconds=300,
        part_of_all=False,
    ),
)

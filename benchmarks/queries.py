"""What queries cost the application that they are asked about: while ten run, and once they are over.

Phases of one application: before, while ten queries run, after these, and after one that fails, one that
never ends and one that is abandoned.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial

import numpy as np

from benchmarks.apps.queried import AFTER_BAD, AFTER_TEN, BEFORE, TEN, Job
from benchmarks.frame import Benchmark, Figures, Goal, Round
from benchmarks.side_by_side import side_by_side

P50, P99, CPU = "p50 window seconds", "p99 window seconds", "cpu seconds"
_SECONDS = 20.0


def prepare(of_round: Round) -> None:
    """Run all phases."""
    job = Job(4.0 if of_round.quick else _SECONDS)
    [found] = side_by_side(
        "benchmarks.apps.queried", [asdict(job)], of_round.data, "queries", 12 * job.seconds
    )
    (of_round.data / "found.json").write_text(json.dumps(found), encoding="utf-8")


def contestant(of_round: Round, name: str) -> Figures:
    """The figures of a phase. Raises RuntimeError if a query did not do what it should."""
    found = json.loads((of_round.data / "found.json").read_text(encoding="utf-8"))
    if wrong := [one for one in found["good"] if "error" in one or not one["rows"]]:
        raise RuntimeError(str(wrong))
    if wrong := [one for one in found["bad"] if "error" not in one]:
        raise RuntimeError(str(wrong))
    if name == TEN:
        for one in found["good"]:
            cost = ", ".join(f"{key} {value:g}" for key, value in one["last"].items())
            of_round.note(f"{one['tables']} tables, {one['rows']} rows; the last: {cost}: {one['sql']}")
    if name == AFTER_BAD:
        for one in found["bad"]:
            of_round.note(f"{one['sql']}: {one['error']}")
        of_round.note(f"the abandoned query was gone after {found['gone']:.1f} s")
    phase = found["phases"][name]
    p50, p99 = np.percentile(phase["windows"], [50, 99])
    of_round.note(f"{len(phase['windows'])} windows; cpu seconds are those of one second")
    return {P50: [float(p50)], P99: [float(p99)], CPU: [phase["cpu"]]}


BENCHMARKS = (
    Benchmark(
        name="queries",
        title="queries: ten at once, and three bad ones, asked about prices of 50,000 a second",
        contestants={name: partial(contestant, name=name) for name in (BEFORE, TEN, AFTER_TEN, AFTER_BAD)},
        goals=[
            Goal(figure=figure, of=after, against=BEFORE, at_most=1.1)
            for after in (AFTER_TEN, AFTER_BAD)
            for figure in (P50, CPU)
        ],
        prepare=prepare,
        rounds=1,
        budget_seconds=400,
        part_of_all=False,
    ),
)

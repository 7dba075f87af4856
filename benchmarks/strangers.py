"""What strangers cost an application: 2,000 connections to each of its ports, while windows run."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial

import numpy as np

from benchmarks.apps.beset import AFTER, BEFORE, SLOTS, WEB, Job
from benchmarks.frame import Benchmark, Figures, Goal, Round
from benchmarks.side_by_side import side_by_side

P50, P99 = "p50 window seconds", "p99 window seconds"


def prepare(of_round: Round) -> None:
    """Run all phases."""
    job = Job(3.0, 200) if of_round.quick else Job(20.0)
    [found] = side_by_side(
        "benchmarks.apps.beset", [asdict(job)], of_round.data, "strangers", 8 * job.seconds + 60
    )
    (of_round.data / "found.json").write_text(json.dumps(found), encoding="utf-8")


def contestant(of_round: Round, name: str) -> Figures:
    """The figures of a phase."""
    found = json.loads((of_round.data / "found.json").read_text(encoding="utf-8"))
    phase = found["phases"][name]
    p50, p99 = np.percentile(phase["windows"], [50, 99])
    of_round.note(f"{len(phase['windows'])} windows, {phase.get('connections', 0)} connections")
    return {P50: [float(p50)], P99: [float(p99)]}


BENCHMARKS = (
    Benchmark(
        name="strangers",
        title="strangers: 2,000 connections without a token to each port, windows of 20 ms",
        contestants={name: partial(contestant, name=name) for name in (BEFORE, WEB, SLOTS, AFTER)},
        goals=[Goal(figure=P99, of=phase, against=BEFORE, at_most=2.0) for phase in (WEB, SLOTS, AFTER)],
        prepare=prepare,
        rounds=1,
        budget_seconds=300,
        part_of_all=False,
    ),
)

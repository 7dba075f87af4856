"""Launch of the command on a checkpoint to its first committed window: with many keys held, and with none."""

from __future__ import annotations

import shutil

from benchmarks.frame import Benchmark, Figures, Goal, Round
from benchmarks.held_keys import hold
from benchmarks.launches import ridgeline_run, seconds_until

FIGURE = "restart seconds"
MANY = 1_000_000


def prepare(of_round: Round) -> None:
    """A checkpoint with many keys, and one that holds none before its windows bring some."""
    for held in (0, MANY):
        hold(of_round, held)


def _restart(of_round: Round, held: int) -> Figures:
    checkpoint = of_round.folder / "checkpoint"
    shutil.copytree(of_round.data / str(held), checkpoint)
    before = set(checkpoint.glob("journal/[0-9]*"))
    command = ridgeline_run(
        "held_keys.py", "--windows", "1", "--checkpoint", str(checkpoint), "--held", str(held)
    )
    return {
        FIGURE: [
            seconds_until(
                command,
                lambda: bool(set(checkpoint.glob("journal/[0-9]*")) - before),
                of_round.folder / "log.txt",
            )
        ]
    }


def ours(of_round: Round) -> Figures:
    return _restart(of_round, MANY)


def none_held(of_round: Round) -> Figures:
    return _restart(of_round, 0)


BENCHMARKS = (
    Benchmark(
        name="restart",
        title="restart: launch of the command to the first window, with 1 million keys held against none",
        contestants={"ours": ours, "none held": none_held},
        goals=[Goal(figure=FIGURE, against="none held", at_most=5.0, difference=True)],
        prepare=prepare,
        budget_seconds=90,
    ),
)

"""Launch of the command to the first committed window, beside a Spark script to its first micro-batch."""

from __future__ import annotations

from benchmarks.frame import Benchmark, Figures, Goal, Round
from benchmarks.launches import APPS, python, ridgeline_run, seconds_until

FIGURE = "start seconds"


def ours(of_round: Round) -> Figures:
    checkpoint = of_round.folder / "checkpoint"
    command = ridgeline_run("two_stages.py", "--windows", "1", "--checkpoint", str(checkpoint))
    return {
        FIGURE: [
            seconds_until(
                command, lambda: any(checkpoint.glob("journal/[0-9]*")), of_round.folder / "log.txt"
            )
        ]
    }


def by_hand(of_round: Round) -> Figures:
    checkpoint = of_round.folder / "checkpoint"
    command = python(str(APPS / "two_stages_by_hand.py"), str(checkpoint))
    return {
        FIGURE: [seconds_until(command, (checkpoint / "commits" / "0").exists, of_round.folder / "log.txt")]
    }


BENCHMARKS = (
    Benchmark(
        name="start",
        title="start: launch of the command to the first committed window, two stages",
        contestants={"ours": ours, "by hand": by_hand},
        goals=[Goal(figure=FIGURE, against="by hand", at_most=0.6)],
        rounds=5,
        budget_seconds=100,
    ),
)

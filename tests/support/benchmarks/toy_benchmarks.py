"""Benchmarks of nothing, for tests of the frame."""

import os
import subprocess
import sys

from benchmarks.frame import Benchmark, Goal


def prepare(of_round):
    (of_round.data / "number.txt").write_text("10")


def number(of_round):
    return float((of_round.data / "number.txt").read_text())


def ours(of_round):
    of_round.note("all is well")
    return {"seconds": [number(of_round) * (1 + of_round.number)]}


def twice(of_round):
    return {"seconds": [2 * number(of_round) * (1 + of_round.number), 1000.0, 0.0]}


def wrong(of_round):
    raise ValueError("the sum is 3; got 4")


def dies(of_round):
    os._exit(3)


def lingers(of_round):
    """Leaves a process of a group of its own, as Spark's daemon of workers does; says which."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
    return {"pid": [child.pid]}


BENCHMARKS = (
    Benchmark(
        name="toy",
        title="nothing against twice of it",
        contestants={"ours": ours, "twice": twice, "wrong": wrong, "dies": dies, "lingers": lingers},
        goals=[
            Goal(figure="seconds", against="twice", at_most=0.6),
            Goal(figure="seconds", against="twice", at_most=0.4),
            Goal(figure="seconds", against="twice", at_most=5.0, difference=True),
            Goal(figure="seconds", against="wrong", at_most=0.5),
        ],
        prepare=prepare,
        rounds=2,
    ),
)

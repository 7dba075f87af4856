"""What the driver computes for a window, by the number of partitions: all of its half of slots, with commits.

Two stages, all partitions of the first send to all of the second. The slots are simulated, see
`simulated_run`: their reports are real, their time is not counted. Figures are CPU time of the driver's
thread, so that other work on the machine does not show in them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise

from benchmarks.data import Number
from benchmarks.frame import Benchmark, Figures, Goal, Round
from benchmarks.simulated_run import ONE_HOST, Cluster, SimulatedRun
from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.measure.events import RunEvent, WindowCommitted
from ridgeline.plan.planner import plan_application

SIZES = (2, 8, 64, 256, 1024)
SLOTS = 64
WINDOWS = 20
SECONDS = "CPU of a window, seconds"
START = "CPU of the start, seconds"
GOAL_SECONDS = 0.060


class Numbers(InputOperator):
    """Its tuples are never made: the slots are simulated."""

    output = OutputPort(Number)

    def emit_tuples(self) -> None:
        """Not called."""


class Count(Operator):
    """An operator with a key and state."""

    data = InputPort(Number, key="key")
    total = State(0)

    @data.process
    def add(self, tuple: Number) -> None:
        """Not called."""


def application(partitions: int) -> Application:
    """All partitions of the first operator send to all of the second."""
    app = Application("scale", window=0)
    numbers = app.add_operator("numbers", Numbers(), partitions=partitions)
    count = app.add_operator("count", Count(), partitions=partitions)
    app.add_stream("numbers", numbers.output, count.data)
    return app


def drive(of_round: Round, partitions: int, moves: Callable[[int], bool] = bool) -> tuple[float, list[float]]:
    """CPU seconds of the start and of each window."""
    began = time.thread_time()
    plan = plan_application(application(partitions))
    driven = SimulatedRun(plan, of_round.folder, Cluster({ONE_HOST: SLOTS}, moves=moves))
    marks: list[float] = []

    def mark(event: RunEvent) -> None:
        if isinstance(event, WindowCommitted):
            marks.append(driven.worked())

    driven.watch.subscribe(mark)
    windows = 4 if of_round.quick else WINDOWS
    driven.drive(windows + 1)
    driven.close()
    return marks[0] - began, [after - before for before, after in pairwise(marks)]


def ours(of_round: Round, partitions: int) -> Figures:
    """The driver at so many partitions a stage."""
    start, windows = drive(of_round, partitions)
    of_round.note(f"{1 / statistics.mean(windows):.0f} windows a second of CPU, at most {SLOTS} slots")
    return {SECONDS: windows, START: [start]}


BENCHMARKS = (
    Benchmark(
        name="scale",
        title=f"what a window costs the driver, by partitions; two stages, {SLOTS} simulated slots",
        contestants={f"{size} x {size}": partial(ours, partitions=size) for size in SIZES},
        goals=[
            Goal(
                figure=SECONDS,
                of=f"{SIZES[-1]} x {SIZES[-1]}",
                against=f"{SIZES[0]} x {SIZES[0]}",
                at_most=GOAL_SECONDS,
                difference=True,
            )
        ],
        rounds=1,
        budget_seconds=120,
        part_of_all=False,
    ),
)

"""Four stages that work 5 ms each a window, on two cores: how near windows come to the work over the cores.

With one window in flight a window takes the sum of its stages, since each waits for the one before. With
several in flight both cores work all the time.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.frame import OURS, Benchmark, Figures, Goal, Round
from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort
from ridgeline.api.clock import SystemClock
from ridgeline.api.context import OperatorContext

STAGES = 4
CORES = 2
WORK_SECONDS = 0.005
WINDOWS = 400
RATE = "windows/s"
_CLOCK = SystemClock()


class Numbered(NamedTuple):
    """What goes from stage to stage."""

    number: int


def work(loops: int) -> int:
    """So many steps of plain Python."""
    found = 0
    for step in range(loops):
        found += step & 3
    return found


def loops_of(seconds: float) -> int:
    """How many steps take so long here: the quickest of some tries."""
    tried = 20_000
    best = np.inf
    for _ in range(20):
        began = _CLOCK.monotonic()
        work(tried)
        best = min(best, _CLOCK.monotonic() - began)
    return int(tried * seconds / best)


class Source(InputOperator):
    """A tuple a window, after its work."""

    output = OutputPort(Numbered)
    loops: int

    def setup(self, context: OperatorContext) -> None:
        """Make the tuple."""
        self.batch = pa.record_batch([pa.array([1])], names=Numbered._fields)

    def emit_tuples(self) -> None:
        """The first stage."""
        work(self.loops)
        self.output.emit_batch(self.batch)


class Stage(Operator):
    """Works, and passes the tuple on."""

    data = InputPort(Numbered)
    output = OutputPort(Numbered, optional=True)
    loops: int

    @data.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """A stage in the middle."""
        work(self.loops)
        self.output.emit_batch(batch)


def run(of_round: Round, in_flight: int) -> Figures:
    """One partition a stage, each in a container of its own."""
    from benchmarks import ours

    loops = loops_of(WORK_SECONDS)
    app = Application("pipeline", window=0)
    last: Source | Stage = app.add_operator("stage1", Source(loops=loops))
    for number in range(2, STAGES + 1):
        stage = app.add_operator(f"stage{number}", Stage(loops=loops))
        data = stage.data
        app.add_stream(f"from{number - 1}", last.output, data, locality="NODE_LOCAL")
        last = stage
    attributes = {"windows_in_flight": in_flight}
    seen = ours.run(of_round, app, of_round.windows(WINDOWS) + 1, attributes=attributes)
    return {RATE: [1 / seconds for seconds in of_round.warm(ours.window_times(seen))]}


def limit(of_round: Round) -> Figures:
    """Two processes that do nothing but the stages' work; what they do of it is the most that can be."""
    import multiprocessing

    loops, windows = loops_of(WORK_SECONDS), of_round.windows(WINDOWS)
    answers: multiprocessing.Queue[float] = multiprocessing.Queue()

    def core() -> None:
        began = _CLOCK.monotonic()
        for _ in range(windows * STAGES // CORES):
            work(loops)
        answers.put(_CLOCK.monotonic() - began)

    processes = [multiprocessing.Process(target=core) for _ in range(CORES)]
    for process in processes:
        process.start()
    seconds = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    return {RATE: [windows / max(seconds)]}


BENCHMARKS = (
    Benchmark(
        name="pipeline",
        title=f"pipeline: {STAGES} stages that work {WORK_SECONDS * 1e3:g} ms each, {CORES} cores",
        contestants={
            OURS: partial(run, in_flight=4),
            "one in flight": partial(run, in_flight=1),
            "the work alone": limit,
        },
        goals=[Goal(figure=RATE, against="the work alone", at_least=0.8)],
        budget_seconds=40,
    ),
)

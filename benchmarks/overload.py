"""Overload: half as much again as a Python step can do, then half of what it can, until the age is low again.

All contestants get the same records at the same times, whatever they have taken before. One step works 2 ms
on each. The sink's clock is read where results can be seen: of ours when a window is committed and published,
of the others as they come. Bytewax keeps no checkpoint, Flink one a second; its step is in Java. So that the
step takes as long in each of them, it sleeps less than its time and spins for the rest.

`overload-bursts`: the same work on average as a step can do by half, in bursts of four times as much.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks import spark
from benchmarks.frame import OURS, Benchmark, Figures, Goal, Round
from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, Publisher, State

WORK_SECONDS = 0.002
SPIN_SECONDS = 0.0003
"""How much of it is no sleep: a sleep may end so late, by another time in Java than in Python."""
ABLE = 480
"""Records a second that the step can do: it works 2 ms, and what moves them adds some."""
RECOVERY, LONGEST, P99 = "recovery seconds", "longest window seconds", "p99 age seconds"
LOW_SECONDS = 1.0
"""An age at the sink that counts as low."""
WARM_UP_SECONDS = 5.0
Profile = tuple[tuple[float, float], ...]
"""How long, and how many records a second."""


def overload(*, quick: bool) -> Profile:
    """Half as much again as the step can do, then half of that."""
    seconds = 3.0 if quick else 30.0
    return (WARM_UP_SECONDS, ABLE / 2), (seconds, 1.5 * ABLE), (3 * seconds + 5, ABLE / 2)


def bursts(*, quick: bool) -> Profile:
    """Half of what the step can do, and now and then four times as much for two seconds."""
    quiet = 15.0
    rate = (ABLE / 2 * (quiet + 2) - 4 * 2 * ABLE / 2) / quiet
    return ((WARM_UP_SECONDS, rate), *(2 if quick else 3) * ((2.0, 4 * ABLE / 2), (quiet, rate)))


def times_of(profile: Profile) -> npt.NDArray[np.float64]:
    """When each record comes, in seconds since the first."""
    starts = np.cumsum([0.0, *(seconds for seconds, _ in profile)])
    return np.concatenate(
        [
            start + np.arange(int(seconds * rate)) / rate
            for start, (seconds, rate) in zip(starts, profile, strict=False)
        ]
    )


class Record(NamedTuple):
    created: float


class Records(InputOperator):
    """Emits what has come by now, no more than a window may have."""

    output = OutputPort(Record)
    profile: list[list[float]]
    began = State(0.0)
    position = State(0)

    def setup(self, context: Any) -> None:
        self.times = times_of(tuple(map(tuple, self.profile)))  # type: ignore[arg-type]

    def emit_tuples(self) -> None:
        self.began = self.began or time.time()
        stop = int(np.searchsorted(self.times, time.time() - self.began, "right"))
        stop = int(min(stop, self.position + self.context.budget))
        for created in self.times[self.position : stop].tolist():
            self.output.emit(Record(self.began + created))
        self.position = stop
        if stop == len(self.times):
            self.finish()


def work(record: Record) -> Record:
    """Two milliseconds."""
    end = time.perf_counter() + WORK_SECONDS
    time.sleep(WORK_SECONDS - SPIN_SECONDS)
    while time.perf_counter() < end:
        pass
    return record


class Seen(Publisher):
    """When each record could be seen, and when it was created."""

    ages, seen = array("d"), array("d")
    commits = array("d")

    def __init__(self) -> None:
        self._staged: list[float] = []

    def stage(self, window_id: int, values: Sequence[list[float]]) -> None:
        """Keep them until the commit."""
        self._staged.extend(created for some in values for created in some)

    def publish(self, window_id: int) -> None:
        """Read the clock."""
        note(self._staged)
        Seen.commits.append(time.time())
        self._staged.clear()


def note(created: Iterable[float]) -> None:
    """Records can be seen from now on that were created then."""
    now = time.time()
    for one in created:
        Seen.seen.append(now)
        Seen.ages.append(now - one)


class Sink(Operator):
    """Hands over when each record was created."""

    data = InputPort(Record)

    def begin_window(self, window_id: int) -> None:
        self.created: list[float] = []

    @data.process
    def take(self, record: Record) -> None:
        self.created.append(record.created)

    def end_window(self) -> None:
        self.context.hand_over(self.created)

    def publisher(self) -> Seen:
        return Seen()


def _figures(of_round: Round, profile: Profile, begins: float) -> Figures:
    """The figures of what was seen. `begins`: when the overload, or the first burst, ends."""
    ages, seen = np.array(Seen.ages), np.array(Seen.seen)
    count = len(times_of(profile))
    if len(ages) != count:
        raise ValueError(f"{count} records came; {len(ages)} were seen")
    first = float(np.min(seen - ages))
    high = seen[ages > LOW_SECONDS]
    warm = seen > first + WARM_UP_SECONDS
    of_round.note(f"greatest age {ages[warm].max():.2f} s, least {ages.min() * 1e3:.0f} ms")
    found = {
        RECOVERY: [max(0.0, float(high.max(initial=0.0)) - first - begins)],
        P99: [float(np.percentile(ages[warm], 99))],
    }
    if len(Seen.commits):
        commits = np.array(Seen.commits)
        found[LONGEST] = [float(np.diff(commits[commits > first + WARM_UP_SECONDS]).max())]
    return found


def ours(of_round: Round, shape: Any) -> Figures:
    """Windows of 200 ms."""
    profile = shape(quick=of_round.quick)
    app = Application("overload", window="200ms")
    records = app.read("records", Records(profile=[list(one) for one in profile]))
    records.map("work", work).write("sink", Sink())
    checkpoint = str(of_round.folder / "checkpoint")
    with app.start(spark.MASTER, port=None, quiet=True, checkpoint=checkpoint) as handle:
        handle.wait()
    return _figures(of_round, profile, sum(seconds for seconds, _ in profile[:2]))


def bytewax(of_round: Round, shape: Any) -> Figures:
    """A source that gives what has come, in one worker."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.testing import cluster_main

    from benchmarks.dataflow import Each, Pieces

    profile = shape(quick=of_round.quick)
    times = times_of(profile)
    began = time.time()
    pause = threading.Event()

    def come(number: int) -> list[Record]:
        pause.wait(max(0.0, began + times[number] - time.time()))
        return [Record(began + times[number])]

    flow = Dataflow("overload")
    records = op.input("input", flow, Pieces(range(len(times)), come, 0))
    done = op.map("work", records, work)
    op.output("output", done, Each(lambda some: note(record.created for record in some)))
    cluster_main(flow, [], 0)
    return _figures(of_round, profile, sum(seconds for seconds, _ in profile[:2]))


def flink(of_round: Round, shape: Any) -> Figures:
    """A job of one chain; its sink prints when each record was created."""
    from benchmarks.flink import Flink

    profile = shape(quick=of_round.quick)
    count = len(times_of(profile))
    with Flink(of_round.folder, 1, "default", job="Overload") as cluster:
        flat = ",".join(f"{seconds}:{rate}" for seconds, rate in profile)
        cluster.submit(flat, count, round(WORK_SECONDS * 1e9), round(SPIN_SECONDS * 1e9))
        pause = threading.Event()
        rest, read = "", 0
        while len(Seen.ages) < count:
            pause.wait(0.001)
            if not cluster.printed.exists():
                continue
            with cluster.printed.open(encoding="utf-8") as file:
                file.seek(read)
                text = rest + file.read()
                read = file.tell()
            *lines, rest = text.split("\n")
            note(float(line.rsplit(" ", 1)[-1]) for line in lines if line.startswith("created "))
    return _figures(of_round, profile, sum(seconds for seconds, _ in profile[:2]))


_BURST_WORK_SECONDS = 2.0 * 4 * ABLE / 2 * (1 / ABLE)
BENCHMARKS = (
    Benchmark(
        name="overload",
        title="overload: 1.5 times what a step can do for 30 s, then half: until the age is below 1 s",
        contestants={
            OURS: partial(ours, shape=overload),
            "bytewax": partial(bytewax, shape=overload),
            "flink": partial(flink, shape=overload),
        },
        goals=[
            Goal(figure=RECOVERY, against="bytewax", at_most=1.0),
            Goal(figure=RECOVERY, against="flink", at_most=1.0),
            Goal(figure=LONGEST, at_most=1.5),
        ],
        rounds=1,
        budget_seconds=600,
        part_of_all=False,
    ),
    Benchmark(
        name="overload-bursts",
        title="overload-bursts: half of what a step can do, in bursts of four times as much for 2 s",
        contestants={
            OURS: partial(ours, shape=bursts),
            "bytewax": partial(bytewax, shape=bursts),
        },
        goals=[Goal(figure=P99, at_most=_BURST_WORK_SECONDS + 1.0)],
        rounds=1,
        budget_seconds=300,
        part_of_all=False,
    ),
)

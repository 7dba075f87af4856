"""Own time, wait and slack in slots, against what operators have measured themselves."""

import json
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort
from ridgeline.measure.events import WindowCommitted
from ridgeline.observe.plan_topology import planned_event
from ridgeline.observe.watch import Watch
from ridgeline.plan.planner import plan_application
from ridgeline.testing import CollectorSink
from support.engine.on_spark import run_on_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.alone]
WINDOWS = 24
SETTLED = range(8, WINDOWS)
"""The first windows start processes."""


class Tick(NamedTuple):
    key: int


class Ticks(InputOperator):
    output = OutputPort(Tick)
    other = OutputPort(Tick, optional=True)

    ticks: int = 1

    def emit_tuples(self):
        for key in range(self.ticks):
            self.output.emit(Tick(key))
            self.other.emit(Tick(key))


class Timed(Operator):
    """Sleeps or spins for `milliseconds` a tuple; notes what that took by its own clock."""

    data = InputPort(Tick)
    out = OutputPort(Tick, optional=True)

    milliseconds: float
    spins: bool = False
    folder: str

    @data.process
    def work(self, tick):
        began, cpu = time.perf_counter(), time.thread_time()
        if self.spins:
            while time.perf_counter() - began < self.milliseconds / 1e3:
                pass
        else:
            time.sleep(self.milliseconds / 1e3)
        self.out.emit(tick)
        took, cpu = time.perf_counter() - began, time.thread_time() - cpu
        with Path(self.folder, f"{self.context.name}.{self.context.partition}").open("a") as notes:
            notes.write(f"{json.dumps([self.context.window_id, took, cpu])}\n")


class Keyed(Timed):
    data = InputPort(Tick, key="key")

    @data.process
    def work_by_key(self, tick):
        Timed.work(self, tick)


def really(folder, name, partition=0, *, cpu=False):
    """Seconds that a partition was at work, by window, or had the processor (`cpu`)."""
    found = {}
    path = Path(folder, f"{name}.{partition}")
    lines = path.read_text().splitlines() if path.exists() else ()
    for window, *seconds in map(json.loads, lines):
        found[window] = found.get(window, 0.0) + seconds[cpu]
    return found


def watched(app, context, folder):
    """Run the application in slots; a watch that keeps figures for deciders."""
    run = run_on_spark(app, context, folder / "checkpoint", windows=WINDOWS)
    last = run.of_type(WindowCommitted)[-1].at
    watch = Watch(lambda: last)
    watch.keep_figures()
    watch.observe(planned_event(plan_application(app), at=run.events[0].at, application_id="x", info={}))
    for event in run.events:
        watch.observe(event)
    return watch


def by_title(watch, window):
    return {row["operator"]: row for row in watch.latency(window)["operators"]}


def own(row):
    return (row["computeMs"] + row["transferMs"]) / 1e3


def half(conditions):
    """Of half of the windows; the machine may be busy in others."""
    found = list(conditions)
    return 2 * sum(found) >= len(found)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_sibling_is_wait_and_has_no_slack(partitions, spark_context, tmp_path):
    folder = str(tmp_path)
    app = Application("siblings", window="50ms", windows_in_flight=1)
    feed = app.add_operator("feed", Ticks(ticks=3))
    light = app.add_operator("light", Timed(milliseconds=10, folder=folder))
    work = app.add_operator("work", Keyed(milliseconds=10, spins=True, folder=folder), partitions=partitions)
    sinks = [app.add_operator(name, CollectorSink(Tick)) for name in ("s1", "s2")]
    app.add_stream("x", feed.other, light.data)
    app.add_stream("k", feed.output, work.data, locality="NODE_LOCAL")
    app.add_stream("y", light.out, sinks[0].input)
    app.add_stream("z", work.out, sinks[1].input)
    watch = watched(app, spark_context, tmp_path)

    sibling = really(folder, "light")
    titles = ["work"] if partitions == 1 else [f"work[{number}]" for number in range(partitions)]
    spent = 0.0
    for number, title in enumerate(titles):
        mine = really(folder, "work", number)
        spent += sum(mine.values())
        rows = {window: by_title(watch, window)[title] for window in SETTLED}
        assert half(
            row["computeMs"] / 1e3 == pytest.approx(mine.get(window, 0.0), rel=0.05, abs=0.003)
            for window, row in rows.items()
        )
        assert half(own(row) <= 1.05 * mine.get(window, 0.0) + 0.01 for window, row in rows.items())
        # between the feed's end and the turn of `work` the sibling had its turn
        for window, row in rows.items():
            assert row["waitMs"] / 1e3 >= 0.95 * sibling[window]
    # who sleeps has the processor for next to nothing
    sleeper = [by_title(watch, window)["light"] for window in SETTLED]
    assert half(row["cpuMs"] < 0.3 * row["computeMs"] for row in sleeper)
    assert all(row["cpuMs"] <= row["computeMs"] for row in sleeper)
    # all of `work` waits for `light`, so what makes it slower makes the windows longer
    if partitions == 1:
        assert half(watch.critical_path(window)["slack"].get("light", 0.0) < 1.0 for window in SETTLED)
        whole = [watch.critical_path(window) for window in SETTLED]
        assert half(
            path["latencyMs"] < 1e3 * 1.5 * really(folder, "work")[path["windowId"]] for path in whole
        )
    figures = watch.application_figures(60.0)
    light = figures.operators["light"]
    assert light.cpu.p50_seconds < 0.3 * light.compute.p50_seconds
    useful = sum(one.useful_seconds for one in figures.operators["work"].by_partition)
    assert spent <= useful < spent + 0.8 * partitions * sum(sibling.values())
    busiest = figures.operators["work"].busiest
    assert busiest.utilization == pytest.approx(busiest.useful_seconds / figures.seconds, rel=0.05)

"""Where the time goes, on Spark, in an application whose time is known."""

import time

import pytest

from ridgeline.observe.plan_topology import planned_event
from ridgeline.observe.watch import Watch
from ridgeline.plan.planner import plan_application
from support.engine.busy import BUSY, busy_application, really
from support.engine.on_spark import run_on_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.alone]
WINDOWS = 40


def measure(app, context, folder, windows=WINDOWS):
    """Run one window after the other, so that none waits for another; fold the events into a `Watch`."""
    alone = {"windows_in_flight": 1}
    run = run_on_spark(app, context, folder / "checkpoint", windows=windows, attributes=alone)
    watch = Watch(time.time)
    watch.observe(planned_event(plan_application(app), at=time.time(), application_id="busy", info={}))
    for event in run.events:
        watch.observe(event)
    return watch


def assert_paths(watch, windows, expected):
    """95 % of the windows have this critical path."""
    paths = ["".join(step["operator"] for step in watch.critical_path(window)["path"]) for window in windows]
    assert paths.count(expected) >= 0.95 * len(paths), paths


def almost_all(conditions):
    """90 % of them hold."""
    found = list(conditions)
    return sum(found) >= 0.9 * len(found)


def test_separate_containers(spark_context, tmp_path):
    watch = measure(busy_application(tmp_path, locality="NODE_LOCAL"), spark_context, tmp_path)

    for name in BUSY:
        compute = [
            next(
                found["computeMs"]
                for found in watch.latency(window)["operators"]
                if found["operator"] == name
            )
            / 1e3
            for window in range(WINDOWS)
        ]
        assert almost_all(
            abs(seconds - really(tmp_path, name, window)) < 0.005 for window, seconds in enumerate(compute)
        ), name
    assert_paths(watch, range(WINDOWS), "ACE")
    assert watch.critical_path()["average"]["path"] == ["A", "C", "E"]
    assert watch.critical_path()["slack"]["B"] > 50
    for window in watch.windows():
        blame = watch.critical_path(window["windowId"])["blame"]
        assert sum(step["ms"] for step in blame) == pytest.approx(window["latencyMs"], abs=5)

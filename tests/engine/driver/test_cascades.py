"""Cascades of unifiers and codecs in slots that are real processes, and on Spark."""

import pytest

from ridgeline.testing import run_local
from support.engine.on_spark import run_on_spark
from support.engine.slot_platform import kill, run_in_processes
from support.plan.words import JsonCounts, application

WINDOWS = [[chr(97 + number * step % 7) for number in range(5 + step)] for step in range(40)]
WIDE = {"n": 5, "m": 3, "limit": (3, 2)}


def results(run):
    """What both sinks got, window by window."""
    return [
        (window, sorted(run.collected("counts", window)), run.collected("best", window))
        for window in range(len(WINDOWS))
    ]


def words(**options):
    """With cascades before partitions that share the key and before some that do not."""
    return application(WINDOWS, **{**WIDE, "window": 0, "stream_codec": JsonCounts(), **options})


@pytest.mark.parametrize("single", [False, True])
def test_kills_with_cascades_in_flight_change_nothing(tmp_path, *, single):
    killed = []

    def kill_next(found, event):
        if event.window_id in {2, 9, 25}:
            slots = {joined.slot: joined.pid for joined in found.of_slots("joined", "restarted")}
            killed.append(slots[len(killed) % len(slots)])
            kill(killed[-1])

    found = run_in_processes(words(single=single), tmp_path / "checkpoint", places=3, each=kill_next)
    assert len(killed) == 3
    assert results(found) == results(run_local(application(WINDOWS)))


@pytest.mark.spark
def test_results_on_spark_are_those_of_one_partition(spark_context, tmp_path):
    app = application(WINDOWS[:4], **WIDE, window=0, stream_codec=JsonCounts())
    found = run_on_spark(app, spark_context, tmp_path / "checkpoint")
    assert results(found) == results(run_local(application(WINDOWS[:4])))

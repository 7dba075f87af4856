"""Verdict and backlog of a real query whose windows take long, against the truth."""

import threading
import time
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, Operator
from ridgeline.engine.driver.run.launch import Options
from ridgeline.operators import SparkInput
from ridgeline.plan.planner import plan_application
from ridgeline.service.measured import ServiceOptions, run_measured
from support.depth import deeper

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ARRIVALS, CAPACITY = 2000, 500


class Row(NamedTuple):
    timestamp: datetime
    value: int


class Slow(Operator):
    """Takes two milliseconds a tuple, at least; none once the file `go` is there. `began`: it works."""

    rows = InputPort(Row)
    folder: str

    @rows.process
    def take(self, row: Row) -> None:
        if not Path(self.folder, "go").exists():
            Path(self.folder, "began").open("a").close()
            time.sleep(1 / CAPACITY)


def answers(context, folder, window, seconds):
    """What `progress` answers every half second for `seconds` after window 1 has begun, with times."""
    app = Application("asked", window=f"{window}s")
    source = app.add_operator(
        "rate", SparkInput(format="rate", options={"rowsPerSecond": ARRIVALS, "numPartitions": 1}, schema=Row)
    )
    app.add_stream("rows", source.output, app.add_operator("slow", Slow(folder=str(folder))).rows)
    stop, over, found = threading.Event(), threading.Event(), []

    def ask(watched):
        end = None
        while not over.wait(0.5):
            answer = watched.progress()
            found.append((time.time(), answer))
            if end is None and answer["running"] and answer["windowId"] >= 1:
                end = time.time() + seconds
            if end is not None and time.time() > end:
                Path(f"{folder}/go").touch()
                stop.set()

    def started(_run, watched, _url):
        threading.Thread(target=ask, args=(watched,), daemon=True).start()

    try:
        options = Options(checkpoint=f"{folder}/checkpoint")
        run_measured(
            plan_application(app),
            options,
            ServiceOptions(port=None),
            context=context,
            stop=stop,
            started=started,
        )
    finally:
        over.set()
    return found


@pytest.mark.parametrize("window", [1, pytest.param(10, marks=deeper)])
def test_an_application_that_is_four_times_too_slow_is_found_out_while_its_windows_grow(
    spark_context, tmp_path, window
):
    found = answers(spark_context, tmp_path, window, 25)
    begun = next(at for at, answer in found if answer["running"] and answer["windowId"] >= 1)
    works = Path(tmp_path, "began").stat().st_mtime  # a slow machine brings it its first rows late
    working = [(at, answer) for at, answer in found if works + 5 < at < begun + 24]
    verdicts = [answer["application"]["verdict"] for _, answer in working]
    assert set(verdicts) <= {"falling behind", "unknown"}
    assert "falling behind" in verdicts
    for at, answer in working:
        backlog, known = answer["application"]["backlogRecords"], answer["application"]["asOf"]
        # In whole seconds. An operator that sleeps takes no more than this, however slow the machine is.
        assert backlog >= (ARRIVALS - CAPACITY) * (known - begun - 4), (known - begun, backlog)
        assert at - known < 10  # asked every second

"""Timers, control tuples, metrics, dead letters and recordings are exact while slots are killed."""

import contextlib
import json
import os
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow.dataset as ds
import pytest

from ridgeline.cli.load import load_application
from ridgeline.measure.events import OperatorMetrics, SlotJoined, WindowCommitted
from ridgeline.stram.changes import StartRecording
from ridgeline.testing import run_local
from support.crash.processes import committed
from support.crash.rows import multisets
from support.depth import deep
from support.engine.on_spark import run_on_spark
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "whole_model.py"
WINDOWS = 120
KILLS = deep(3)
PROPERTIES = {"readings.windows": str(WINDOWS), "readings.pause_seconds": "0.02"}


@pytest.mark.parametrize("partitions", [1, 3])
def test_all_of_the_model_is_exact_while_slots_are_killed(
    partitions, spark_context, wait_until, tmp_path, chance
):
    output, checkpoint, whole = tmp_path / "output", tmp_path / "checkpoint", tmp_path / "whole"
    words = ["--partitions", str(partitions)]
    pids, runs = {}, []

    def see(run, event):
        if isinstance(event, SlotJoined):
            pids[event.slot] = event.pid
        if not runs and isinstance(event, WindowCommitted):
            runs.append(run)
            run.run.changes.ask(StartRecording("watch", "readings", WINDOWS), "test")

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(
            run_on_spark,
            load_application(str(APPLICATION), ["--output", str(output), *words]),
            spark_context,
            checkpoint,
            seen=see,
            stop=threading.Event(),
            properties=PROPERTIES,
        )
        wait_until(lambda: runs or running.done(), "the first window")
        kills = 0
        while kills < KILLS and not running.done():
            before = committed(checkpoint)
            wait_until(
                lambda before=before: running.done() or committed(checkpoint) > before + 1, "some windows"
            )
            time.sleep(chance.uniform(0.0, 0.05))
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(list(pids.values())), signal.SIGKILL)
                kills += 1
        run = running.result()
    print(f"{kills} kills, {len(run.retries)} attempts that did not count")
    local = run_local(
        load_application(str(APPLICATION), ["--output", str(whole), *words]),
        properties={"readings.windows": str(WINDOWS)},
    )
    assert rows(multisets(output)) == rows(multisets(whole))
    assert counted(run.events) == counted(local.events)
    recorded = ds.dataset(next((checkpoint / "recordings").glob("*/readings")), format="parquet").to_table()
    values = sorted(row["value"] for row in recorded.to_pylist())
    assert values == list(range(values[0], WINDOWS * 20))  # from the window on that it began with


def rows(outputs):
    """The rows of each output, without when and where in the code a tuple was refused."""
    found = {}
    for name, counts in outputs.items():
        for text, count in counts.items():
            row = {key: value for key, value in json.loads(text).items() if key not in {"time", "traceback"}}
            found.setdefault(name, Counter())[json.dumps(row)] += count
    return found


def counted(events):
    """What the metric `taken` has counted."""
    return sum(one.values.get("taken", 0) for one in events if isinstance(one, OperatorMetrics))

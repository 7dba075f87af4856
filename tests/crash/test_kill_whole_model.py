"""Timers, control tuples, metrics, dead letters and recordings are exact while slots are killed."""

import json
import time
from collections import Counter

import pyarrow.dataset as ds
import pytest

from ridgeline.cli.load import load_application
from ridgeline.measure.events import OperatorMetrics, WindowCommitted
from ridgeline.service.recorded import begins
from ridgeline.testing import run_local
from support.crash.in_slots import InSlots
from support.crash.processes import committed
from support.crash.rows import multisets
from support.depth import deep
from support.engine.on_spark import planner_of
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "whole_model.py"
WINDOWS = 120
KILLS = deep(3)
PROPERTIES = {"readings.windows": str(WINDOWS), "readings.pause_seconds": "0.02"}


class Recorded(InSlots):
    """A recording is asked for with the first window."""

    asked = False

    def see(self, run, event):
        super().see(run, event)
        if not self.asked and isinstance(event, WindowCommitted):
            self.asked = True
            run.run.changes.ask(begins(run.run, ("watch", "readings"), {"windows": WINDOWS}, "test"), "test")


@pytest.mark.parametrize("partitions", [1, 3])
def test_all_of_the_model_is_exact_while_slots_are_killed(
    partitions, spark_context, wait_until, tmp_path, chance
):
    output, checkpoint, whole = tmp_path / "output", tmp_path / "checkpoint", tmp_path / "whole"
    words = ["--partitions", str(partitions)]
    slots, kills = Recorded(), 0
    app = load_application(str(APPLICATION), ["--output", str(output), *words])
    planner = planner_of(app, properties=PROPERTIES)
    with slots.running(app, spark_context, checkpoint, to_end=True, planner=planner):
        wait_until(lambda: slots.asked or slots.is_over, "the first window")
        while kills < KILLS and not slots.is_over:
            before = committed(checkpoint)
            wait_until(lambda before=before: slots.is_over or committed(checkpoint) > before + 1, "windows")
            time.sleep(chance.uniform(0.0, 0.05))
            kills += slots.kill({chance.choice(list(slots.pids) or [0])})
    run = slots.result
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

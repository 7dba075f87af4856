"""Record ages at a file sink, against those that somebody measures who reads the files from outside."""

import json
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort
from ridgeline.measure.events import WindowCommitted
from ridgeline.observe.plan_topology import planned_event
from ridgeline.observe.watch import Watch
from ridgeline.operators import FileOutput
from ridgeline.plan.planner import plan_application
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark
WINDOWS = 16
WIDTH = 0.5


class Event(NamedTuple):
    time: datetime
    window: int


class Events(InputOperator):
    output = OutputPort(Event, timestamp="time")

    def emit_tuples(self):
        now = self.context.clock.wall()
        for number in range(10):
            self.output.emit(
                Event(datetime.fromtimestamp(now - number / 100, tz=UTC), self.context.window_id)
            )


class Pass(Operator):
    input = InputPort(Event)
    output = OutputPort(Event)

    @input.process
    def forward(self, event):
        self.output.emit(event)


class Reader(threading.Thread):
    """Reads every file of a folder as soon as it is there; ages of its rows as the file came there."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.over, self.ages, self._seen = Path(folder), threading.Event(), [], set()

    def run(self):
        while not self.over.wait(0.002):
            self.look()

    def look(self):
        for path in set(self.folder.glob("*.jsonl")) - self._seen:
            came = path.stat().st_ctime  # the file's own: this thread may come late
            self._seen.add(path)
            for line in path.read_text().splitlines():
                self.ages.append(came - datetime.fromisoformat(json.loads(line)["time"]).timestamp())


def test_the_p99_at_commit_is_what_a_reader_of_the_files_sees(spark_context, tmp_path):
    out = tmp_path / "out"
    app = Application("ages", window=WIDTH)
    events = app.add_operator("events", Events())
    forward = app.add_operator("forward", Pass())
    files = app.add_operator("files", FileOutput(path=str(out), format="jsonl", roll_seconds=0))
    app.add_stream("events", events.output, forward.input)
    app.add_stream("forwarded", forward.output, files.input)
    reader = Reader(out)
    reader.start()

    run = run_on_spark(app, spark_context, tmp_path / "checkpoint", windows=WINDOWS)
    reader.over.set()
    reader.join()
    reader.look()

    watch = Watch(lambda: run.events[-1].at)
    watch.observe(planned_event(plan_application(app), at=time.time(), application_id="ages", info={}))
    for event in run.events:
        watch.observe(event)
    ages = {
        age["at"]: age for age in watch.record_age()["operators"] if age["operator"] in ("events", "files")
    }
    assert (
        len(reader.ages)
        == ages["commit"]["count"]
        == ages["emit"]["count"]
        == ages["source"]["count"]
        == 10 * WINDOWS
    )
    assert ages["source"]["maxMs"] <= ages["emit"]["maxMs"] <= ages["commit"]["maxMs"]
    # A reader sees rows after the commit; how long after depends on the disk.
    late = max(event.published - event.committed for event in run.of_type(WindowCommitted))
    assert ages["commit"]["p99Ms"] == pytest.approx(
        np.quantile(reader.ages, 0.99, method="inverted_cdf") * 1e3, abs=(WIDTH + late) * 1e3
    )
    assert ages["commit"]["avgMs"] == pytest.approx(np.mean(reader.ages) * 1e3, abs=(WIDTH + late) * 1e3)

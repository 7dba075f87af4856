"""Rows of files that Spark reads: written by Spark, a folder for each window, and by us.

The driver ends itself by SIGKILL at a point of Spark's write: the file `strike-POINT` in `folder` says so. At
the point `still` it stops itself.
"""

import os
import signal
import threading
from functools import partial
from pathlib import Path

from queued import Numbered, PassOn

from ridgeline import Application
from ridgeline.operators import FileOutput, SparkInput, SparkOutput
from ridgeline.operators._segments import Marker


def application(read: str, write: str, folder: str) -> Application:
    app = Application("from_spark", window="50ms")
    options = {"path": read, "maxFilesPerTrigger": 1}
    rows = app.add_operator("rows", SparkInput("json", options=options, schema=Numbered), partitions=2)
    pass_on = app.add_operator("pass_on", PassOn(), partitions=2)
    target = {"path": f"{write}/spark/window={{window_id}}"}
    output = SparkOutput("parquet", options=target, mode="overwrite", transform=partial(strike, folder))
    by_spark = app.add_operator("by_spark", output)
    by_us = app.add_operator("by_us", FileOutput(f"{write}/files", format="jsonl", roll_seconds=0))
    app.add_stream("rows", rows.output, pass_on.rows)
    app.add_stream("passed", pass_on.passed, by_spark.input, by_us.input)
    Marker.move = partial_method(Marker.move, folder)
    return app


def partial_method(move, folder):
    """The marker is moved once Spark has written a window: before that is the point `after`."""

    def struck(self, window):
        if self._name == "written" and is_asked(folder, "after"):
            end()
        move(self, window)

    return struck


def strike(folder, frame, _window):
    """The points before Spark writes, and within."""
    if is_asked(folder, "before"):
        end()
    if is_asked(folder, "in"):
        threading.Timer(seconds(), end).start()
    if is_asked(folder, "still"):
        threading.Timer(seconds(), stand_still).start()
    return frame


def seconds():
    """How long after the point `in` it comes."""
    return float(os.environ.get("STRIKE_SECONDS", "0.1"))


def stand_still():
    """Stop the driver, Spark's Java too."""
    os.killpg(os.getpgid(0), signal.SIGSTOP)


def is_asked(folder, point):
    """Whether the driver is to end here; it is asked once."""
    try:
        Path(folder, f"strike-{point}").unlink()
    except FileNotFoundError:
        return False
    return True


def end():
    os.kill(os.getpid(), signal.SIGKILL)

"""Numbered rows of files on HDFS into files there."""

from queued import Numbered, PassOn

from ridgeline import Application
from ridgeline.operators import FileInput, FileOutput


def application(read: str, write: str) -> Application:
    app = Application("on_hdfs", window="50ms")
    source = FileInput(read, Numbered, format="jsonl", settle=0, window_records=200, discover_every="300ms")
    rows = app.add_operator("rows", source, partitions=2)
    pass_on = app.add_operator("pass_on", PassOn(), partitions=2)
    out = app.add_operator("out", FileOutput(write, format="jsonl", roll_seconds=0.3), partitions=2)
    app.add_stream("rows", rows.output, pass_on.rows)
    app.add_stream("passed", pass_on.passed, out.input)
    return app

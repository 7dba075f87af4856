"""Numbered rows of files that Spark reads: written by Spark, a folder for each window, and by us."""

from queued import Numbered, PassOn

from ridgeline import Application
from ridgeline.operators import FileOutput, SparkInput, SparkOutput


def application(read: str, write: str) -> Application:
    app = Application("from_spark", window="50ms")
    options = {"path": read, "maxFilesPerTrigger": 1}
    rows = app.add_operator("rows", SparkInput("json", options=options, schema=Numbered), partitions=2)
    pass_on = app.add_operator("pass_on", PassOn(), partitions=2)
    folder = {"path": f"{write}/spark/window={{window_id}}"}
    by_spark = app.add_operator("by_spark", SparkOutput("parquet", options=folder, mode="overwrite"))
    by_us = app.add_operator("by_us", FileOutput(f"{write}/files", format="jsonl", roll_seconds=0))
    app.add_stream("rows", rows.output, pass_on.rows)
    app.add_stream("passed", pass_on.passed, by_spark.input, by_us.input)
    return app

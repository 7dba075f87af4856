"""Numbered rows into tables of a lake: all of them, and the last one of each key."""

from pathlib import Path

from queued import PassOn, Rows

from ridgeline import Application
from ridgeline.connectors.lake import DeltaOutput, IcebergOutput


def application(folder: str, partitions: int = 2) -> Application:
    app = Application("to_lake", window="20ms")
    rows = app.add_operator("rows", Rows())
    pass_on = app.add_operator("pass_on", PassOn(), partitions=partitions)
    every = app.add_operator(
        "every", DeltaOutput(Path(folder) / "every", partition_by="key"), partitions=partitions
    )
    last = app.add_operator("last", DeltaOutput(Path(folder) / "last", key="key"), partitions=partitions)
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    ice = IcebergOutput("shop.every", catalog="shop", properties=catalog)
    iced = app.add_operator("iced", ice, partitions=partitions)
    app.add_stream("rows", rows.output, pass_on.rows)
    app.add_stream("passed", pass_on.passed, every.input, last.input, iced.input)
    return app

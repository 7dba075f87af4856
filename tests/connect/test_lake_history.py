"""A lake table as the history of a live source: each record once, in partitions 1 and 3, with failures."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.connect.memory_source import LOGS, START, Entry, Log, MemoryInput

from ridgeline import Application
from ridgeline.operators.lake import DeltaInput, IcebergInput
from ridgeline.testing import CollectorSink, Faults, run_local

PARTS, ROWS = 4, 50
COLUMNS = pa.schema([("partition", pa.string()), ("place", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


def parts() -> list[pa.Table]:
    """What each version of the table adds."""
    rows = [("old", place, START + timedelta(seconds=place)) for place in range(PARTS * ROWS)]
    return [
        pa.Table.from_pylist(
            [dict(zip(COLUMNS.names, row, strict=True)) for row in rows[begin : begin + ROWS]], COLUMNS
        )
        for begin in range(0, len(rows), ROWS)
    ]


def delta(folder: Path) -> Any:
    for part in parts():
        deltalake.write_deltalake(str(folder / "old"), part, mode="append")
    return DeltaInput(str(folder / "old"), Entry)


def iceberg(folder: Path) -> Any:
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    catalog = SqlCatalog("shop", **properties)
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.old", COLUMNS)
    for part in parts():
        table.append(part)
    return IcebergInput("shop.old", Entry, catalog="shop", properties=properties)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("history", [delta, iceberg])
def test_a_table_is_read_before_what_is_live(tmp_path: Path, history: Any, partitions: int) -> None:
    LOGS["live"] = live = Log([{"p0": 150}, {"p0": 100}, {"p1": 250}])
    app = Application("orders", window="100ms")
    source = MemoryInput("live", history=history(tmp_path), timestamp="at", discover_every=0.0)
    read = app.add_operator("source", source, partitions=partitions)
    sink = app.add_operator("sink", CollectorSink(Entry))
    app.add_stream("entries", read.output, sink.input)
    run = run_local(app, faults=Faults(partitions, rate=0.2), checkpoint=tmp_path / "checkpoint")
    found = Counter((row.partition, row.place) for row in run.collected("sink"))
    last = PARTS * ROWS - 1
    newer = [(row.partition, row.place) for row in live.all() if row.place > last]
    assert found == Counter([("old", place) for place in range(last + 1)] + newer)

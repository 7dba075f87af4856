"""What is recorded of a port: files that pandas reads, whatever the tuples are, of committed windows only."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from rich.console import Console

from ridgeline.api.clock import SystemClock
from ridgeline.api.columns.schema import Schema
from ridgeline.api.publisher import PublisherContext
from ridgeline.operators._recorder import ENDED, RecordedTuples, Recorder, file_of

LOGIN = pa.schema(
    [("user", pa.string()), ("password", pa.string()), ("url", pa.string()), ("_window", pa.int64())]
)


def recorded(schema: Any, rows: list[Any]) -> Any:
    return pd.read_parquet(io.BytesIO(file_of(7, 2, [Schema(schema).encode(rows)])))


def test_secrets_are_masked_and_marks_do_not_clash() -> None:
    rows = [
        {"user": "ann", "password": "hunter2", "url": "https://ann:hunter2@host/", "_window": 0},
        {"user": "bob", "password": "x", "url": None, "_window": 5},
    ]
    frame = recorded(LOGIN, rows)
    assert list(frame["user"]) == ["ann", "bob"]
    assert set(frame["password"]) == {"***"}
    assert "hunter2" not in frame.to_csv()
    assert list(frame["__window"]) == [7, 7]
    assert list(frame["_window"]) == [0, 5]
    assert list(frame["_position"]) == [0, 1]


def test_what_is_beside_a_secret_in_a_struct_stays_what_it_is() -> None:
    kind = pa.struct(
        [("password", pa.string()), ("time", pa.timestamp("us", "UTC")), ("cents", pa.decimal128(9, 2))]
    )
    rows = [
        {
            "column": {
                "password": "hunter2",
                "time": datetime(2026, 1, 1, tzinfo=UTC),
                "cents": Decimal("1.50"),
            }
        }
    ]
    (found,) = recorded(pa.schema([("column", kind)]), rows)["column"]
    assert found == {"password": "***", "time": datetime(2026, 1, 1, tzinfo=UTC), "cents": Decimal("1.50")}


@pytest.mark.parametrize("value", ["\ud800", b"\0", {"password": "hunter2"}, "x" * 100_000, None])
def test_any_value_becomes_a_text(value: object) -> None:
    frame = recorded(object, [value])
    assert len(frame["tuple"][0]) <= 1_000
    assert "hunter2" not in frame["tuple"][0]


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([]),
        pa.month_day_nano_interval(),
        pa.duration("us"),
        pa.list_(pa.struct([("password", pa.string())])),
        pa.struct([("password", pa.string()), ("inner", pa.struct([("secret", pa.string())]))]),
        pa.null(),
    ],
)
def test_any_column_is_recorded(kind: pa.DataType) -> None:
    data = file_of(7, 0, [pa.record_batch([pa.nulls(3, kind)], names=["column"])])
    assert len(pd.read_parquet(io.BytesIO(data))) == 3


class Driver:
    """The driver's half of a recording of at most 3 windows and 50 bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state: Any = None
        self.half: RecordedTuples

    def open(self, committed: int = -1) -> RecordedTuples:
        self.half = Recorder("recording_1", "total", "sums", windows=3, limit_bytes=50).publisher()
        context = PublisherContext(
            application="app",
            operator="recording_1_sums",
            run_id="run",
            clock=SystemClock(),
            console=Console(),
            staging=f"{self.folder}/staging",
            spark=lambda: None,
            epoch=committed + 2,
            check_owner=lambda: None,
            committed=committed,
        )
        self.half.open(context, self.state)
        return self.half

    def window(self, number: int, *data: bytes, publish: bool = True) -> None:
        self.state = json.loads(json.dumps(self.half.stage(number, [(0, 1, one, "") for one in data])))
        if publish:
            self.half.publish(number)

    @property
    def files(self) -> list[str]:
        return sorted(one.name for one in (self.folder / "recordings/recording_1/sums").iterdir())


def test_files_are_those_of_committed_windows_whenever_the_driver_dies(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.open()
    driver.window(0, b"a")
    driver.window(1, b"lost", publish=False)
    driver.window(1, b"b", publish=False)  # it was refused, and is staged again
    assert driver.files == ["w0000000000-p0.parquet"]
    half = driver.open(1)  # it died after the commit
    half.publish(1)
    half.publish(1)
    assert (half.row["windows"], half.row["tuples"], half.row["bytes"]) == (2, 2, 2)
    assert (tmp_path / "recordings/recording_1/sums" / driver.files[1]).read_bytes() == b"b"
    assert half.over is None
    driver.window(2)
    assert half.over == "it has 3 windows"
    driver.window(3, b"late")
    half.close()
    row = json.loads((tmp_path / f"recordings/recording_1.sums{ENDED}").read_text())
    assert (row["state"], row["windows"], row["endWindow"], len(driver.files)) == ("ENDED", 2, 3, 2)


def test_a_recording_ends_before_too_many_bytes_and_where_it_cannot_be_written(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "small")
    half = driver.open()
    driver.window(0, b"x" * 40)
    driver.window(1, b"x" * 11)
    assert (half.over, half.row["endWindow"]) == ("it would exceed 50 bytes in window 1", 1)
    driver = Driver(tmp_path / "full")
    half = driver.open()
    (tmp_path / "full/recordings/staged").rmdir()
    driver.window(0, b"x")
    assert "window 0 could not be written" in str(half.over)

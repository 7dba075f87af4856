"""What a container records of a port: a file that pandas reads, whatever the tuples are."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.engine.container.recording import STAGED, record
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import WindowRequest
from support.engine.applications import Sum
from support.engine.in_slots import two_stages

LOGIN = pa.schema(
    [("user", pa.string()), ("password", pa.string()), ("url", pa.string()), ("_window", pa.int64())]
)


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


LIMIT = 10 * 2**20
SPEC = plan_application(two_stages(Sum())).physical.operators[0]


def recorded(schema: Any, rows: list[Any], limit: int = LIMIT) -> Any:
    request = WindowRequest(7, 0, 1, recording={(SPEC.id, "numbers"): limit})
    files: dict[str, bytes] = {}
    parts = {
        "numbers": [Tuples.of_rows(Schema(schema), rows)],
        "other": [Tuples.of_rows(Schema(schema), rows)],
    }
    found = record(SPEC, request, parts, files.__setitem__, "e1r0t0")
    assert list(found) == ["numbers"]
    count, size, file, fault = found["numbers"]
    assert count == len(rows)
    assert size == len(files.get(file, b""))
    return fault or pd.read_parquet(io.BytesIO(files[file])), file


def test_secrets_are_masked_and_marks_do_not_clash() -> None:
    rows = [
        {"user": "ann", "password": "hunter2", "url": "https://ann:hunter2@host/", "_window": 0},
        {"user": "bob", "password": "x", "url": None, "_window": 5},
    ]
    frame, _ = recorded(LOGIN, rows)
    assert list(frame["user"]) == ["ann", "bob"]
    assert set(frame["password"]) == {"***"}
    assert "hunter2" not in frame.to_csv()
    assert list(frame["__window"]) == [7, 7]
    assert list(frame["_window"]) == [0, 5]
    assert list(frame["_position"]) == [0, 1]


@pytest.mark.parametrize(
    "value", ["\ud800", b"\0", Unprintable(), {"password": "hunter2"}, "x" * 100_000, None]
)
def test_any_value_becomes_a_text(value: object) -> None:
    frame, _ = recorded(object, [value])
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
    request = WindowRequest(7, 0, 1, recording={(SPEC.id, "numbers"): LIMIT})
    batch = pa.record_batch([pa.nulls(3, kind)], names=["column"])
    parts = {"numbers": [Tuples.of_batch(Schema(batch.schema), batch)]}
    files: dict[str, bytes] = {}
    count, _, file, fault = record(SPEC, request, parts, files.__setitem__, "t")["numbers"]
    assert (count, fault) == (3, "")
    assert len(pd.read_parquet(io.BytesIO(files[file]))) == 3


def test_tuples_go_to_a_file_and_too_many_are_refused() -> None:
    schema = pa.schema([("value", pa.int64())])
    rows = [{"value": number * 7919 % 10_007} for number in range(30_000)]
    frame, file = recorded(schema, rows)
    assert len(frame) == len(rows)
    assert file.startswith(f"{STAGED}/w0000000007-")
    fault, _ = recorded(schema, rows, 32 * 1024)
    assert "the limit is" in fault


def test_a_full_disk_is_told_and_does_not_fail_the_window() -> None:
    def full(_name: str, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    request = WindowRequest(7, 0, 1, recording={(SPEC.id, "numbers"): LIMIT})
    schema = Schema(pa.schema([("value", pa.int64())]))
    rows = [{"value": number * 7919 % 10_007} for number in range(30_000)]
    [(_, size, file, fault)] = record(
        SPEC, request, {"numbers": [Tuples.of_rows(schema, rows)]}, full, "t"
    ).values()
    assert (size, file) == (0, "")
    assert "No space left" in fault

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from ridgeline.api import RidgelineError
from ridgeline.api.columns.schema import Schema
from ridgeline.operators import FileOutput
from support.operators.harness import Driven, Published, batch


def read(file: Path) -> list[Any]:
    if file.suffix == ".jsonl":
        return [json.loads(line)["n"] for line in file.read_text().splitlines()]
    return pq.read_table(file)["n"].to_pylist()


def visible(folder: Path, format: str = "parquet") -> list[Any]:
    """The rows that a reader of the folder sees. Every file of that ending must be visible."""
    files = sorted(folder.rglob(f"*.{format}"))
    assert files == sorted(folder.glob(f"*.{format}"))
    rows = [row for file in files for row in read(file)]
    if files and format == "parquet":
        assert sorted(
            pyarrow.dataset.dataset(folder, format="parquet").to_table()["n"].to_pylist()
        ) == sorted(rows)
    return rows


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def segments(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / ".ridgeline").rglob("*.segment"))


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / ".ridgeline").rglob("*") if path.is_file())


def test_zero_roll_seconds_publish_every_window(tmp_path: Path) -> None:
    output = FileOutput(path=tmp_path, roll_seconds=0)
    part, driver = Driven(output), Published(output, tmp_path)
    for window in range(3):
        driver.commit(window, part.window(batch(n=[window]))[1])
        assert visible(tmp_path) == list(range(window + 1))
    assert len(names(tmp_path)) == 3


def test_roll_bytes_publish_what_is_large_enough(tmp_path: Path) -> None:
    output = FileOutput(path=tmp_path, roll_bytes=1_100, format="jsonl")
    part, driver = Driven(output), Published(output, tmp_path)
    for window in range(3):
        driver.commit(window, part.window(batch(n=[window] * 50))[1])
    assert names(tmp_path) == ["under_test-run1-0000000000-0000000002.jsonl"]


def test_windows_without_rows_leave_no_files(tmp_path: Path) -> None:
    output = FileOutput(path=tmp_path / "out", roll_seconds=0)
    part, driver = Driven(output), Published(output, tmp_path)
    for window in range(3):
        _, handed = part.window(batch(n=[])) if window else part.window()
        assert handed == []
        driver.commit(window, handed)
    driver.publisher.close()
    assert names(tmp_path / "out") == []
    assert hidden(tmp_path / "out") == ["published--1"]


def test_an_application_window_is_written_at_its_end(tmp_path: Path) -> None:
    output = FileOutput(path=tmp_path, roll_seconds=0)
    Published(output, tmp_path)
    part = Driven(output, rotate=True)
    assert part.window(batch(n=[1]), end=False)[1] == []
    assert part.window(batch(n=[2]), begin=False, end=False)[1] == []
    [(name, rows, *_)] = part.window(batch(n=[3]), begin=False)[1]
    assert (name, rows) == ("w0000000002-p0-a3.segment", 3)
    assert part.window(batch(n=[4]))[1][0][1] == 1


def test_attempts_that_failed_leave_no_rows_and_in_the_end_no_files(tmp_path: Path) -> None:
    output = FileOutput(path=tmp_path, roll_seconds=0)
    part, driver = Driven(output), Published(output, tmp_path)
    part.window(batch(n=[1]), commit=False)
    driver.commit(0, part.window(batch(n=[1]))[1])
    assert visible(tmp_path) == [1]
    assert segments(tmp_path) == []
    zombie = Driven(output)
    zombie.attempts = 7
    zombie.window(batch(n=[1]))
    driver.commit(1, [])
    assert visible(tmp_path) == [1]
    driver.publisher.close()
    assert hidden(tmp_path) == ["published-0"]


def test_a_run_goes_on_after_an_orderly_end_though_its_files_were_taken_away(tmp_path: Path) -> None:
    output = FileOutput(path=tmp_path / "out")
    part, driver = Driven(output), Published(output, tmp_path)
    driver.commit(0, part.window(batch(n=[1]))[1])
    driver.publisher.close()
    for name in names(tmp_path / "out"):
        (tmp_path / "out" / name).unlink()
    driver.crash()
    driver.commit(1, part.window(batch(n=[2]))[1])
    driver.publisher.close()
    assert visible(tmp_path / "out") == [2]


def test_a_schema_that_changes_between_two_runs_gets_a_file_of_its_own(tmp_path: Path) -> None:
    output = FileOutput(path=tmp_path)
    part, driver = Driven(output), Published(output, tmp_path)
    driver.commit(0, part.window(batch(n=[1]))[1])
    driver.commit(1, part.window(batch(n=[2]))[1])
    driver.crash()
    driver.commit(2, part.window(batch(n=["three"]))[1])
    driver.publisher.close()
    found = [pq.read_table(tmp_path / name)["n"].to_pylist() for name in names(tmp_path)]
    assert found == [[1, 2], ["three"]]


def test_what_waits_is_published_where_it_belongs_when_path_and_format_change(tmp_path: Path) -> None:
    output = FileOutput(path=tmp_path / "old")
    part, driver = Driven(output), Published(output, tmp_path)
    driver.commit(0, part.window(batch(n=[1]))[1])
    driver.commit(1, part.window(batch(n=[2]))[1])
    driver.operator = FileOutput(path=str(tmp_path / "new"), format="jsonl")
    driver.crash()
    assert visible(tmp_path / "old") == [1, 2]
    part = Driven(driver.operator)
    part.window_id = 2
    driver.commit(2, part.window(batch(n=[3]))[1])
    driver.publisher.close()
    assert visible(tmp_path / "new", "jsonl") == [3]
    driver.crash()
    assert visible(tmp_path / "old") == [1, 2]


@pytest.mark.guide("004", "Output Adapters")
def test_files_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "before.parquet").write_bytes(b"")
    (tmp_path / "_notes.txt").write_text("")
    output = FileOutput(path=tmp_path, roll_seconds=0)
    driver = Published(output, tmp_path)
    assert names(tmp_path) == ["_notes.txt", "before.parquet"]
    (tmp_path / "before.parquet").unlink()
    driver.commit(0, Driven(output).window(batch(n=[1]))[1])
    driver.crash()
    assert visible(tmp_path) == [1]
    other = Published(output, tmp_path, name="second")
    assert visible(tmp_path) == [1]
    other.publisher.close()


def test_json_lines_hold_every_type(tmp_path: Path) -> None:
    moment, at = datetime(2026, 1, 1, 12, 30, 0, 5, tzinfo=UTC), "2026-01-01T12:30:00.000005Z"
    naive, micros = moment.replace(tzinfo=None), pa.timestamp("us", tz="UTC")
    kinds = {"a": pa.binary(), "b": pa.decimal128(10, 1), "c": pa.duration("us"), "d": pa.timestamp("us")}
    inner = {"a": b"x", "b": Decimal("2.5"), "c": timedelta(1), "d": naive}
    table: dict[str, tuple[pa.DataType, Any, Any]] = {
        "z_first": (pa.int64(), 1, 1),
        "ratio": (pa.float64(), math.nan, None),
        "text": (pa.string(), 'ä"\n', 'ä"\n'),
        "flag": (pa.bool_(), True, True),
        "raw": (pa.binary(), b"\x00\xff", base64.b64encode(b"\x00\xff").decode()),
        "at": (micros, moment, at),
        "berlin": (pa.timestamp("us", tz="Europe/Berlin"), moment, at),
        "naive": (pa.timestamp("us"), naive, at[:-1]),
        "day": (pa.date32(), date(2026, 1, 1), "2026-01-01"),
        "hour": (pa.time64("us"), time(1, 2, 3), "01:02:03.000000"),
        "took": (pa.duration("us"), timedelta(seconds=1.5), 1.5),
        "money": (pa.decimal128(38, 2), Decimal("1.50"), "1.50"),
        "list": (pa.list_(pa.float64()), [1.0, math.inf, None], [1.0, None, None]),
        "map": (pa.map_(pa.int64(), micros), [(1, moment)], {"1": at}),
        "struct": (pa.struct(kinds), inner, {"a": "eA==", "b": "2.5", "c": 86400.0, "d": at[:-1]}),
        "code": (pa.dictionary(pa.int8(), pa.string()), "c", "c"),
    }
    schema = pa.schema([(name, kind) for name, (kind, _, _) in table.items()])
    row = {name: value for name, (_, value, _) in table.items()}
    rows = pa.RecordBatch.from_pylist([row, dict.fromkeys(row)], schema=schema)
    output = FileOutput(path=tmp_path, format="jsonl", roll_seconds=0)
    Published(output, tmp_path).commit(0, Driven(output).window(rows)[1])
    lines = (tmp_path / names(tmp_path)[0]).read_text("utf-8").splitlines()
    first, second = map(json.loads, lines)
    assert list(first) == schema.names
    assert first == {name: wanted for name, (_, _, wanted) in table.items()}
    assert set(second.values()) == {None}


def test_a_relative_path_is_relative_to_the_folder_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    part, driver = Driven(FileOutput(path="out")), Published(FileOutput(path="out"), tmp_path)
    monkeypatch.chdir("/")
    driver.stage(0, part.window(batch(n=[1]))[1])
    assert len(segments(tmp_path / "out")) == 1


def test_a_window_that_is_staged_again_is_published_once(tmp_path: Path) -> None:
    """An attempt may have been staged here and refused by another output."""
    output = FileOutput(path=tmp_path, format="jsonl", roll_seconds=0)
    driver = Published(output, tmp_path)
    driver.stage(0, Driven(output).window(batch(n=[1]))[1])
    driver.commit(0, Driven(output).window(batch(n=[1]))[1])
    assert [(tmp_path / name).read_text() for name in names(tmp_path)] == ['{"n":1}\n']


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_a_disk_that_is_full_when_a_file_is_published(tmp_path: Path, format: str) -> None:
    output = FileOutput(path=tmp_path, format=format, roll_seconds=1)
    part, driver = Driven(output), Published(output, tmp_path)
    driver.commit(0, part.window(batch(n=[0]))[1])
    driver.clock.seconds += 1
    (tmp_path / ".ridgeline" / "under_test-run1" / "merged-e1.tmp").symlink_to("/dev/full")
    with pytest.raises(
        RidgelineError, match=r"no space is left on the device .* nothing that was committed is lost"
    ):
        driver.commit(1, part.window(batch(n=[1]))[1])
    assert visible(tmp_path, format) == []
    driver.crash()
    assert visible(tmp_path, format) == [0, 1]


def test_what_cannot_be_written_to_is_an_error_before_the_commit(tmp_path: Path) -> None:
    """A file in the place of the folder, segments and folders that another host keeps for itself, objects."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RidgelineError, match=r"cannot write to .*file`: .*remove it, or give another `path`"):
        Published(FileOutput(path=tmp_path / "file"), tmp_path)
    output = FileOutput(path=tmp_path / "out", roll_seconds=0)
    with pytest.raises(RidgelineError, match=r"its folder, or .*, is missing .*; mount it again, or give"):
        Driven(output).window(batch(n=[1]))
    driver = Published(output, tmp_path)
    with pytest.raises(RidgelineError, match=r"that a container wrote, is missing .*; mount it again, or"):
        driver.stage(0, [("w0000000000-p0-a1.segment", 1, 100, "abc", 0)])
    with pytest.raises(RidgelineError, match=r"cannot write a stream of `object`.*give the output port"):
        Driven(output).window(Schema(object).encode([1]))

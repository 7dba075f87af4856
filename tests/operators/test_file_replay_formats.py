from __future__ import annotations

import gzip
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeline.api import RidgelineError
from ridgeline.api.columns.schema import Schema
from ridgeline.operators import FileOutput, FileReplayInput
from support.operators.harness import Driven, Published
from support.operators.replayed import Event, Everything, Nested, replay, write
from support.testing.shares import share

DAY = datetime(2026, 1, 1, tzinfo=UTC)


ROW = Everything(
    1,
    0.5,
    'ä "quoted"',
    True,
    b"\x00\xff",
    DAY,
    DAY.date(),
    time(1, 2, 3),
    timedelta(seconds=1.5),
    Decimal("1.5"),
)


@pytest.mark.parametrize(
    ("schema", "row", "format"),
    share(
        2,
        [(Everything, ROW), (Nested, Nested([DAY], {5: Decimal("2.5")}, ROW))],
        ["jsonl", "parquet"],
        spread=True,
    ),
)
def test_what_a_file_output_wrote_comes_back(tmp_path: Path, format: str, schema: type, row: Any) -> None:
    output = FileOutput(path=tmp_path, format=format, roll_seconds=0)
    rows = Schema(schema).encode([row, row])
    Published(output, tmp_path).commit(0, Driven(output).window(rows)[1])
    [[batch], _] = Driven(FileReplayInput(path=tmp_path, schema=schema, format=format)).window()
    assert Schema(schema).decode(batch) == [row, row]


def test_csv_columns_by_name_with_types_nulls_and_other_delimiters(tmp_path: Path) -> None:
    schema = Schema(Everything).arrow
    schema = schema.remove(schema.get_field_index("raw"))
    fields = schema.names
    (tmp_path / "a.csv").write_text(
        "\ufeffnumber;extra;ratio;text;flag;at;day;hour;took;money\n"
        '1;z;0.5;"a;""b""";true;2026-01-01T01:00:00+01:00;2026-01-01;01:02:03;1.5;1.50\n'
        ';NA;-;"-";;2026-01-01;-;;;\n'
        '2;;;";";0;2026-01-01 00:00:00.5;;;;\n',
        encoding="utf-8",
    )
    part = Driven(
        FileReplayInput(
            path=tmp_path / "a.csv", schema=schema, format="csv", delimiter=";", null_values=["", "-"]
        )
    )
    [[batch], _] = part.window()
    first, second, third = batch.to_pylist()
    assert first == {**{name: getattr(ROW, name) for name in fields}, "text": 'a;"b"'}
    assert second == {**dict.fromkeys(fields), "text": "-", "at": DAY}
    assert third == {
        **dict.fromkeys(fields),
        "number": 2,
        "text": ";",
        "flag": False,
        "at": DAY + timedelta(seconds=0.5),
    }


def fails(operator: FileReplayInput, windows: int = 5) -> str:
    with pytest.raises(RidgelineError) as caught:
        Driven(operator).rows(windows)
    return str(caught.value)


def test_a_time_that_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("n,time\n1,2026-01-01\n2,yesterday\n")
    message = fails(FileReplayInput(path=path, schema=Event, format="csv"))
    assert message.startswith(f"line 3 (byte 20) of `{path}` is not a Event(")
    assert "column `time` cannot be converted to timestamp[us, tz=UTC]: " in message


def test_columns_that_are_missing_or_of_another_type(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("m,N\n1,2\n")
    assert fails(replay(path, "csv")) == (
        f"file `{path}` has no column `n`; its header is 'm,N'; known are `N`, `m` "
        "Name the columns of `schema` as the header does, or set `delimiter`"
    )
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"nn": [1]}), path)
    assert fails(replay(path, "parquet")).startswith(
        f"file `{path}` has no column `n`; did you mean `nn`? Name the columns"
    )
    pq.write_table(pa.table({"n": ["a"]}), path)
    message = fails(replay(path, "parquet"))
    assert message.startswith(f"column `n` of file `{path}` is string, `schema` says int64: ")
    assert message.endswith("(rows 0 to 0); change `schema`")


def test_files_that_are_missing_or_corrupt(tmp_path: Path) -> None:
    assert fails(replay(tmp_path / "no.csv", "csv")) == (
        f"nothing to replay in `{tmp_path / 'no.csv'}`: there is no such file; "
        "give the `path` of a file, a folder or a pattern such as `data/*.csv`"
    )
    assert f"`{tmp_path}/*.csv`: no file matches; give" in fails(replay(f"{tmp_path}/*.csv", "csv"))
    assert f"`{tmp_path}`: the folder has no files; give" in fails(replay(tmp_path, "csv"))
    path = tmp_path / "a.parquet"
    path.write_text("this is not Parquet")
    assert fails(replay(path, "parquet")).startswith(f"file `{path}` is no Parquet file or corrupt: ")
    path = tmp_path / "a.text.gz"
    path.write_bytes(gzip.compress(bytes(range(256)).hex().encode() * 10_000)[:-20])
    assert fails(replay(path, "text")).startswith(f"file `{path}` is corrupt or cannot be read, after byte ")
    path.write_bytes(b"not compressed")
    assert fails(replay(path, "text")).startswith(
        f"file `{path}` is corrupt or cannot be read, after byte 0 of its text: "
    )
    write(tmp_path, "text", [list(range(10))])
    path = tmp_path / "000.text"
    for change, message in [
        (path.unlink, f"file `{path}` cannot be opened: "),
        (
            lambda: path.write_text("1\n"),
            (
                f"file `{path}` has shrunk: it was read up to byte 10 before; "
                "bring it back, or start on a fresh checkpoint"
            ),
        ),
    ]:
        write(tmp_path, "text", [list(range(10))])
        part = Driven(replay(path, "text", rows_per_window=5), rotate=True)
        part.window()
        change()
        with pytest.raises(RidgelineError) as caught:
            part.window()
        assert str(caught.value).startswith(message)

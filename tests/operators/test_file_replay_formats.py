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
from support.operators.replayed import Event, Everything, Nested, replay, together, write
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


def test_a_line_that_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("other,n\n" + "\n".join(f"x,{n}" for n in range(1000)) + "\n\nx,12a\nx,12b\n")
    for operator in (replay(path, "csv"), replay(path, "csv", rows_per_window=7)):
        with pytest.raises(RidgelineError) as caught:
            Driven(operator, partitions=2, partition=0).rows()
        assert str(caught.value) == (
            f"line 1003 (byte {path.read_bytes().index(b'x,12a')}) of `{path}` is not a Number(n: int64): "
            "column `n` cannot be converted "
            "to int64: invalid value '12a'; got 'x,12a'; mend or remove the line, change `schema`, or leave "
            "such lines out by `on_error=SKIP`"
        )
    path.write_text("n,m\n1,1\n2\n")
    assert (
        f"line 3 (byte 8) of `{path}` is not a Number(n: int64): Expected 2 columns, got 1: 2; got '2'; mend"
        in fails(replay(path, "csv"))
    )
    path.write_text('n,m\n1,"a\n2,b\n3,c\n')
    for operator in (replay(path, "csv"), replay(path, "csv", rows_per_window=1)):
        message = f"line 2 (byte 4) of `{path}` is not a Number(n: int64): a quote is not closed; got '1,\"a"
        assert message in fails(operator)
    for text in ['n,m\n1,"a\nb"\n2,c\n', 'm,n\n"a\n\nb",1\n2,2\n', 'n,m\n1,"a\n2,b"\n2,"c\r\n"\n']:
        path.write_text(text, newline="")
        assert together([Driven(replay(path, "csv"))]) == [[(1, 2)]]
    path.write_text('n,m\n1,5" pipe\n2,"5"" pipe"\n')
    assert together([Driven(replay(path, "csv"))]) == [[(1, 2)]]
    path.write_text('{"n": 1}\n{"n": 2]\n')
    assert (
        f"line 2 (byte 9) of `{path}` is not a JSON object for Number(n: int64): Missing a comma or"
        in fails(replay(path, "jsonl"))
    )
    path.write_text('{"n": 1}\n{"n": "x"}\n{"n": 3}')
    assert (
        f"line 2 (byte 9) of `{path}` is not a JSON object for Number(n: int64): Column(/n) changed from"
        in fails(replay(path, "jsonl"))
    )
    path.write_text('{"n": 1} {"n": 2}\n')
    assert "1 lines are 2 objects; write one object a line" in fails(replay(path, "jsonl"))
    path.write_text('{"inner": 5}\n')
    assert f"line 1 (byte 0) of `{path}` is not a JSON object for Nested" in fails(
        FileReplayInput(path=path, schema=Nested, format="jsonl")
    )
    path.write_bytes(b"fine\nb\xffd\n")
    message = fails(replay(path, "text"))
    assert f"line 2 (byte 5) of `{path}` is not UTF-8 text: " in message
    assert "got 'b\\\\xffd'" in message
    zipped = tmp_path / "bad.jsonl.gz"
    zipped.write_bytes(gzip.compress(b'{"n": 1}\n{"n": 2.5}\n'))
    assert f"line 2 (byte 9) of `{zipped}` is not a JSON object" in fails(replay(zipped, "jsonl"))


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

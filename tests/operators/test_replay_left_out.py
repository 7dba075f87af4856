"""Lines and rows that `FileReplayInput` cannot read, files that grow, names that are left out."""

from __future__ import annotations

import bz2
import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeline import Application, DeadLetter, RidgelineError
from ridgeline.operators import FileReplayInput
from ridgeline.testing import CollectorSink, LocalRun, run_local
from support.depth import deeper
from support.testing.shares import share


class Row(NamedTuple):
    id: int
    day: int


class Text(NamedTuple):
    line: str


def application(source: FileReplayInput[Any], schema: Any, *, letters: bool = True) -> Application:
    app = Application("rows")
    app.read("source", source).write("sink", CollectorSink(schema))
    if letters:
        app.dead_letters(CollectorSink(DeadLetter))
    return app


def run(source: FileReplayInput[Any], schema: Any, partitions: int, **options: Any) -> LocalRun:
    attributes = {"source.on_error": "SKIP", "source.partitions": partitions}
    return run_local(application(source, schema), attributes=attributes, **options)


def is_row(line: bytes, format: str) -> bool:
    """A plain judgement of a line: one that a person would make."""
    try:
        if format == "text":
            line.decode()
            return True
        value = (
            json.loads(line) if format == "jsonl" else dict(zip(("id", "day"), line.split(b","), strict=True))
        )
        if not isinstance(value, dict):
            return False
        numbers = [int(value[name]) for name in ("id", "day")]
    except (ValueError, KeyError, TypeError):
        return False
    return all(abs(number) < 2**63 for number in numbers)


def lines(random: Random, format: str, count: int) -> list[bytes]:
    bad = {
        "text": [b"\xff\xfe", b"caf\xe9"],
        "csv": [b"x,1", b"1", b"1,2,3", b'"1,2', b"99999999999999999999,1", b"1.5,2", b"\xff,1"],
        "jsonl": [b"{", b"[]", b'{"id": 1}', b'{"id": "x", "day": 1}', b"null", b"{} {}", b'{"id": \xff}'],
    }[format]
    found = []
    for number in range(count):
        good = {
            "text": f"line {number}",
            "csv": f"{number},{number % 7}",
            "jsonl": json.dumps({"id": number, "day": number % 7}),
        }[format].encode()
        found.append(random.choice(bad) if random.random() < 0.2 else good)
    return found


@pytest.mark.parametrize(("partitions", "format"), share(2, [1, 2, 3, 5], ["text", "csv", "jsonl"]))
def test_lines_that_cannot_be_read_are_left_out_and_told(
    tmp_path: Path, format: str, partitions: int
) -> None:
    random = Random(partitions)
    written = lines(random, format, 200)
    head = b"id,day\n" if format == "csv" else b""
    suffix, packed, unpacked = random.choice(
        [("", bytes, bytes), (".gz", gzip.compress, gzip.decompress), (".bz2", bz2.compress, bz2.decompress)]
    )
    half = len(written) // 2
    for number, part in enumerate((written[:half], written[half:])):
        data = head + b"".join(line + b"\n" for line in part)
        (tmp_path / f"{number}.{format}{suffix}").write_bytes(packed(data))
    schema = Text if format == "text" else Row
    source = FileReplayInput(
        path=tmp_path,
        format=format,
        schema=schema,
        rows_per_window=random.choice([None, 13]),
        rows_in_turn=random.choice([1, 4]),
    )
    found = run(source, schema, partitions)
    good = [line for line in written if is_row(line, format)]
    if format == "text":
        assert sorted(row.line for row in found.collected("sink")) == sorted(line.decode() for line in good)
    else:
        wanted = [json.loads(line)["id"] if format == "jsonl" else int(line.split(b",")[0]) for line in good]
        assert sorted(row.id for row in found.collected("sink")) == sorted(wanted)
    letters = found.collected("dead_letters")
    assert len(letters) == len(written) - len(good)
    assert {letter.operator for letter in letters} == {"source"}
    for letter in letters:
        found_place = re.match(r"line (\d+), byte (\d+) of `(.*?)` is not ", letter.error)
        assert found_place, letter.error
        number, byte, name = int(found_place[1]), int(found_place[2]), Path(found_place[3])
        text = unpacked(name.read_bytes())
        assert text[:byte].count(b"\n") == number - 1
        assert text.split(b"\n")[number - 1].decode(errors="backslashreplace") == letter.tuple


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3])
def test_a_restart_leaves_out_no_more_and_no_less(tmp_path: Path, partitions: int) -> None:
    written = lines(Random(7), "jsonl", 60)
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(written))
    source = FileReplayInput(path=tmp_path / "a.jsonl", format="jsonl", schema=Row, rows_per_window=7)
    rows: list[int] = []
    letters: list[DeadLetter] = []
    while True:
        found = run(source, Row, partitions, windows=2, checkpoint=tmp_path / "state")
        rows += [row.id for row in found.collected("sink")]
        letters += found.collected("dead_letters")
        if found.windows_committed < 2:
            break
    good = [json.loads(line)["id"] for line in written if is_row(line, "jsonl")]
    assert sorted(rows) == sorted(good)
    bad = [number for number, line in enumerate(written, 1) if not is_row(line, "jsonl")]
    assert sorted(int(letter.error.split()[1].rstrip(",")) for letter in letters) == bad


def test_rows_of_parquet_with_values_out_of_range_are_left_out(tmp_path: Path) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int8(), nullable=False), pa.field("day", pa.int64(), nullable=False)]
    )
    pq.write_table(pa.table({"id": [1, 300, 3, -200], "day": [1, 2, 3, None]}), tmp_path / "a.parquet")
    source = FileReplayInput(path=tmp_path / "a.parquet", format="parquet", schema=schema)
    found = run(source, schema, 1)
    assert [row["id"] if isinstance(row, dict) else row[0] for row in found.collected("sink")] == [1, 3]
    letters = found.collected("dead_letters")
    assert ["300" in letters[0].tuple, "-200" in letters[1].tuple] == [True, True]


@pytest.mark.parametrize(("between", "zeros"), share(2, [False, True], [1, 511, 100_000]))
def test_gzip_members_may_be_padded_with_zeros(tmp_path: Path, zeros: int, between: bool) -> None:
    first, second = gzip.compress(b"1\n2\n"), gzip.compress(b"3\n")
    padding = bytes(zeros)
    data = first + (padding if between else b"") + second + padding
    (tmp_path / "a.gz").write_bytes(data)
    found = run_local(application(FileReplayInput(path=tmp_path, schema=Text), Text, letters=False))
    assert [row.line for row in found.collected("sink")] == ["1", "2", "3"]
    (tmp_path / "a.gz").write_bytes(data + b"more")
    with pytest.raises(RidgelineError, match="is corrupt or cannot be read"):
        run_local(application(FileReplayInput(path=tmp_path, schema=Text), Text, letters=False))


def numbers(folder: Path, names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        (folder / name).write_text(f"line {number}\n")


def lines_of(path: Path | str) -> list[str]:
    source = FileReplayInput(path=path, format="text", schema=Text)
    return [text.line for text in run_local(application(source, Text, letters=False)).collected("sink")]


@pytest.mark.parametrize("pattern", ["", "*.txt", "**/*.txt"])
def test_a_link_without_its_file_is_refused(pattern: str, tmp_path: Path) -> None:
    numbers(tmp_path, ["a.txt"])
    (tmp_path / "b.txt").symlink_to(tmp_path / "gone.txt")
    with pytest.raises(RidgelineError, match=r"b.txt` of .* is a link to a file that is not there"):
        lines_of(tmp_path / pattern)

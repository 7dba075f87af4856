"""Files are read once each, whatever comes in whatever order: against plain loops."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from ridgeline import Application, DeadLetter, OperatorError, RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.api.clock import SystemClock
from ridgeline.connect import SourceContext
from ridgeline.operators import FileInput
from ridgeline.operators.files import _lines
from ridgeline.operators.files._file_source import FileSource, Seen, hashed
from ridgeline.plan.edits import Repartition
from ridgeline.testing import CollectorSink, Faults, run_local
from support.depth import deep
from support.testing.shares import share
from support.waiting import wait_until


class Row(NamedTuple):
    file: str
    number: int


class Line(NamedTuple):
    text: str


def rows_of(name: str, count: int) -> list[Row]:
    return [Row(name, number) for number in range(count)]


def lines(rows: Iterable[Row]) -> bytes:
    return b"".join(json.dumps(row._asdict()).encode() + b"\n" for row in rows)


def members(rows: list[Row]) -> bytes:
    """Two members, and zeros after them."""
    half = len(rows) // 2
    return gzip.compress(lines(rows[:half])) + gzip.compress(lines(rows[half:])) + b"\0" * 512


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


def csv_lines(rows: Iterable[Row]) -> bytes:
    head = b"\xef\xbb\xbfnumber,other,file\r\n"
    return head + b"".join(f"{row.number},x,{row.file}\r\n".encode() for row in rows)


def written(rows: pa.Table, form: str) -> bytes:
    sink = io.BytesIO()
    if form == "parquet":
        pq.write_table(rows, sink, row_group_size=7)
    elif form == "csv":
        pa_csv.write_csv(rows, sink)
    elif form == "avro":
        kinds = {"int64": "long", "string": "string"}
        fields = [{"name": one.name, "type": kinds[str(one.type)]} for one in rows.schema]
        fastavro.writer(sink, {"type": "record", "name": "Row", "fields": fields}, rows.to_pylist())
    else:
        with (pa.ipc.new_stream if form == "arrows" else pa.ipc.new_file)(sink, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=9)
    return sink.getvalue()


def as_table(form: str) -> Callable[[list[Row]], bytes]:
    def write(rows: list[Row]) -> bytes:
        numbers = pa.array([row.number for row in rows], pa.int64())
        names = pa.array([row.file for row in rows], pa.string())
        return written(pa.table({"number": numbers, "file": names}), form)

    return write


FORMS: dict[str, Callable[[list[Row]], bytes]] = {
    "jsonl": lines,
    "json": lambda rows: lines(rows).rstrip(b"\n"),
    "jsonl.gz": members,
    "jsonl.bz2": lambda rows: bz2.compress(lines(rows)),
    "ndjson.zst": lambda rows: zstd(lines(rows)),
    "csv": csv_lines,
    "csv.gz": lambda rows: gzip.compress(csv_lines(rows)),
    **{form: as_table(form) for form in ("parquet", "arrow", "arrows", "avro")},
}


def application(
    source: FileInput[Any], partitions: int = 1, kind: Any = Row, **attributes: Any
) -> Application:
    app = Application("files", window="50ms")
    app.read("source", source, partitions=partitions, **attributes).write("sink", CollectorSink(kind))
    if attributes.get("on_error") == "SKIP":
        app.dead_letters(app.add_operator("letters", CollectorSink(DeadLetter)).input)
    return app


def by_file(rows: Iterable[Row]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        found[row.file].append(row.number)
    return dict(found)


def write_all(folder: Path, seed: int, count: int = 15, most: int = 60) -> dict[str, list[int]]:
    """Files of all forms; some are empty."""
    random, expected = Random(seed), {}
    for number in range(count):
        form = random.choice(list(FORMS))
        name = f"f{number}.{form}"
        rows = rows_of(name, random.choice([0, 1, 5, random.randint(0, most)]))
        (folder / name).write_bytes(FORMS[form](rows))
        if rows:
            expected[name] = [row.number for row in rows]
    return expected


@pytest.mark.parametrize("form", FORMS)
def test_each_format_and_compression(form: str, tmp_path: Path) -> None:
    rows = rows_of("a", 100)
    (tmp_path / f"a.{form}").write_bytes(FORMS[form](rows))
    assert run_local(application(FileInput(tmp_path, Row, until="end"))).collected("sink") == rows


@pytest.mark.parametrize("seed", range(deep(4)))
def test_each_file_once_with_kills(seed: int, tmp_path: Path) -> None:
    expected = write_all(tmp_path, seed)
    source = FileInput(tmp_path, Row, until="end", window_bytes=500)
    faults = Faults(seed=seed, rate=0.15, kinds=["exception", "kill", "repeat", "restart"])
    app = application(source, (1, 2, 3, 5)[seed % 4])
    run = run_local(app, faults=faults, interleave=seed if seed % 2 else None)
    assert by_file(run.collected("sink")) == expected
    assert faults.struck


@pytest.mark.parametrize("seed", range(deep(2)))
def test_partitions_that_change_while_files_are_read(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ridgeline.operators.files._file_source._LEAST_BYTES", 200)
    monkeypatch.setattr("ridgeline.operators.files._file_reader._CHUNK_ROWS", 7)
    monkeypatch.setattr("ridgeline.operators.files._lines.BLOCK_BYTES", 128)
    expected = write_all(tmp_path, seed, most=300)
    changes = {2: [Repartition("source", 3)], 4: [Repartition("source", 5)], 6: [Repartition("source", 1)]}
    source = FileInput(tmp_path, Row, until="end", window_bytes=1)
    app = application(source, 2)
    run = run_local(app, changes=changes, faults=Faults(seed=seed, rate=0.05, kinds=["kill", "exception"]))
    assert [change.state for change in run.changes].count("APPLIED") == len(changes)
    assert by_file(run.collected("sink")) == expected


def test_a_file_that_is_changed_after_it_was_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "in" / "a.csv"
    file.parent.mkdir()
    file.write_bytes(csv_lines(rows_of("a", 3)))
    os.utime(file, (1, 1))
    app = application(FileInput(file.parent, Row, discover_every=0))
    rows: list[Row] = []

    def more() -> None:
        run = run_local(app, windows=6, clock=SystemClock(), checkpoint=tmp_path / "c")
        rows.extend(run.collected("sink"))

    wait_until(lambda: more() or rows, "the first rows")
    file.write_bytes(csv_lines(rows_of("a", 4)))
    what = f"changed after they were read, and not read again: `{file}`"
    wait_until(lambda: more() or what in capsys.readouterr().out, "what is said of it")
    assert rows == rows_of("a", 3)


def test_a_file_that_grows_while_a_window_reads_its_end_is_read_on(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(lines(rows_of("a", 2)))
    source = FileInput(tmp_path, Row, settle=0, discover_every=0).source()
    clock = SystemClock()
    source.open(SourceContext("files", "source", "run", clock, lambda: None, print, "memory:"))
    [name] = source.partitions()
    before = source.ends(0.0)[name]
    file.write_bytes(lines(rows_of("a", 3)))
    while (after := source.ends(0.0)[name]) == before:
        assert list(source.partitions()) == [name]
    assert after[0] == file.stat().st_size
    assert not source.closes(name, before)
    assert source.closes(name, after)


@pytest.mark.parametrize("form", ["csv", "csv.gz"])
def test_what_was_read_of_a_file_that_is_not_closed_yet_is_not_read_again(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"a.{form}"
    file.write_bytes(FORMS[form](rows_of("a", 3)))
    grown: list[bytes] = []
    closes = FileSource.closes

    def later(self: FileSource, partition: str, position: Any) -> bool:
        if position[0] == position[1] and not grown:
            grown.append(FORMS[form](rows_of("a", 6)))
            file.write_bytes(grown[0])
            self._look()
        return closes(self, partition, position)

    monkeypatch.setattr(FileSource, "closes", later)
    source = FileInput(file, Row, settle=0, discover_every=0.01)
    found = run_local(application(source), windows=8, clock=SystemClock()).collected("sink")
    assert grown
    assert found == rows_of("a", 6)


def halves(rows: list[Row], packed: Callable[[bytes], bytes]) -> tuple[bytes, bytes]:
    return packed(lines(rows[:1500])), packed(lines(rows[1500:]))


def wrong_sum(rows: list[Row]) -> bytes:
    """Two members, of which the first has another checksum."""
    first, second = halves(rows, gzip.compress)
    return first[:-6] + bytes([first[-6] ^ 255]) + first[-5:] + second


DAMAGED: dict[str, Callable[[list[Row]], bytes]] = {
    "cut.jsonl.gz": lambda rows: b"".join(halves(rows, gzip.compress))[:-9],
    "header.jsonl.gz": lambda rows: gzip.compress(lines(rows)) + b"\x1f",
    "more.jsonl.gz": lambda rows: gzip.compress(lines(rows)) + b"more",
    "sum.jsonl.gz": wrong_sum,
    "cut.jsonl.bz2": lambda rows: b"".join(halves(rows, bz2.compress))[:-9],
    "cut.jsonl.zst": lambda rows: b"".join(halves(rows, zstd))[:-9],
    "cut.avro": lambda rows: FORMS["avro"](rows)[:-9],
}


@pytest.mark.parametrize(("window_bytes", "name"), share(2, [2**26, 4_000], DAMAGED))
def test_the_rest_of_a_damaged_file_is_left_out(name: str, window_bytes: int, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(DAMAGED[name](rows_of("x", 3000)))
    (tmp_path / "whole.csv").write_bytes(csv_lines(rows_of("whole", 3)))
    source = FileInput(tmp_path, Row, until="end", window_bytes=window_bytes)
    run = run_local(application(source, on_error="SKIP"), faults=Faults(window_bytes))
    found = by_file(run.collected("sink"))
    read = found.get("x", [])
    assert read == list(range(len(read)))
    assert found["whole"] == [0, 1, 2]
    [letter] = run.collected("letters")
    assert name in letter.error
    assert "the rest of the file is left out" in letter.error
    with pytest.raises(OperatorError, match=r"corrupt.*after"):
        run_local(application(source))


@pytest.mark.parametrize(
    ("ending", "text"),
    share(
        2,
        ["txt", "txt.gz"],
        [b"", b"\xef\xbb\xbf", b"a", b"a\n", b"\xef\xbb\xbfa\r\nb", b"a\n\nb\n", "ä\n".encode() * 1000],
    ),
)
def test_texts(text: bytes, ending: str, tmp_path: Path) -> None:
    (tmp_path / f"a.{ending}").write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    run = run_local(application(FileInput(tmp_path, Line, until="end"), kind=Line))
    expected = text.decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n")
    assert [line.text for line in run.collected("sink")] == (expected.split("\n") if expected else [])


def test_where_a_fresh_run_begins(tmp_path: Path) -> None:
    def found(begin: Any) -> set[str]:
        source = FileInput(tmp_path, Row, until="end", begin=begin)
        return set(by_file(run_local(application(source)).collected("sink")))

    for number in range(3):
        (tmp_path / f"{number}.jsonl").write_bytes(lines(rows_of(str(number), 2)))
        os.utime(tmp_path / f"{number}.jsonl", (1000 + number, 1000 + number))
    assert found("earliest") == {"0", "1", "2"}
    assert found("latest") == set()
    assert found(datetime.fromtimestamp(1001, UTC)) == {"1", "2"}


def test_a_file_that_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(rows_of("a", 3)))
    (tmp_path / "b.jsonl").write_bytes(lines(rows_of("b", 3)))

    def open_none(*_: Any) -> Any:
        raise FileNotFoundError(tmp_path / "a.jsonl")

    source = FileInput(tmp_path, Row, until="end")
    real = pa.fs.LocalFileSystem.open_input_file

    def gone(self: Any, path: str) -> Any:
        return open_none() if path.endswith("a.jsonl") else real(self, path)

    monkeypatch.setattr("ridgeline.operators.files._listing.resolve", lambda entry: (Files(gone), entry))
    run = run_local(application(source, on_error="SKIP"))
    assert by_file(run.collected("sink")) == {"b": [0, 1, 2]}
    [letter] = run.collected("letters")
    assert "a.jsonl` cannot be opened" in letter.error


class Files:
    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self._files = pa.fs.LocalFileSystem()

    def get_file_info(self, path: str) -> Any:
        return self._files.get_file_info(path)

    def open_input_file(self, path: str) -> Any:
        return self._opened(self._files, path)


def test_a_folder_with_a_file_of_no_known_format(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_bytes(b"1")
    with pytest.raises(RidgelineError, match=r"a.xyz.*give `format`"):
        run_local(application(FileInput(tmp_path, Row, until="end")))


@pytest.mark.parametrize("where", ["memory:", ""])
def test_the_list_of_files_that_were_read(where: str, tmp_path: Path) -> None:
    random, folder = Random(1), f"{where}{tmp_path}"
    seen, memory, expected = Seen(folder, None), None, {}
    for number in range(3000):
        name = f"file {number if random.random() < 0.9 else random.randrange(number + 1)}"
        expected[name] = random.randrange(1, 2**64)
        entries = [(hashed(name), expected[name])]
        memory = seen.remember(memory, entries)
        seen.add(entries)
        if number % 1000 == 999:
            memory = json.loads(json.dumps(memory))
            assert len(json.dumps(memory)) < 8_000
            seen = Seen(folder, memory)
    names = [*expected, "another"]
    assert dict(zip(names, seen.find(names), strict=True)) == {**expected, "another": 0}
    if not where:
        for file in tmp_path.glob("*.seen"):
            file.write_bytes(b"")
        with pytest.raises(RidgelineError, match="restore it"):
            Seen(folder, memory)


def test_arrow_streams_that_follow_each_other_are_read_to_the_end(tmp_path):
    path = tmp_path / "a.arrows"
    for numbers in ([1, 2], [3], []):
        table = pa.table({"n": pa.array(numbers, pa.int64())})
        with path.open("ab") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)

    class N(NamedTuple):
        n: int

    def found():
        app = Application("numbers")
        app.read("in", FileInput(path, N, until="end", settle=0.0)).write("out", CollectorSink(N))
        return run_local(app).collected("out")

    assert found() == [(1,), (2,), (3,)]
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(RidgelineError, match=r"a\.arrows` is no Arrow IPC file or corrupt, after row 3"):
        found()


class Noted(NamedTuple):
    id: int
    note: str | None


@pytest.mark.parametrize("form", ["parquet", "arrow", "avro", "csv"])
def test_a_column_that_a_file_lacks_is_null_if_it_may_be(tmp_path: Path, form: str) -> None:
    """So a folder to which a column was added is read on; a name that is misspelt is refused."""

    def found(*tables: pa.Table) -> list[Any]:
        for number, one in enumerate(tables):
            (tmp_path / f"{number}.{form}").write_bytes(written(one, form))
        source = FileInput(f"{tmp_path}/*.{form}", Noted, until="end")
        return sorted(run_local(application(source, kind=Noted)).collected("sink"))

    before = pa.table({"id": [1, 2]})
    after = pa.table({"note": ["a"], "more": ["b"], "id": [3]})
    assert found(before, after) == [(1, None), (2, None), (3, "a")]
    for wrong, what in (
        ({"id": [1], "noet": ["a"]}, "has no column `note`.* did you mean `noet`"),
        ({"note": ["a"]}, "has no column `id`"),
        ({"other": ["a"]}, "has no column `id`"),
    ):
        with pytest.raises(RidgelineError, match=what):
            found(pa.table(wrong))
    folder = tmp_path / "note=a"
    folder.mkdir()
    (folder / f"0.{form}").write_bytes(written(pa.table({"id": [1]}), form))
    (folder / "0.jsonl").write_text('{"id": 1}\n')
    for ending in (form, "jsonl"):
        source = FileInput(f"{tmp_path}/note=*/*.{ending}", Noted, until="end")
        with pytest.raises(RidgelineError, match="no column `note`, which is in the name of its folder"):
            run_local(application(source, kind=Noted))


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_column_that_a_file_has_twice_is_said(tmp_path: Path, form: str) -> None:
    ids = pa.array([1, 2])
    path = tmp_path / f"a.{form}"
    path.write_bytes(
        written(pa.Table.from_arrays([ids, ids, pa.array(["a", "b"])], ["id", "id", "note"]), form)
    )
    app = application(FileInput(path, Noted, until="end", settle=0.0), kind=Noted)
    with pytest.raises(RidgelineError, match=rf"a\.{form}` has the column `id` twice; write it once"):
        run_local(app)


class Quoted(NamedTuple):
    a: str
    b: str


def read_quoted(path: Path, *, on_error: OnError | None = None, **properties: object) -> list[Quoted]:
    app = Application("rows")
    attributes = {} if on_error is None else {"on_error": on_error}
    source = FileInput(path, Quoted, until="end", settle=0.0, null_values=["-"], **properties)  # type: ignore[arg-type]
    rows = app.add_operator("rows", source, **attributes)
    sink = app.add_operator("sink", CollectorSink(Quoted))
    app.add_stream("rows", rows.output, sink.input)
    faults = Faults(seed=1, rate=0.1, kinds=("exception", "repeat", "restart"), quiet=True)
    return run_local(app, faults=faults).collected("sink")


@pytest.mark.parametrize("seed", range(deep(2)))
def test_rows_are_those_of_pythons_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)
    monkeypatch.setattr(_lines, "BLOCK_BYTES", random.choice([3, 17, 2**18]))
    monkeypatch.setattr(_lines, "HEAD_BYTES", 5)
    letters = ['"', '""', ",", "x", " ", "é", "\n", "\r\n", "\n\n", "1"]
    wanted = []
    text = io.StringIO(newline="")
    writer = csv.writer(
        text,
        lineterminator=random.choice(["\n", "\r\n"]),
        quoting=random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    )
    writer.writerow(["a", "b"])
    for _ in range(120):
        wanted.append(Quoted(*("".join(random.choices(letters, k=random.randrange(1, 7))) for _ in "ab")))
        writer.writerow(wanted[-1])
    path = tmp_path / random.choice(["a.csv", "a.csv.gz"])
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    assert list(csv.reader(io.StringIO(data.decode(), newline=""))) == [["a", "b"], *map(list, wanted)]
    assert read_quoted(path, window_bytes=random.choice([50, 500, 10**6])) == wanted


def test_a_quote_that_is_not_closed_takes_its_line_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\nx,1\n"y,2\nz,3\n')
    assert read_quoted(path, on_error=OnError.SKIP) == [("x", "1"), ("z", "3")]
    monkeypatch.setattr(_lines, "LONGEST_BYTES", 1000)
    path.write_text('a,b\nx,1\n"y,2\n' + "z,3\n" * 1000)
    assert read_quoted(path, on_error=OnError.SKIP) == [("x", "1"), *[("z", "3")] * 1000]

"""Files of an SFTP server, read and written; a real server on loopback."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow.fs
import pytest

from ridgeline import Application, RidgelineError
from ridgeline.api.support.files import resolve
from ridgeline.api.support.sftp import close_connections
from ridgeline.operators import FileInput, FileOutput
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.sftp_server import PASSWORD, SftpServer
from support.testing.shares import share


class Row(NamedTuple):
    n: int
    text: str


ROWS = [Row(n, f"müller {n}") for n in range(400)]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SftpServer]:
    made = SftpServer(tmp_path / "server")
    monkeypatch.setenv("SFTP_KEY", str(made.client_key))
    monkeypatch.setenv("SFTP_KNOWN_HOSTS", str(made.known_hosts))
    yield made
    close_connections()
    made.close()


def lines(rows: list[Row]) -> bytes:
    return "".join(json.dumps(row._asdict()) + "\n" for row in rows).encode()


@pytest.mark.parametrize(("format", "partitions"), share(2, ["parquet", "jsonl"], [1, 3]))
def test_files_to_files(server: SftpServer, partitions: int, format: str) -> None:
    folder = server.root / "in put"
    folder.mkdir()
    for number in range(4):
        part = ROWS[number * 100 : number * 100 + 100]
        (folder / f"{number}.jsonl.gz").write_bytes(
            gzip.compress(lines(part[:50])) + gzip.compress(lines(part[50:]))
        )
    (folder / "later.jsonl.gz.tmp").write_bytes(b"not whole")
    app = Application("copy")
    source = FileInput(f"{server.uri}/in%20put/*.jsonl.gz", Row, until="end")
    app.read("source", source, partitions=partitions).write(
        "out", FileOutput(f"{server.uri}/out", format=format), partitions=partitions
    )
    run_local(app)
    [*files] = (server.root / "out").glob(f"*.{format}")
    read = pl.read_parquet if format == "parquet" else pl.read_ndjson
    assert sorted(row for file in files for row in read(file).rows()) == ROWS


def test_a_run_moves_to_a_local_disk(server: SftpServer, tmp_path: Path) -> None:
    outputs = (
        FileOutput(f"{server.uri}/out", format="jsonl", roll_seconds=100),
        FileOutput(tmp_path / "out", format="jsonl"),
    )
    for number, output in enumerate(outputs):
        app = Application("copy", window="1s")
        items = [one for row in ROWS[:40] for one in (row, END_WINDOW)]
        app.read("source", ListInput(Row, items)).write("out", output)
        run_local(app, checkpoint=tmp_path / "state", windows=None if number else 5)
    found = [
        Row(**json.loads(line))
        for folder in (server.root / "out", tmp_path / "out")
        for path in folder.glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert sorted(found) == ROWS[:40]


def test_a_server_that_goes_away_is_waited_for(server: SftpServer) -> None:
    for number in range(4):
        (server.root / f"{number}.jsonl").write_bytes(lines(ROWS[number * 100 : number * 100 + 100]))
    away, again = threading.Event(), threading.Timer(0.5, server.start)

    def seen(row: Row) -> Row:
        if not away.is_set():
            away.set()
            server.stop()
            again.start()
        return row

    app = Application("read")
    source = FileInput(f"{server.uri}/*.jsonl", Row, until="end", window_bytes=100)
    app.read("source", source).map("seen", seen).write("sink", CollectorSink(Row))
    assert sorted(run_local(app).collected("sink")) == ROWS
    assert away.is_set()
    assert server.logins > 1
    again.join()


@pytest.mark.parametrize("partitions", [1, 3])
def test_an_output_whose_server_goes_away_waits_for_it(
    server: SftpServer, partitions: int, tmp_path: Path
) -> None:
    """It goes while windows are written, and before one of them is published."""
    items = [one for row in ROWS[:60] for one in (row, END_WINDOW)]
    stops, again = [10, 30], []

    def seen(row: Row) -> Row:
        if stops and row.n >= stops[0]:
            stops.pop(0)
            server.stop()
            again.append(threading.Timer(0.7, server.start))
            again[-1].start()
        return row

    app = Application("write", window="1s")
    rows = app.read("source", ListInput(Row, items)).map("seen", seen)
    out = FileOutput(f"{server.uri}/out", format="jsonl", roll_seconds=2)
    rows.write("out", out, partitions=partitions)
    run_local(app, checkpoint=tmp_path / "state")
    for timer in again:
        timer.join()
    assert len(again) == 2
    lines = [line for path in (server.root / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert sorted(Row(**json.loads(line)) for line in lines) == ROWS[:60]


def test_a_file_of_a_connection_that_broke_leaves_the_next_one(server: SftpServer) -> None:
    for name in ("one", "other"):
        (server.root / name).write_bytes(bytes(100_000))
    files, _ = resolve(f"{server.uri}/")
    before = files.open_input_stream("/one")
    server.stop()
    server.start()
    with pytest.raises(ConnectionError, match="does not answer"):
        before.read(10)
    after = files.open_input_stream("/other")
    with pytest.raises(ConnectionError, match="does not answer"):
        before.read(10)
    assert len(after.read()) == 100_000
    assert server.logins == 2


def test_who_is_refused_learns_what_to_do(
    server: SftpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(uri: str) -> None:
        app = Application("write")
        app.read("source", ListInput(Row, ROWS[:1])).write("out", FileOutput(uri))
        run_local(app)

    other = SftpServer(tmp_path / "other")
    monkeypatch.setenv("SFTP_KEY", str(other.client_key))
    with pytest.raises(RidgelineError, match=r"refuses the user.*`SFTP_KEY`.*`SFTP_PASSWORD`"):
        start(f"{server.uri}/out")
    with pytest.raises(RidgelineError, match=r"key of .* is not known.*known_hosts"):
        start(f"{other.uri}/out")
    other.close()
    with pytest.raises(RidgelineError, match="names no host"):
        start("sftp:///out")
    with pytest.raises(RidgelineError, match="has a password in it") as caught:
        start("sftp://ann:hush@127.0.0.1/out")
    assert "hush" not in str(caught.value)
    server.stop()
    with pytest.raises(RidgelineError, match="does not answer"):
        start(f"{server.uri}/out")


def test_a_password_may_be_in_a_file(
    server: SftpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SftpServer(tmp_path / "other")
    other.close()
    monkeypatch.setenv("SFTP_KEY", str(other.client_key))
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    monkeypatch.setenv("SFTP_PASSWORD", f"file:{tmp_path}/password")
    app = Application("write")
    app.read("source", ListInput(Row, ROWS[:3])).write("out", FileOutput(f"{server.uri}/out"))
    run_local(app)
    assert pl.read_parquet(server.root / "out/*.parquet").height == 3


def test_what_pyarrow_asks_of_it(server: SftpServer) -> None:
    files, root = resolve(f"{server.uri}/a%20b")
    kinds = pyarrow.fs.FileType
    assert root == "/a b"
    assert files.get_file_info(root).type == kinds.NotFound
    assert files.get_file_info(pyarrow.fs.FileSelector(root, allow_not_found=True)) == []
    with pytest.raises(FileNotFoundError):
        files.get_file_info(pyarrow.fs.FileSelector(root))
    files.create_dir(f"{root}/x/y", recursive=True)
    data = bytes(range(256)) * 20_000
    with files.open_output_stream(f"{root}/x/one") as out:
        out.write(data[:100])
        out.write(data[100:])
    with files.open_input_file(f"{root}/x/one") as found:
        assert (found.size(), found.read()) == (len(data), data)
        found.seek(1_000_001)
        assert found.read(3) == data[1_000_001:1_000_004]
        assert found.read_at(5, 77) == data[77:82]
    files.copy_file(f"{root}/x/one", f"{root}/two")
    files.move(f"{root}/x/one", f"{root}/two")
    (server.root / "a b/x/nowhere").symlink_to("/none")
    (server.root / "a b/x/link").symlink_to(server.root / "a b/two")
    every = files.get_file_info(pyarrow.fs.FileSelector(root, recursive=True))
    shown = {info.path: (info.type, info.size) for info in every if "link" not in info.path}
    whole = kinds.File, len(data)
    assert shown == {
        f"{root}/x": (kinds.Directory, None),
        f"{root}/x/y": (kinds.Directory, None),
        f"{root}/two": whole,
    }
    assert len(files.get_file_info(pyarrow.fs.FileSelector(root))) == 2
    for wrong in (f"{root}/gone", f"{root}/gone/deeper"):
        with pytest.raises(FileNotFoundError):
            files.open_input_stream(wrong)
        with pytest.raises(FileNotFoundError):
            files.delete_file(wrong)
        with pytest.raises(FileNotFoundError):
            files.move(wrong, f"{root}/two")
    files.delete_dir_contents(root)
    assert files.get_file_info(pyarrow.fs.FileSelector(root)) == []
    files.delete_dir(root)
    assert not (server.root / "a b").exists()

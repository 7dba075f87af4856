"""Patterns and addresses of files on an S3: as `glob` has them on a disk."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.fs
import pytest

from ridgeline import Application, RidgelineError
from ridgeline.operators import FileInput, FileReplayInput
from ridgeline.testing import CollectorSink, run_local, services
from support.services import SeaweedFS
from support.services.fixtures import ready, seaweedfs

__all__ = ["seaweedfs"]


class Row(NamedTuple):
    text: str


NAMES = [
    "1.txt",
    "a/2.txt",
    "a/b/3.txt",
    "a/b/c/file-4.txt",
    "file-5.txt",
    "file-#6.txt",
    ".no/7.txt",
    "a/.8.txt",
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, str]]:
    """The same files on a disk and in a bucket, and the settings of the bucket's server."""
    store = ready(services.seaweedfs)
    bucket = store.bucket()
    folder = tmp_path_factory.mktemp("files")
    there, _ = pyarrow.fs.FileSystem.from_uri(store.uri(bucket))
    for name in NAMES:
        (folder / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in" / name).write_text(name)
        with there.open_output_stream(f"{bucket}/in/{name}") as out:
            out.write(name.encode())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in store.addresses().items():
            patch.setenv(name, value)
        yield folder, bucket, store.uri(bucket).partition("?")[2]


def texts(source: FileInput[Row] | FileReplayInput[Row]) -> list[str]:
    app = Application("read")
    app.read("source", source).write("sink", CollectorSink(Row))
    return sorted(row.text for row in run_local(app).collected("sink"))


@pytest.mark.parametrize(
    "pattern",
    [
        "**/*.txt",
        "**",
        "*.txt",
        "*/*.txt",
        "file-?.txt",
        "**/file-?.txt",
        "a/**/b/*.txt",
        "[0-9].txt",
        "file-#6.txt",
    ],
)
def test_a_pattern_means_the_same_as_on_a_disk(files: tuple[Path, str, str], pattern: str) -> None:
    folder, bucket, _ = files
    found = glob.glob(str(folder / "in" / pattern), recursive=True)  # noqa: PTH207  it is what counts
    expected = sorted(str(Path(path).relative_to(folder / "in")) for path in found if Path(path).is_file())
    assert expected
    uri = f"s3://{bucket}/in/{pattern}"
    assert texts(FileInput(uri, Row, format="text", until="end")) == expected
    assert texts(FileReplayInput(uri, Row, format="text")) == expected
    assert texts(FileInput(str(folder / "in" / pattern), Row, format="text", until="end")) == expected


def test_an_address_may_have_settings(files: tuple[Path, str, str]) -> None:
    _, bucket, settings = files
    uri = f"s3://{bucket}/in/*.txt?{settings}"
    assert texts(FileInput(uri, Row, until="end")) == ["1.txt", "file-#6.txt", "file-5.txt"]


class Numbered(NamedTuple):
    id: int


def rows_of(path: str) -> list[Numbered]:
    app = Application("rows")
    app.read("source", FileInput(path, Numbered, until="end")).write("sink", CollectorSink(Numbered))
    return run_local(app).collected("sink")


@pytest.mark.slow
def test_who_is_refused_learns_what_to_do(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting would not fix it."""
    bucket = seaweedfs.bucket()
    files, _ = pyarrow.fs.FileSystem.from_uri(seaweedfs.uri(bucket))
    with files.open_output_stream(f"{bucket}/in/a.jsonl") as file:
        file.write(b'{"id": 1}\n')
    for name, value in seaweedfs.addresses().items():
        monkeypatch.setenv(name, value)
    places = [f"s3://{bucket}/in/*.jsonl", f"s3://{bucket}/in", f"s3://{bucket}/in/a.jsonl"]
    for place in places:
        assert rows_of(place) == [(1,)]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wr0ng-word")
    for place in places:
        with pytest.raises(RidgelineError, match="check the keys") as raised:
            rows_of(place)
        assert "wr0ng-word" not in str(raised.value)

"""What a power cut may take: files are synced before they are reported or renamed, folders after."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from ridgeline.connect.output_files import OutputFiles
from ridgeline.operators import FileOutput
from support.operators.publishing import Driver, Store


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files and folders as they are synced, renamed or deleted."""
    happened: list[str] = []
    move, delete = OutputFiles.move, OutputFiles.delete

    def fsync(descriptor: int) -> None:
        happened.append(f"sync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")  # noqa: PTH115

    def moved(files: OutputFiles, source: str, target: str) -> None:
        happened.append(f"move {Path(source).name} {Path(target).name}")
        move(files, source, target)

    def deleted(files: OutputFiles, path: str) -> None:
        happened.append(f"delete {Path(path).name}")
        delete(files, path)

    monkeypatch.setattr("os.fsync", fsync)
    monkeypatch.setattr(OutputFiles, "move", moved)
    monkeypatch.setattr(OutputFiles, "delete", deleted)
    return happened


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs to know what a descriptor is of")
def test_the_order_of_syncs_outlives_a_power_cut(tmp_path: Path, synced: list[str]) -> None:
    store = Store(tmp_path / "out", partitions=2)
    driver = Driver(store, FileOutput(path=store.folder, format="jsonl", roll_seconds=0))
    assert synced[:4] == ["sync out-run1", "sync .ridgeline", "sync out", f"sync {tmp_path.name}"]
    synced.clear()
    driver.window()
    first, second = "w0000000000-p0-a1001.segment", "w0000000000-p1-a1001.segment"
    assert synced[: synced.index("move published--1 published-0") + 1] == [
        f"sync {first}",
        f"sync {second}",
        "sync out-run1",
        "sync merged-e1.tmp",
        "move merged-e1.tmp out-run1-0000000000-0000000000.jsonl",
        "sync out",
        "move published--1 published-0",
    ]
    assert synced[synced.index("move published--1 published-0") + 1 :][:2] == [
        f"delete {first}",
        f"delete {second}",
    ]


def test_a_checksum_covers_name_and_bytes_however_they_are_written(tmp_path: Path) -> None:
    files = OutputFiles(str(tmp_path))
    with files.writing(f"{tmp_path}/a") as out:
        out.write(b"one")
        out.write(memoryview(b"two"))
    assert (out.size, out.crc32) == (6, zlib.crc32(b"aonetwo"))
    assert files.checksum(f"{tmp_path}/a", "a") == out.crc32
    assert files.checksum(f"{tmp_path}/a", "b") != out.crc32
    assert files.sizes(str(tmp_path)) == {"a": 6}

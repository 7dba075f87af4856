"""Which archive of classes a JVM is started with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ridgeline.engine.spark.session import SWITCH, archive_options


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(SWITCH, raising=False)
    return tmp_path / "ridgeline"


def _written(options: list[str]) -> Path:
    [option] = [option for option in options if option.startswith("-XX:ArchiveClassesAtExit=")]
    return Path(option.partition("=")[2])


def test_the_first_jvm_writes_the_archive_that_later_ones_use(cache: Path) -> None:
    written = _written(archive_options(["-Xss16m"]))
    assert written.parent == cache
    written.write_bytes(b"\0" * 8)
    assert archive_options(["-Xss16m"]) == [], "not complete: its first bytes come last"
    written.write_bytes(b"archive!")
    [used, *_] = archive_options(["-Xss16m"])
    archive = Path(used.removeprefix("-XX:SharedArchiveFile="))
    assert archive.read_bytes() == b"archive!"
    assert not written.exists()
    assert archive_options(["-Xss16m"])[0] == used
    assert _written(archive_options(["-Xss32m"])), "other options are another archive"


def test_of_jvms_that_start_together_one_writes_the_archive(cache: Path) -> None:
    written = _written(archive_options([]))
    assert written.exists(), "which tells the others"
    assert archive_options([]) == []
    os.utime(written, (0, 0))
    assert _written(archive_options([])), "the first one runs for long"


def test_what_a_killed_jvm_left_is_removed(cache: Path) -> None:
    written = _written(archive_options([]))
    written.write_bytes(b"\0" * 8)
    os.utime(written, (0, 0))
    assert _written(archive_options([])).read_bytes() == b""


def test_archives_that_were_not_used_for_long_are_removed_but_for_the_last_ones(cache: Path) -> None:
    kept = []
    for number in range(8):
        written = _written(archive_options([f"-Xss{number}m"]))
        written.write_bytes(b"archive!")
        [used, *_] = archive_options([f"-Xss{number}m"])
        kept.append(Path(used.removeprefix("-XX:SharedArchiveFile=")))
    assert all(path.is_file() for path in kept), "all were used just now"
    for number, path in enumerate(kept):
        os.utime(path, (1_000 + number, 1_000 + number))
    left_by_others = cache / "spark-00000000.4711"
    left_by_others.write_bytes(b"never asked for again")
    os.utime(left_by_others, (0, 0))
    (cache / "flights.csv").write_bytes(b"no archive")
    archive_options(["-Xss0m"])
    left = set(cache.iterdir())
    assert left == {kept[0], *kept[-3:], cache / "flights.csv"}


def test_no_archive_where_it_is_switched_off_or_cannot_be(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("no folder", encoding="utf-8")
    assert archive_options([]) == []
    cache.unlink()
    monkeypatch.setenv(SWITCH, "off")
    assert archive_options([]) == []


def test_a_folder_that_others_can_write_to_is_refused(cache: Path) -> None:
    written = _written(archive_options([]))
    written.write_bytes(b"archive!")
    cache.chmod(0o777)
    with pytest.warns(
        RuntimeWarning, match=r"the archive of Spark's classes is refused: .* can be written by others"
    ):
        assert archive_options([]) == []
    cache.chmod(0o755)
    assert archive_options([])[0].startswith("-XX:SharedArchiveFile=")
    assert (cache.stat().st_mode & 0o777, [path.stat().st_mode & 0o777 for path in cache.iterdir()]) == (
        0o700,
        [0o600],
    )

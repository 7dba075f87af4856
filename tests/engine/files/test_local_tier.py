"""Runs of a distant checkpoint are mapped from copies on this host."""

import os
from concurrent.futures import ThreadPoolExecutor

import pyarrow.fs
import pytest

from ridgeline.engine.files import storage as module
from ridgeline.engine.files.local_tier import LocalTier
from ridgeline.engine.files.storage import ArrowStorage, DriverStorage, LocalStorage


class Far(ArrowStorage, DriverStorage):
    """Reached through pyarrow as by workers, and by the driver of a run in process too."""

    def create(self, name, data, *, settled=""):
        return LocalStorage(self._base).create(name, data, settled=settled)


@pytest.fixture
def far(tmp_path, monkeypatch):
    """A storage that is not on a local disk, as far as it knows; copies go below `near`."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/near")
    monkeypatch.setattr(
        module,
        "resolve",
        lambda uri: (pyarrow.fs.LocalFileSystem(), f"{tmp_path}/{uri.removeprefix('far://')}"),
    )
    return Far("far://checkpoint")


def copies(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def tier(far, tmp_path):
    return LocalTier(far, tmp_path / "near", limit=10_000)


def test_a_file_is_copied_once(far, tier):
    far.write("state/a", b"abc")
    assert bytes(tier.map("state/a")) == b"abc"
    far.delete(["state/a"])
    assert bytes(tier.map("state/a")) == b"abc"
    assert copies(tier.folder) == ["a"]
    with pytest.raises(FileNotFoundError):
        tier.map("state/b")
    assert copies(tier.folder) == ["a"]


def test_several_that_copy_at_once_see_the_whole_file(far, tier):
    far.write("state/a", bytes(5_000_000))
    tiers = [LocalTier(far, tier.folder) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda each: len(each.map("state/a")), tiers))
    assert found == [5_000_000] * 8
    assert copies(tier.folder) == ["a"]


def test_what_was_not_opened_for_longest_makes_room(far, tier):
    for name in "abc":
        far.write(f"state/{name}", bytes(4_000))
    held = [tier.map("state/a"), tier.map("state/b")]
    for name in "ab":
        os.utime(tier.folder / name, (1, 1))
    tier.map("state/a")
    tier.map("state/c")
    assert copies(tier.folder) == ["a", "c"]
    assert bytes(held[1]) == bytes(4_000)


def test_what_a_killed_process_left_is_removed(far, tier):
    tier.folder.mkdir()
    (tier.folder / ".99999999-half").write_bytes(b"x")
    far.write("state/a", b"abc")
    tier.map("state/a")
    assert copies(tier.folder) == ["a"]

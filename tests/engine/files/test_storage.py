import os
from concurrent.futures import ThreadPoolExecutor

import pyarrow.fs
import pytest

from ridgeline import CheckpointError
from ridgeline.engine.files import storage as module
from ridgeline.engine.files.local_tier import LocalTier
from ridgeline.engine.files.storage import (
    ArrowStorage,
    DriverStorage,
    LocalStorage,
    MemoryStorage,
    Storage,
    open_storage,
)


@pytest.fixture(params=["local", "arrow", "memory"])
def storage(request, tmp_path, monkeypatch) -> Storage:
    """All storages must behave the same; the arrow one has a local folder behind a name that is not local."""
    if request.param == "local":
        return LocalStorage(str(tmp_path / "checkpoint"))
    if request.param == "memory":
        return MemoryStorage()
    monkeypatch.setattr(
        module,
        "resolve",
        lambda uri: (pyarrow.fs.LocalFileSystem(), f"{tmp_path}/{uri.removeprefix('far://')}"),
    )
    return ArrowStorage("far://checkpoint/")


@pytest.mark.parametrize("name", ["state/a", "top"])
def test_a_missing_file_is_not_found(storage, name):
    with pytest.raises(FileNotFoundError):
        storage.read(name)


def test_names_are_those_of_files_directly_in_a_folder(storage):
    assert storage.names("state") == []
    for name in ("state/b", "state/a", "state/below/c", "statement/d", "other"):
        storage.write(name, b"x")
    assert storage.names("state") == ["a", "b"]
    assert storage.names("nowhere") == []


@pytest.mark.parametrize("kind", ["local", "memory"])
@pytest.mark.parametrize("name", ["epochs/1", "run.json"])
@pytest.mark.parametrize("data", [b"", b"x", b"something longer"])
def test_create_leaves_what_is_there(kind, tmp_path, name, data):
    storage = LocalStorage(str(tmp_path)) if kind == "local" else MemoryStorage()
    assert storage.create(name, data) is True
    assert storage.create(name, data) is False
    assert storage.create(name, b"other") is False
    assert storage.read(name) == data
    folder, _, last = name.rpartition("/")
    if folder:
        assert storage.names(folder) == [last]


def test_delete_passes_over_what_is_not_there(storage):
    storage.write("state/a", b"x")
    storage.write("state/b", b"x")
    storage.delete(f"state/{name}" for name in ("a", "nothing"))
    storage.delete(["nowhere/a"])
    assert storage.names("state") == ["b"]


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_one_of_eight_threads_creates(kind, tmp_path):
    storage = LocalStorage(str(tmp_path)) if kind == "local" else MemoryStorage()
    with ThreadPoolExecutor(8) as pool:
        for name in (f"epochs/{number}" for number in range(30)):
            outcomes = list(pool.map(lambda n, name=name: storage.create(name, b"%d" % n), range(8)))
            assert outcomes.count(True) == 1
            assert storage.read(name) == b"%d" % outcomes.index(True)


def test_paths_and_file_uris_lie_on_the_local_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_storage(f"file://{tmp_path}/a").uri == f"{tmp_path}/a"
    assert open_storage("a").uri == f"{tmp_path}/a"
    assert isinstance(open_storage("a"), LocalStorage)


def test_what_cannot_be_reached_is_told():
    with pytest.raises(CheckpointError, match=r"^checkpoint folder `nowhere://a` cannot be reached; "):
        open_storage("nowhere://a")


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

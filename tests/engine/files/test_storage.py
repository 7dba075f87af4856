from concurrent.futures import ThreadPoolExecutor

import pyarrow.fs
import pytest

from ridgeline import CheckpointError
from ridgeline.engine.files import storage as module
from ridgeline.engine.files.storage import ArrowStorage, LocalStorage, MemoryStorage, Storage, open_storage


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

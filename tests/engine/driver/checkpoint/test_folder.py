import errno
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from ridgeline import Application, CheckpointError
from ridgeline.api.errors import FencedError
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.state_repair import StateRepair
from ridgeline.engine.files.storage import LocalStorage, MemoryStorage, Storage
from ridgeline.plan.planner import plan_application
from ridgeline.testing import CollectorSink, ListInput


def manifest(window_id: int, states=None, epoch: int = 1) -> Manifest:
    return Manifest(window_id, epoch, 0, states or {}, [], {}, False)


def write_state(storage: Storage, *names: str) -> None:
    for name in names:
        storage.write(f"state/{name}", b"x")


def state(window_id: int, attempt: str = "a") -> str:
    return f"{window_id:012d}-{attempt}"


@pytest.fixture(params=["local", "local without locks", "memory"])
def storage(request, tmp_path, monkeypatch) -> Storage:
    if request.param == "local without locks":

        def flock(_file, _operation):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr("fcntl.flock", flock)
    return MemoryStorage() if request.param == "memory" else LocalStorage(str(tmp_path))


def reopened(checkpoint: Checkpoint, application: str = "app") -> Checkpoint:
    checkpoint.close()
    return Checkpoint(checkpoint.storage, application)


def test_a_folder_of_another_application_is_refused_and_given_back(storage):
    Checkpoint(storage, "app").close()
    with pytest.raises(CheckpointError) as error:
        Checkpoint(storage, "other")
    assert str(error.value) == (
        f"checkpoint folder `{storage.uri}` belongs to application `app`; this is `other`; "
        f"give another `--checkpoint`"
    )
    Checkpoint(storage, "app").close()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}"])
def test_a_corrupt_description_of_the_run_is_reported(storage, text):
    storage.write("run.json", text)
    with pytest.raises(
        CheckpointError,
        match=r"run\.json` is corrupt: .*; restore it from a copy, or give another `--checkpoint`$",
    ):
        Checkpoint(storage, "app")


def test_a_second_driver_on_a_local_folder_is_refused(tmp_path):
    first = Checkpoint(LocalStorage(str(tmp_path)), "app")
    with pytest.raises(CheckpointError) as error:
        Checkpoint(LocalStorage(str(tmp_path)), "app")
    host = os.uname().nodename
    assert str(error.value) == (
        f"checkpoint folder `{tmp_path}` is in use by process {os.getpid()} on {host}; stop "
        f"it first, or give another `--checkpoint`"
    )
    first.commit(manifest(0))
    first.close()
    Checkpoint(LocalStorage(str(tmp_path)), "app").close()


def test_without_a_lock_the_first_driver_is_fenced():
    storage = MemoryStorage()
    first = Checkpoint(storage, "app")
    first.commit(manifest(0))
    second = Checkpoint(storage, "app")
    with pytest.raises(
        FencedError,
        match=r"^checkpoint folder `memory:` was taken over by another driver; this one stops, "
        r"nothing is lost$",
    ):
        first.commit(manifest(1))
    assert second.last() == manifest(0)
    second.commit(manifest(1, epoch=2))
    assert reopened(second).last().epoch == 2


def test_a_window_is_committed_once():
    storage = MemoryStorage()
    checkpoint = Checkpoint(storage, "app")
    checkpoint.commit(manifest(0))
    with pytest.raises(
        FencedError,
        match=r"^window 0 was committed to `memory:` by another driver; this one stops, nothing is lost$",
    ):
        checkpoint.commit(manifest(0))


def test_drivers_that_start_at_once_never_share_an_epoch():
    storage = MemoryStorage()
    with ThreadPoolExecutor(8) as pool:
        drivers = list(pool.map(lambda _: Checkpoint(storage, "app"), range(8)))
    assert len({driver.epoch for driver in drivers}) == 8
    assert len({driver.run_id for driver in drivers}) == 1
    outcomes = []
    for driver in drivers:
        try:
            driver.commit(manifest(0))
        except FencedError:
            outcomes.append("fenced")
        else:
            outcomes.append("committed")
    assert outcomes.count("committed") == 1


# Purge ------------------------------------------------------------------------------------------------------


def test_purge_keeps_what_the_kept_windows_need(storage):
    checkpoint = Checkpoint(storage, "app")
    for window_id in range(20):
        chain = [state(0), *(state(w) for w in range(10, window_id + 1))]  # an old snapshot and deltas since
        write_state(storage, state(window_id), state(window_id, "failed"))
        checkpoint.commit(manifest(window_id, {"op/0/1": chain}))
        checkpoint.purge(3)
    windows = [window.window_id for window in checkpoint.kept()]
    assert windows[:3] == [19, 18, 17]
    left = set(storage.names("state"))
    assert {state(0), *(state(w) for w in range(10, 20))} <= left
    assert all(int(name[:12]) > 19 - 2 * 3 - 1 for name in left if name.endswith("failed"))
    checkpoint = reopened(checkpoint)
    assert checkpoint.last() == manifest(19, {"op/0/1": (state(0), *(state(w) for w in range(10, 20)))})
    checkpoint.close()


def test_leftovers_of_attempts_that_were_not_committed_go_after_the_next_commit(storage):
    checkpoint = Checkpoint(storage, "app")
    write_state(storage, state(0), state(0, "b"), state(1), state(2), state(2, "b"))
    checkpoint.commit(manifest(0, {"op/0/1": [state(0)]}))
    checkpoint.commit(manifest(1, {"op/0/1": [state(0), state(1)]}))
    checkpoint = reopened(checkpoint)
    write_state(storage, state(2, "c"), state(3, "of another driver"))
    checkpoint.commit(manifest(2, {"op/0/1": [state(0), state(1), state(2, "c")]}))
    checkpoint.purge(5)
    assert storage.names("state") == [state(0), state(1), state(2, "c"), state(3, "of another driver")]
    checkpoint.close()


def test_purge_after_a_restart_knows_what_the_old_windows_need(storage):
    checkpoint = Checkpoint(storage, "app")
    write_state(storage, state(0))
    for window_id in range(4):
        checkpoint.commit(manifest(window_id, {"op/0/1": [state(0)]}))
    checkpoint = reopened(checkpoint)
    for window_id in range(4, 8):
        checkpoint.commit(manifest(window_id, {"op/0/1": [state(0)]}))
        checkpoint.purge(1)
    assert storage.names("state") == [state(0)]
    checkpoint.close()


# Trouble with the disk --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.ENOSPC, "no space is left; free some room"),
        (errno.EDQUOT, "no space is left; free some room"),
        (errno.EACCES, "it cannot be written; give this user the right to write there"),
        (errno.EROFS, "it cannot be written; give this user the right to write there"),
        (errno.EIO, "OSError: [Errno 5] bad; fix it"),
    ],
)
def test_what_the_disk_says_is_explained_and_nothing_is_lost(storage, monkeypatch, number, text):
    checkpoint = Checkpoint(storage, "app")
    checkpoint.commit(manifest(0))

    def create(name, data, *, settled=""):
        raise OSError(number, "bad")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "create", create)
        patch.setattr(os, "fdatasync", lambda _file: create("", b""))
        with pytest.raises(CheckpointError) as error:
            checkpoint.commit(manifest(1))
    rest = "and run again with the same `--checkpoint`; it goes on from the last committed window"
    assert str(error.value) == f"checkpoint folder `{storage.uri}`: {text} {rest}"
    assert checkpoint.last() == manifest(0)
    checkpoint.commit(manifest(1))
    checkpoint = reopened(checkpoint)
    assert checkpoint.last() == manifest(1)
    checkpoint.close()


def test_a_folder_below_a_file_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in ("file", "file/below", "file/further/below"):
        with pytest.raises(CheckpointError) as error:
            Checkpoint(LocalStorage(str(tmp_path / folder)), "app")
        assert str(error.value) == (
            f"`{tmp_path}/file` is a file; a checkpoint is a folder: give another `--checkpoint`"
        )


def test_a_full_disk_leaves_no_half_record(tmp_path, monkeypatch):
    storage = LocalStorage(str(tmp_path))

    def sync(_file):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        with pytest.raises(CheckpointError, match="no space is left"):
            Checkpoint(storage, "app")
        assert [*tmp_path.glob("journal/*"), *tmp_path.glob("journal/.*")] == []
    checkpoint = Checkpoint(storage, "app")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", sync)
        with pytest.raises(CheckpointError, match="no space is left"):
            checkpoint.commit(manifest(0))
    checkpoint.commit(manifest(0))
    checkpoint = reopened(checkpoint)
    assert checkpoint.last() == manifest(0)
    checkpoint.close()


def test_whatever_fails_a_displaced_driver_knows_why():
    storage = MemoryStorage()
    first = Checkpoint(storage, "app")
    missing = CheckpointError("a state file is missing")
    assert first.taken_over(missing) is None
    second = Checkpoint(storage, "app")
    found = first.taken_over(missing)
    assert isinstance(found, FencedError)
    assert "was taken over by another driver; this one stops, nothing is lost" in str(found)
    assert first.taken_over(found) is None  # it says so already
    assert second.taken_over(missing) is None
    second.close()


def test_a_driver_that_lost_the_checkpoint_says_so_and_not_that_files_are_missing():
    app = Application("app")
    source, sink = (
        app.add_operator("source", ListInput(object, [1])),
        app.add_operator("sink", CollectorSink()),
    )
    app.add_stream("numbers", source.output, sink.input)
    storage = MemoryStorage()
    checkpoint = Checkpoint(storage, "app")
    repair = StateRepair(plan_application(app), checkpoint)
    assert repair.repair({}) == []
    Checkpoint(storage, "app")
    with pytest.raises(FencedError, match="was taken over by another driver"):
        repair.repair({0: ("000000000000-c0-e1-r0-t0",)})

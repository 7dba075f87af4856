"""Checkpoint folders of which something is missing, older, or of another name."""

import contextlib
import json

import pytest

from ridgeline import CheckpointError
from ridgeline.api.errors import FencedError
from ridgeline.engine.driver.checkpoint import Checkpoint
from ridgeline.engine.driver.manifest import Manifest
from ridgeline.engine.state.storage import LocalStorage, MemoryStorage


def manifest(window_id, states=None, epoch=1):
    return Manifest(window_id, epoch, 0, states or {}, [], {}, False, "")


@pytest.fixture(params=["local", "memory"])
def storage(request, tmp_path):
    """A folder in which three windows were committed."""
    storage = LocalStorage(str(tmp_path)) if request.param == "local" else MemoryStorage()
    checkpoint = Checkpoint(storage, "app")
    for window_id in range(3):
        storage.write(f"state/{window_id:012d}-c0-e1-r0-t0", b"x")
        checkpoint.commit(manifest(window_id, {"op/0/1": [f"{window_id:012d}-c0-e1-r0-t0"]}))
        checkpoint.purge(5)
    checkpoint.close()
    return storage


def refusal(storage):
    with (
        pytest.raises(CheckpointError) as error,
        contextlib.closing(Checkpoint(storage, "app")) as checkpoint,
    ):
        checkpoint.last()
    return str(error.value)


def overwrite(storage, name, data):
    storage.delete([name])
    storage.write(name, data)


def test_a_flipped_id_of_the_run_is_reported(storage):
    data = storage.read("run.json")
    run_id = json.loads(data)["run"]["run_id"].encode()
    other = bytes([run_id[0] ^ 1]) + run_id[1:]
    overwrite(storage, "run.json", data.replace(run_id, other))
    assert refusal(storage) == (
        f"`{storage.uri}/run.json` is corrupt: its checksum differs, so it is damaged or a "
        f"copy of another file; "
        "restore it from a copy, or give another `--checkpoint`"
    )


def test_a_missing_description_is_no_new_run(storage):
    storage.delete(["run.json"])
    assert refusal(storage) == (
        f"`{storage.uri}/run.json` is missing, but the folder holds a run "
        f"(`manifests/000000000000.json`), whose id names its outputs; "
        "restore it from a copy of this folder, or give another `--checkpoint`"
    )


def test_a_description_without_a_checksum_is_of_an_earlier_version(storage):
    overwrite(storage, "run.json", b'{"format": 1, "application": "app", "run_id": "12345678"}')
    assert "run.json` has format 1; this version reads 3; run it with the version that wrote it" in refusal(
        storage
    )


def test_the_description_of_another_run_is_reported(storage):
    other = MemoryStorage()
    Checkpoint(other, "app").close()
    overwrite(storage, "run.json", other.read("run.json"))
    assert (
        f"manifest `{storage.uri}/manifests/000000000002.json` is corrupt: its checksum differs"
        in refusal(storage)
    )


def test_a_manifest_under_another_name_is_reported(storage):
    overwrite(storage, "manifests/000000000002.json", storage.read("manifests/000000000001.json"))
    where = f"{storage.uri}/manifests/000000000002.json"
    assert (
        refusal(storage)
        == f"manifest `{where}` is that of window 1, copied or renamed; restore it from a copy"
    )


@pytest.mark.parametrize("left", [0, 1])
def test_lost_manifests_are_reported(storage, left):
    storage.delete(f"manifests/{window_id:012d}.json" for window_id in range(left, 3))
    storage.delete(["committed/000000000000"])
    newest = "its last manifest is of window 0" if left else "it has no manifest"
    assert refusal(storage) == (
        f"checkpoint folder `{storage.uri}`: `state/000000000002-c0-e1-r0-t0` is of window "
        f"2, but {newest}: `manifests` was emptied or is "
        "an older copy; restore the whole folder from one copy, or give another `--checkpoint`"
    )


def test_state_files_of_windows_that_were_in_flight_are_no_lost_windows():
    storage = MemoryStorage()
    killed = Checkpoint(storage, "app", in_flight=4)
    killed.commit(manifest(0, epoch=killed.epoch))
    for window_id in range(1, 5):
        storage.write(f"state/{window_id:012d}-c0-e1-r0-t0", b"")
    killed.close()
    Checkpoint(storage, "app").close()  # and is killed before it commits
    again = Checkpoint(storage, "app")
    assert again.last().window_id == 0
    again.close()
    storage.write("state/000000000005-c0-e1-r0-t0", b"")
    assert "`state/000000000005-c0-e1-r0-t0` is of window 5, but its last manifest is of window 0" in refusal(
        storage
    )


def test_windows_that_once_were_in_flight_hide_no_lost_ones_later():
    storage = MemoryStorage()
    Checkpoint(storage, "app", in_flight=4).close()
    later = Checkpoint(storage, "app")
    for window_id in range(3):
        later.commit(manifest(window_id, epoch=later.epoch))
        storage.write(f"state/{window_id:012d}-c0-e2-r0-t0", b"")
    later.close()
    storage.delete(f"manifests/{window_id:012d}.json" for window_id in (1, 2))
    assert "`state/000000000002-c0-e2-r0-t0` is of window 2, but its last manifest is of window 0" in refusal(
        storage
    )


def test_lost_manifests_of_an_application_without_state_are_reported(storage):
    storage.delete(f"state/{name}" for name in storage.names("state"))
    storage.delete(f"manifests/{name}" for name in storage.names("manifests"))
    assert (
        f"checkpoint folder `{storage.uri}`: window 0 was committed, but it has no "
        f"manifest: `manifests` was emptied" in refusal(storage)
    )


def test_lost_epochs_do_not_begin_anew(storage):
    last = Checkpoint(storage, "app")
    last.commit(manifest(3, epoch=last.epoch))
    last.close()
    storage.delete(f"epochs/{name}" for name in storage.names("epochs"))
    again = Checkpoint(storage, "app")
    again.close()
    assert again.epoch == last.epoch + 1


def test_a_driver_whose_epoch_was_removed_stops():
    storage = MemoryStorage()
    checkpoint = Checkpoint(storage, "app")
    storage.delete(["epochs/00000001"])
    with pytest.raises(FencedError, match="taken over by another driver"):
        checkpoint.commit(manifest(0))


@pytest.mark.parametrize("folder", ["epochs", "manifests", "state", "committed"])
@pytest.mark.parametrize("name", ["notes.txt", "000000000009.json.bak", "00000009~", "x" * 12])
def test_foreign_files_are_left_alone(storage, folder, name):
    storage.write(f"{folder}/{name}", b"?")
    checkpoint = Checkpoint(storage, "app")
    for window_id in range(3, 20):
        checkpoint.commit(manifest(window_id))
        checkpoint.purge(1)
    assert storage.read(f"{folder}/{name}") == b"?"
    assert checkpoint.last().window_id == 19
    checkpoint.close()


def test_a_driver_that_lost_the_folder_removes_nothing_of_its_successor():
    storage = MemoryStorage()
    first = Checkpoint(storage, "app")
    for window_id in range(8):
        first.commit(manifest(window_id))
    second = Checkpoint(storage, "app")
    merged = "000000000007-c0-e1-r0-t0-m1.2.1.snapshot"
    storage.write(f"state/{merged}", b"x")
    second.commit(manifest(8, {"op/0/1": [merged]}, epoch=2))
    first.purge(1)
    assert storage.names("state") == [merged]
    assert second.last().states == {"op/0/1": [merged]}


class Forgetful(MemoryStorage):
    """A file system that does not heed what it is asked: it overwrites."""

    def create(self, name, data, *, settled=""):
        self.write(name, data)
        return True


def test_a_file_system_that_overwrites_is_refused():
    with pytest.raises(CheckpointError) as error:
        Checkpoint(Forgetful(), "app")
    what = "its file system creates a file that exists already, so two drivers could commit the same window"
    assert str(error.value) == f"checkpoint folder `memory:`: {what}; give a `--checkpoint` on another one"


class Silent(MemoryStorage):
    """The answer to the first request is lost, and the request is made again."""

    def create(self, name, data, *, settled=""):
        super().create(name, data)
        return super().create(name, data)


def test_a_commit_whose_answer_was_lost_counts():
    checkpoint = Checkpoint(Silent(), "app")
    checkpoint.commit(manifest(0))
    assert checkpoint.last() == manifest(0)

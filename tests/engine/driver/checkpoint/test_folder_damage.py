"""Checkpoint folders of which something is missing, older, or of another name."""

import contextlib
import errno
import json

import pytest

from ridgeline import CheckpointError
from ridgeline.api.errors import FencedError
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.run_description import FORMAT
from ridgeline.engine.files.storage import LocalStorage, MemoryStorage


def manifest(window_id, states=None, epoch=1):
    return Manifest(window_id, epoch, 0, states or {}, [], {}, False)


@pytest.fixture(params=["local", "local without locks", "memory"])
def storage(request, tmp_path, monkeypatch):
    """A folder in which three windows were committed."""
    if request.param == "local without locks":

        def flock(_file, _operation):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr("fcntl.flock", flock)
    storage = MemoryStorage() if request.param == "memory" else LocalStorage(str(tmp_path))
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
    run_id = json.loads(data)["run_id"].encode()
    other = bytes([run_id[0] ^ 1]) + run_id[1:]
    overwrite(storage, "run.json", data.replace(run_id, other))
    assert refusal(storage) == (
        f"`{storage.uri}/run.json` is corrupt: its checksum differs, so it is damaged or a "
        f"copy of another file; "
        "restore it from a copy, or give another `--checkpoint`"
    )


def test_a_missing_description_is_no_new_run(storage):
    storage.delete(["run.json"])
    oldest = storage.names("journal")[0]
    assert refusal(storage) == (
        f"`{storage.uri}/run.json` is missing, but the folder holds a run "
        f"(`journal/{oldest}`), whose id names its outputs; "
        "restore it from a copy of this folder, or give another `--checkpoint`"
    )


def test_a_description_without_a_checksum_is_of_an_earlier_version(storage):
    overwrite(storage, "run.json", b'{"format": 1, "application": "app", "run_id": "12345678"}')
    told = f"run.json` has format 1; this version reads {FORMAT}; run it with the version that wrote it"
    assert told in refusal(storage)


def test_the_description_of_another_run_is_reported(storage):
    other = MemoryStorage()
    Checkpoint(other, "app").close()
    overwrite(storage, "run.json", other.read("run.json"))
    newest = max(storage.names("journal"))
    assert (
        f"`{storage.uri}/journal/{newest}` is corrupt at byte 0: a record is damaged, or a copy from another"
        in refusal(storage)
    )


def test_a_checkpoint_of_the_format_before_is_refused(storage):
    """Its description had its checksum elsewhere."""
    before = b'{"crc32":1,"run":{"format":5,"application":"app","run_id":"12345678"}}\n'
    overwrite(storage, "run.json", before)
    assert refusal(storage) == (
        f"`{storage.uri}/run.json` has format 5; this version reads {FORMAT}; "
        "run it with the version that wrote it, or give another `--checkpoint`"
    )


def test_a_file_of_the_journal_under_another_name_is_reported(storage):
    last = max(storage.names("journal"))
    storage.write(f"journal/{int(last) + 1:08d}", storage.read(f"journal/{last}"))
    assert refusal(storage) == (
        f"`{storage.uri}/journal/{int(last) + 1:08d}` is corrupt at byte 0: "
        "a record is damaged, or a copy from another place; "
        "restore the whole checkpoint folder from one copy, or give another `--checkpoint`"
    )


def test_a_lost_journal_is_reported(storage):
    """All of it is gone, notes of it too: state files are left, and no driver writes one before its seal."""
    storage.delete(f"journal/{name}" for name in storage.names("journal"))
    storage.delete(f"committed/{name}" for name in storage.names("committed"))
    for _ in range(2):  # what the first one did hides nothing
        assert refusal(storage) == (
            f"checkpoint folder `{storage.uri}`: `state/000000000000-c0-e1-r0-t0` is of a later driver, "
            "but its journal is empty: `journal` was emptied or is an older copy; restore the whole folder "
            "from one copy, or give another `--checkpoint`"
        )


def test_state_files_of_windows_that_were_in_flight_are_no_lost_windows(storage):
    killed = Checkpoint(storage, "app")
    for window_id in range(3, 30):
        storage.write(f"state/{window_id:012d}-c0-e2-r0-t0", b"")
    killed.close()
    again = Checkpoint(storage, "app")
    assert again.last().window_id == 2
    again.close()


def test_state_files_of_a_driver_that_the_journal_does_not_know_are_reported(storage):
    before = {name: storage.read(f"journal/{name}") for name in storage.names("journal")}
    witness = {name: storage.read(f"committed/{name}") for name in storage.names("committed")}
    Checkpoint(storage, "app").close()
    storage.write("state/000000000003-c0-e2-r0-t0", b"")
    storage.delete(f"journal/{name}" for name in storage.names("journal") if name not in before)
    for name, data in witness.items():
        overwrite(storage, f"committed/{name}", data)
    assert "`state/000000000003-c0-e2-r0-t0` is of a later driver, but its journal ends with window 2" in (
        refusal(storage)
    )


def test_a_lost_journal_of_an_application_without_state_is_reported(storage):
    window = 2 if "last" in storage.names("committed") else 0
    storage.delete(f"state/{name}" for name in storage.names("state"))
    storage.delete(f"journal/{name}" for name in storage.names("journal"))
    assert (
        f"checkpoint folder `{storage.uri}`: window {window} was committed, but its journal is "
        f"empty: `journal` was emptied" in refusal(storage)
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


@pytest.mark.parametrize("folder", ["epochs", "journal", "state", "committed"])
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
    second.commit(manifest(8, {"op/0/1": (merged,)}, epoch=2))
    first.purge(1)
    assert storage.names("state") == [merged]
    assert second.last().states == {"op/0/1": (merged,)}


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

"""The journal of a folder: files that follow each other, small changes in them, damage, two drivers."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from ridgeline import CheckpointError
from ridgeline.api.errors import FencedError
from ridgeline.engine.driver.checkpoint import journal
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.files.storage import LocalStorage, MemoryStorage
from ridgeline.engine.state import state_files
from support.paths import TESTS
from support.waiting import PATIENCE_SECONDS

KEY = "op/0/1"


class Driver:
    """A driver of one operator, whose state is the list of its windows since every eighth."""

    def __init__(self, storage):
        self.checkpoint = Checkpoint(storage, "app")
        self.storage = storage
        last = self.checkpoint.last()
        self.version = last.states[KEY] if last else ()
        self.window_id = last.window_id + 1 if last else 0

    def commit(self, size=40, windows=1):
        for _ in range(windows):
            name = state_files.file_name(self.window_id, 0, self.checkpoint.epoch, 0, "run-t")
            data, _ = state_files.encode(name, {KEY: {"window": (self.window_id, "x" * size)}})
            kept = self.version if self.window_id % 8 else ()
            states = {KEY: (*kept, name), "still/0/1": ()}
            manifest = Manifest(self.window_id, self.checkpoint.epoch, 0, states, [], {}, False)
            names = self.checkpoint.commit(manifest, {name: data})
            self.version = (*kept, names[name])
            self.window_id += 1
            self.checkpoint.purge(3)

    def windows(self):
        """The windows in the state, as files say."""
        return [state_files.read(self.storage, name, KEY)["window"][0] for name in self.version]

    def again(self):
        self.checkpoint.close()
        return Driver(self.storage)


@pytest.fixture(params=["local", "local without locks", "memory"])
def storage(request, tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 2_000)
    monkeypatch.setattr(journal, "PICTURES", 2)
    monkeypatch.setattr(os, "fsync", lambda _file: None)
    monkeypatch.setattr(os, "fdatasync", lambda _file: None)
    if request.param == "local without locks":

        def flock(_file, _operation):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr("fcntl.flock", flock)
    return MemoryStorage() if request.param == "memory" else LocalStorage(str(tmp_path / "checkpoint"))


@pytest.fixture
def local(tmp_path, monkeypatch):
    """A folder whose journal is appended to."""
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 2_000)
    monkeypatch.setattr(journal, "PICTURES", 2)
    monkeypatch.setattr(os, "fsync", lambda _file: None)
    return LocalStorage(str(tmp_path / "checkpoint"))


def expected(window_id):
    return list(range(window_id - window_id % 8, window_id + 1))


@pytest.mark.parametrize("every", [1, 3, 50])
def test_state_is_found_again_however_often_drivers_change(storage, every):
    driver = Driver(storage)
    for _ in range(100 // every):
        driver.commit(windows=every)
        assert driver.windows() == expected(driver.window_id - 1)
        window_id, version = driver.window_id, driver.version
        driver = driver.again()
        assert (driver.window_id, driver.version) == (window_id, version)
        assert driver.windows() == expected(window_id - 1)
        kept = [manifest.window_id for manifest in driver.checkpoint.kept()]
        assert kept[:3] == list(range(window_id - 1, -1, -1))[:3]
    assert len(storage.names("journal")) < 30
    assert len(storage.names("state")) < 10
    driver.checkpoint.close()


def test_only_files_that_nobody_needs_are_removed(storage):
    driver = Driver(storage)
    driver.commit(windows=60)
    for manifest in list(driver.checkpoint.kept())[:3]:
        for name in manifest.states[KEY]:
            assert state_files.read(storage, name, KEY)["window"][0] == state_files.window_of(name)
    driver.checkpoint.close()


def test_a_small_change_outlives_the_file_of_the_journal_that_it_was_in(local):
    """An operator that changes once: windows of another one go on for many files of the journal."""
    driver = Driver(local)
    driver.commit()
    once = driver.version[0]
    other = state_files.file_name(0, 1, 1, 0, "run-t")
    local.write(f"state/{other}", b"x")
    for window_id in range(1, 80):
        states = {KEY: (once,), "more/0/1": (other,)}
        manifest = Manifest(window_id, 1, 0, states, [], {"out": f"{window_id:0200d}"[::-1]}, False)
        driver.checkpoint.commit(manifest)
        driver.checkpoint.purge(3)
    assert "00000001" not in local.names("journal")
    assert state_files.read(local, once, KEY)["window"][0] == 0
    assert state_files.file_of(once) in local.names("state")
    again = driver.again()
    assert again.version == (once,)
    again.commit(windows=30)
    assert local.names("state") == []  # nobody needs it any more
    again.checkpoint.close()


# Damage -----------------------------------------------------------------------------------------------------


def refusal(storage):
    with pytest.raises(CheckpointError) as error:
        Checkpoint(storage, "app")
    return str(error.value)


def newest(storage):
    return f"journal/{storage.names('journal')[-1]}"


def test_an_old_copy_of_the_last_file_is_refused(local):
    driver = Driver(local)
    driver.commit(windows=3)
    older = local.read(newest(local)).rstrip(b"\0")
    driver.commit(windows=2)
    driver.checkpoint.close()
    local.write(newest(local), older)
    assert refusal(local) == (
        f"`{local.uri}/{newest(local)}` is corrupt at byte {len(older)}: "
        "what follows was written and synced, but is gone or damaged; "
        "restore the whole checkpoint folder from one copy, or give another `--checkpoint`"
    )


def test_syncs_do_not_make_the_file_longer_and_an_orderly_end_leaves_no_zeros(local):
    driver = Driver(local)
    driver.commit(windows=3)
    path = Path(local.uri) / newest(local)
    length = path.stat().st_size
    driver.commit()
    assert path.stat().st_size == length
    whole = path.read_bytes().rstrip(b"\0")
    assert len(whole) < length
    driver.checkpoint.close()
    assert path.read_bytes() == whole


def test_a_file_with_zeros_behind_its_records_is_continued(local):
    """As a driver leaves it that is killed."""
    driver = Driver(local)
    driver.commit(windows=3)
    data = local.read(newest(local))
    driver.checkpoint.close()
    local.write(newest(local), data)
    driver = Driver(local)
    assert driver.windows() == [0, 1, 2]
    driver.commit(windows=20)
    driver = driver.again()
    assert driver.windows() == expected(22)
    driver.checkpoint.close()


def test_the_loss_of_the_last_file_is_told(local):
    driver = Driver(local)
    driver.commit(windows=20)
    driver.checkpoint.close()
    local.delete([newest(local)])
    assert "window 19 was committed, but its journal ends with window" in refusal(local)


def test_a_cut_tail_is_told_as_long_as_the_note_is_there(local):
    """Without it nobody can know whether the driver had synced what is gone: the window is run again."""
    driver = Driver(local)
    driver.commit(windows=3)
    driver.checkpoint.close()
    data = local.read(newest(local))
    local.write(newest(local), data[:-1])
    assert "what follows was written and synced, but is gone or damaged" in refusal(local)
    local.delete(["committed/last"])
    driver = Driver(local)
    assert driver.window_id == 2
    driver.commit(windows=3)
    driver = driver.again()
    assert driver.windows() == [0, 1, 2, 3, 4]
    driver.checkpoint.close()


@pytest.mark.parametrize("note", [b"", b"x", bytes(45), b"00000009 000000009999 000000009999 00000000\n"])
def test_a_damaged_note_does_no_harm(local, note):
    driver = Driver(local)
    driver.commit(windows=3)
    driver.checkpoint.close()
    local.write("committed/last", note)
    driver = Driver(local)
    assert driver.window_id == 3
    driver.commit()
    driver = driver.again()
    assert driver.window_id == 4
    driver.checkpoint.close()


def test_a_missing_file_in_the_middle_is_told(local):
    """Each record is a file: from the last picture on all are needed."""
    storage = MemoryStorage()
    driver = Driver(storage)
    driver.commit(windows=7)
    driver.checkpoint.close()
    storage.delete(["journal/00000005"])
    assert refusal(storage) == (
        "`memory:/journal/00000005` is missing, but later files of the journal are there; "
        "restore the whole checkpoint folder from one copy, or give another `--checkpoint`"
    )


@pytest.mark.parametrize("number", [2, 5, 8])
def test_damage_of_any_record_that_is_a_file_is_told(number):
    storage = MemoryStorage()
    driver = Driver(storage)
    driver.commit(windows=7)
    driver.checkpoint.close()
    name = f"journal/{number:08d}"
    data = storage.read(name)
    for hurt in (data[:-1], data[: len(data) // 2], bytes(len(data)), b""):
        storage.write(name, hurt)
        assert f"`memory:/{name}` is corrupt at byte " in refusal(storage)


def test_a_file_of_another_history_is_told(local, tmp_path):
    """Both began with the same copy; the same number, run and window."""
    driver = Driver(local)
    driver.commit(windows=2)
    driver.checkpoint.close()
    shutil.copytree(local.uri, tmp_path / "other")
    other = Driver(LocalStorage(str(tmp_path / "other")))
    other.commit(size=41)
    other.checkpoint.close()
    driver = Driver(local)
    driver.commit()
    driver = driver.again()
    driver.commit()
    driver.checkpoint.close()
    local.write("journal/00000002", other.storage.read("journal/00000002"))
    driver = Driver(local)  # the last picture is later
    assert [manifest.window_id for manifest in driver.checkpoint.kept()] == [3]
    driver.checkpoint.close()


# Two drivers ------------------------------------------------------------------------------------------------


def test_what_a_driver_appends_that_was_taken_over_does_not_count(local, monkeypatch):
    """It was stopped before its record; its lock is lost, as by somebody who removes the file."""
    first = Driver(local)
    first.commit(windows=2)
    Path(f"{local.uri}/lock").unlink()
    second = Driver(LocalStorage(local.uri))
    assert second.window_id == 2
    with pytest.raises(
        FencedError, match="was taken over by another driver; this one stops, nothing is lost"
    ):
        first.commit(size=50)
    second.commit(windows=3)
    assert second.windows() == [0, 1, 2, 3, 4]
    again = second.again()
    assert (again.windows(), again.version) == ([0, 1, 2, 3, 4], second.version)
    assert [manifest.window_id for manifest in again.checkpoint.kept()] == [4, 3, 2, 1, 0]
    first.checkpoint.close()
    again.checkpoint.close()


def test_a_driver_notices_the_second_next(local):
    """The file of the next epoch is gone by then, but so is its own."""
    first = Driver(local)
    first.commit()
    others = []
    for _ in range(2):
        Path(f"{local.uri}/lock").unlink()
        others.append(Driver(LocalStorage(local.uri)))
    assert local.names("epochs") == ["00000003"]
    with pytest.raises(FencedError, match="was taken over"):
        first.commit()
    with pytest.raises(FencedError, match="was taken over"):
        others[0].commit()
    for driver in (first, *others):
        driver.checkpoint.close()


class TakenOver(LocalStorage):
    """A second driver opens the folder at a given moment of the first one's commit."""

    happens = None

    def _now(self, moment):
        if self.happens and self.happens[0] == moment:
            _, happens = self.happens
            self.happens = None
            Path(f"{self.uri}/lock").unlink()
            happens()

    def names(self, folder):
        if folder == "epochs":
            self._now("checks")
        return super().names(folder)

    def create(self, name, data, *, settled=""):
        if name.startswith("journal/"):
            self._now("begins a file")
        return super().create(name, data, settled=settled)


@pytest.mark.parametrize("moment", ["begins a file", "checks"])
@pytest.mark.parametrize("commits", [0, 3])
def test_a_driver_that_takes_over_in_mid_commit_sees_the_window_or_stops_it(local, moment, commits):
    storage = TakenOver(local.uri)
    first = Driver(storage)
    first.commit()
    first.commit(size=40 if moment == "checks" else 3_000)
    drivers = []

    def take_over():
        second = Driver(LocalStorage(storage.uri))
        drivers.append(second)
        second.commit(windows=commits)

    storage.happens = (moment, take_over)
    before = first.window_id
    with pytest.raises(FencedError):
        first.commit(size=77)
    [second] = drivers
    assert second.window_id == before + commits + (moment == "checks")
    if second.version:
        assert second.windows() == expected(second.window_id - 1)
    Path(f"{storage.uri}/lock").unlink()
    last = Driver(LocalStorage(storage.uri))
    if commits:
        assert (last.window_id, last.version) == (second.window_id, second.version)
    assert last.windows() == expected(last.window_id - 1)
    for driver in (first, second, last):
        driver.checkpoint.close()


# Disks ------------------------------------------------------------------------------------------------------


def test_a_folder_that_is_removed_under_a_driver_stops_it(local):
    driver = Driver(local)
    driver.commit()
    Path(f"{local.uri}/{newest(local)}").unlink()
    with pytest.raises(CheckpointError, match=r"journal/00000001` was removed"):
        driver.commit()
    driver.checkpoint.close()


class AnswersLost(MemoryStorage):
    """Creates a file, gets no answer, and tries again: as a store's client does."""

    def create(self, name, data, *, settled=""):
        super().create(name, data, settled=settled)
        return super().create(name, data, settled=settled)


def test_a_record_whose_answer_was_lost_is_created_once():
    storage = AnswersLost()
    assert journal.create(storage, "journal/1", b"ours")
    assert not journal.create(storage, "journal/1", b"another driver's")
    assert storage.read("journal/1") == b"ours"


def test_a_sync_that_fails_is_no_commit_and_the_next_record_begins_a_file(local, monkeypatch):
    driver = Driver(local)
    driver.commit(windows=2)

    def fdatasync(_file):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fdatasync)
        with pytest.raises(CheckpointError, match="Input/output error"):
            driver.commit()
    driver.commit(size=90, windows=2)  # the same window: what was written of it before does not count
    assert local.names("journal") == ["00000001", "00000002"]  # one before and one after
    again = driver.again()
    assert (again.windows(), again.version) == ([0, 1, 2, 3], driver.version)
    again.checkpoint.close()


def test_a_file_that_may_not_grow_ends_the_run_and_loses_nothing(local):
    driver = Driver(local)
    driver.commit(windows=3)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for room in (0, 1, 100):
            size = len(local.read(newest(local)).rstrip(b"\0"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, limit[1]))
            with pytest.raises(CheckpointError, match="File too large"):
                driver.commit(size=1_000)
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
            driver.commit()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    again = driver.again()
    assert again.windows() == expected(again.window_id - 1)
    again.checkpoint.close()


def test_records_wait_for_a_slow_sync_and_for_the_names_of_state_files(local, monkeypatch):
    """The folder of state files is synced before a record names a new one, and only then."""
    order = []
    folder, data = local.settle_folder, os.fdatasync
    monkeypatch.setattr(local, "settle_folder", lambda name: (order.append(name), folder(name)))
    entered, go = threading.Event(), threading.Event()

    def slow(file):
        order.append("record")
        entered.set()
        assert go.wait(PATIENCE_SECONDS)
        data(file)

    driver = Driver(local)
    driver.commit()
    monkeypatch.setattr(os, "fdatasync", slow)
    name = state_files.file_name(1, 0, 1, 0, "run-large")
    local.write(f"state/{name}", b"x")
    order.clear()
    manifest = Manifest(1, 1, 0, {KEY: (*driver.version, name)}, [], {}, False)
    thread = threading.Thread(target=driver.checkpoint.commit, args=(manifest,))
    thread.start()
    assert entered.wait(PATIENCE_SECONDS)
    assert driver.checkpoint.last().window_id == 0
    go.set()
    thread.join()
    assert driver.checkpoint.last().window_id == 1
    driver.checkpoint.commit(Manifest(2, 1, 0, {KEY: (*driver.version, name)}, [], {}, False))
    assert order == ["state", "record", "record"]
    driver.checkpoint.close()


COMMITS = """
    import sys
    from test_journal import Driver
    from ridgeline.engine.files.storage import LocalStorage
    from ridgeline.engine.driver.checkpoint import journal
    journal.SEGMENT_BYTES, journal.PICTURES = 4_000, 2
    driver = Driver(LocalStorage(sys.argv[1]))
    while True:
        driver.commit(size=driver.window_id % 700)
        print(driver.window_id, flush=True)
"""


@pytest.mark.crash
@pytest.mark.slow
def test_killed_at_any_moment_no_committed_window_is_lost(local, tmp_path):
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{TESTS}"}
    committed = 0
    for life in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(COMMITS), local.uri],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for _ in range(20 + 7 * life):
            committed = int(process.stdout.readline())
        process.kill()
        committed = max(committed, *map(int, process.stdout.read().split("\n")[:-1]), 0)
        process.wait()
        process.stdout.close()
        driver = Driver(local)
        assert committed <= driver.window_id <= committed + 1
        assert driver.windows() == expected(driver.window_id - 1)
        driver.checkpoint.close()

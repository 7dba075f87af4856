"""Compaction as a run in process does it: the same code as on Spark, at once."""

from pathlib import Path

import pytest

from ridgeline import CheckpointError, StateError
from ridgeline.engine.files.storage import LocalStorage, MemoryStorage
from ridgeline.engine.state import keyed_segments, state_files
from ridgeline.engine.state.compaction import StateCompactor
from ridgeline.measure.events import StateWarning
from ridgeline.testing import run_local
from support.engine.ledger import application
from support.manifests import last_of

WINDOWS = 100


@pytest.fixture(autouse=True)
def small_runs(monkeypatch):
    """Keyed states lie in segments from 100 keys on."""
    monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", 100)


@pytest.fixture(scope="module")
def expected():
    """What the ledger says without any compaction."""
    return run_local(application(snapshot_interval=1_000_000), windows=WINDOWS).collected("sink")


def version(storage):
    """The ledger's version as of the last window."""
    return tuple(last_of(storage).states["ledger/0/1"])


def warnings(run):
    return [event.text for event in run.events if isinstance(event, StateWarning)]


@pytest.mark.parametrize("interval", [1, 2, 7])
@pytest.mark.parametrize("windows_a_run", [WINDOWS, 33, 1])
def test_compaction_changes_nothing(expected, interval, windows_a_run):
    storage, got = MemoryStorage(), []
    windows = WINDOWS if windows_a_run > 1 else 20
    while len(got) < windows:
        run = run_local(
            application(snapshot_interval=interval),
            windows=min(windows_a_run, windows - len(got)),
            checkpoint=storage,
        )
        got += run.collected("sink")
        assert warnings(run) == []
    assert got == expected[:windows]
    assert state_files.segments_of(version(storage))


# Broken files -----------------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    """A run of 10 windows, compacted after 8. Its windows name the compacted files and their origin.

    All deltas are files.
    """
    monkeypatch.setattr(state_files, "SMALL_BYTES", 0)
    storage = LocalStorage(str(tmp_path / "checkpoint"))
    run_local(application(snapshot_interval=8), windows=10, checkpoint=storage)
    assert [state_files.is_compacted(name) for name in version(storage)] == [True, True, False, False]
    return storage


def damage(storage, name, how):
    path = Path(storage.uri, "state", name)
    data = path.read_bytes()
    match how:
        case "truncated":
            path.write_bytes(data[: len(data) // 2])
        case "flipped":
            path.write_bytes(data[:90] + bytes([data[90] ^ 1]) + data[91:])
        case "missing":
            path.unlink()


@pytest.mark.parametrize("how", ["truncated", "flipped", "missing"])
@pytest.mark.parametrize("kind", ["segment0", "snapshot"])
def test_a_broken_compacted_file_is_replaced_by_what_it_was_compacted_from(checkpoint, expected, how, kind):
    [name] = [name for name in version(checkpoint) if name.endswith(kind)]
    damage(checkpoint, name, how)
    run = run_local(application(snapshot_interval=8), windows=20, checkpoint=checkpoint)
    assert run.collected("sink") == expected[10:30]
    [text] = warnings(run)
    assert text.startswith(f"state file `{checkpoint.uri}/state/{name}` is ")
    assert text.endswith("; the files that it was merged from are used instead, nothing is lost")


# Compactions that fail ------------------------------------------------------------------------------------


def failing(monkeypatch, fails):
    """Compactions raise while `fails()` says so."""
    merge, no = StateCompactor.compact, StateError("no")

    def unreliable(self, job):
        if fails():
            raise no
        return merge(self, job)

    monkeypatch.setattr(StateCompactor, "compact", unreliable)


def test_a_compaction_that_fails_is_reported_and_tried_again(monkeypatch, expected):
    tries = iter([True, True])
    failing(monkeypatch, lambda: next(tries, False))
    storage = MemoryStorage()
    run = run_local(application(snapshot_interval=4), windows=30, checkpoint=storage)
    assert run.collected("sink") == expected[:30]
    assert warnings(run) == 2 * [
        "state of operator `ledger`, partition 0, could not be merged: no; nothing is lost, it is tried again"
    ]
    assert state_files.segments_of(version(storage))


def test_where_nothing_can_be_compacted_the_run_ends_before_the_chain_has_no_end(monkeypatch, expected):
    storage = MemoryStorage()
    with monkeypatch.context() as patch:
        failing(patch, lambda: True)
        with pytest.raises(CheckpointError) as error:
            run_local(application(snapshot_interval=2), windows=100, checkpoint=storage)
    assert str(error.value).startswith(
        "state of operator `ledger`, partition 0, cannot be merged; the changes of 20 windows ("
    )
    assert str(error.value).endswith(
        " bytes) wait for it; put right what was said before and run again with the same `--checkpoint`"
    )
    run = run_local(application(snapshot_interval=2), windows=10, checkpoint=storage)
    assert run.collected("sink") == expected[20:30]
    assert len(version(storage)) < 6


@pytest.mark.guide("002", "Checkpointing")
def test_hundreds_of_windows_leave_a_handful_of_files(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _file: None)
    storage, counts = LocalStorage(str(tmp_path)), []
    app = application(snapshot_interval=4, windows_kept=2)
    for _ in range(3):
        run_local(app, windows=70, checkpoint=storage, properties={"entries.per_window": "3"})
        counts.append(sum(1 for path in tmp_path.rglob("*") if path.is_file()))
    assert max(counts) < 30
    named = {name for name in version(storage) if state_files.slice_place(name) is None}
    assert named <= set(storage.names("state"))

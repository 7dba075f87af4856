import pickle

import pytest

from ridgeline import StateError
from ridgeline.api.support.sealed import checksum
from ridgeline.engine.files.storage import LocalStorage, MemoryStorage
from ridgeline.engine.state import state_files

NAME = state_files.file_name(12, 3, 1, 0, "t5")
SECTIONS = {1: {"total": (5,)}, 4: {"sums": (False, 0, {"a": 1}, ["b"])}}
DATA, _ = state_files.encode(NAME, SECTIONS)


def test_the_name_of_a_merged_file_tells_what_it_is_equal_to():
    stem = state_files.compacted_stem((NAME,), operator=4, epoch=2, number=17)
    segment, snapshot = f"{stem}segment0", f"{stem}snapshot"
    assert [state_files.window_of(name) for name in (segment, snapshot)] == [12, 12]
    assert [state_files.covered(name) for name in (segment, snapshot, NAME)] == [NAME, NAME, NAME]
    later = state_files.file_name(13, 3, 2, 0, "t9")
    assert state_files.segments_of((segment, snapshot, later)) == (segment,)
    assert state_files.base_of((segment, snapshot, later)) == (segment, snapshot)
    assert state_files.compacted_stem((segment, snapshot, later), 4, 2, 18).startswith(f"{later}-")
    assert [state_files.belongs_to(name, 4) for name in (segment, snapshot, NAME)] == [True, True, False]


def test_the_committed_name_of_a_small_delta_tells_where_it_lies():
    name = state_files.slice_name(NAME, 3, 10492, 812)
    assert name == f"{NAME}.j3.10492.812"
    assert state_files.slice_place(name) == (3, 10492, 812)
    assert state_files.covered(name) == state_files.file_of(name) == NAME
    assert (state_files.window_of(name), state_files.epoch_of(name)) == (12, 1)
    assert not state_files.is_compacted(name)
    assert state_files.compacted_stem((name,), 4, 2, 17) == f"{NAME}-m4.2.17."
    snapshot = state_files.compacted_stem((name,), 4, 2, 17) + "snapshot"
    assert (state_files.slice_place(snapshot), state_files.file_of(snapshot)) == (None, snapshot)


@pytest.fixture(params=["local", "memory"])
def storage(request, tmp_path):
    return LocalStorage(str(tmp_path)) if request.param == "local" else MemoryStorage()


def test_a_small_delta_is_read_from_the_journal_and_from_its_file_once_that_is_gone(storage):
    name = state_files.slice_name(NAME, 3, 5, len(DATA))
    storage.write("journal/00000003", b"12345" + DATA + b"6789")
    assert state_files.read(storage, name, 1) == SECTIONS[1]
    storage.delete(["journal/00000003"])
    with pytest.raises(
        StateError, match=rf"^state file `{storage.uri}/journal/00000003, bytes 5 to \d+` is miss"
    ):
        state_files.read(storage, name, 1)
    state_files.write(storage, NAME, DATA)
    assert state_files.read(storage, name, 1) == SECTIONS[1]


def test_a_small_delta_at_any_other_place_is_corrupt(storage):
    storage.write("journal/00000003", b"12345" + DATA + DATA + b"6789")
    size = len(DATA)
    for place in [(3, 4, size), (3, 5, size - 1), (3, 5, size + 1), (3, 9 + size, size), (3, 10**6, size)]:
        with pytest.raises(StateError, match=r"journal/00000003, bytes \d+ to \d+` is corrupt"):
            state_files.read(storage, state_files.slice_name(NAME, *place), 1)
    other = state_files.file_name(12, 4, 1, 0, "t5")
    with pytest.raises(StateError, match="is corrupt"):
        state_files.read(storage, state_files.slice_name(other, 3, 5, size), 1)


def test_changes_come_back():
    storage = MemoryStorage()
    data, sizes = state_files.encode(NAME, SECTIONS)
    state_files.write(storage, NAME, data)
    assert [state_files.read(storage, NAME, operator) for operator in (1, 4, 5)] == [
        SECTIONS[1],
        SECTIONS[4],
        {},
    ]
    assert sizes == state_files.sizes(storage, NAME)
    assert 0 < sizes[1] < sizes[4] < len(storage.read(f"state/{NAME}"))


def test_a_missing_file_is_named(tmp_path):
    storage = LocalStorage(str(tmp_path))
    with pytest.raises(
        StateError,
        match=(
            rf"^state file `{tmp_path}/state/{NAME}` is missing; the checkpoint needs it; put it "
            rf"back from a copy$"
        ),
    ):
        state_files.read(storage, NAME, 1)


def test_a_file_of_any_other_length_is_corrupt(tmp_path):
    storage = LocalStorage(str(tmp_path))
    state_files.write(storage, NAME, DATA)
    data, what = storage.read(f"state/{NAME}"), "checksum differs: damaged, or a copy of another file"
    for length in range(len(data)):
        storage.write(f"state/{NAME}", data[:length])
        with pytest.raises(StateError) as error:
            state_files.read(storage, NAME, 1)
        text = (
            f"state file `{tmp_path}/state/{NAME}` is corrupt ({length} bytes, {what}); restore it "
            "from a copy"
        )
        assert str(error.value) == text
    storage.write(f"state/{NAME}", data + b"\0")
    with pytest.raises(StateError, match="is corrupt"):
        state_files.read(storage, NAME, 1)


def test_a_flipped_bit_is_found():
    storage = MemoryStorage()
    state_files.write(storage, NAME, DATA)
    data = storage.read(f"state/{NAME}")
    for position in range(len(data)):
        storage.write(f"state/{NAME}", data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(StateError, match="is corrupt"):
            state_files.read(storage, NAME, 1)


def test_a_class_that_is_gone_is_told():
    storage = MemoryStorage()
    payload = pickle.dumps({1: b"cridgeline\nNoSuchClass\n."})
    storage.write(f"state/{NAME}", b"RLST3\n" + checksum(NAME, payload).to_bytes(4, "little") + payload)
    with pytest.raises(
        StateError, match=rf"^state file `memory:/state/{NAME}` cannot be read: AttributeError: .*NoSuchClass"
    ):
        state_files.read(storage, NAME, 1)


def test_a_disk_that_fails_is_not_taken_for_other_code(monkeypatch):
    storage = MemoryStorage()

    def fail(*_arguments):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(storage, "read", fail)
    with pytest.raises(
        StateError, match=r"cannot be read: OSError: .*Input/output error; see to the disk, then run again$"
    ):
        state_files.read(storage, NAME, "key")

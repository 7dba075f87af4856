import zlib

import pytest

from ridgeline import StateError
from ridgeline.engine import state_files
from ridgeline.engine.storage import LocalStorage, MemoryStorage

NAME = state_files.file_name(12, 3, 1, 0, "t5")
SECTIONS = {1: {"total": (5,)}, 4: {"sums": (False, 0, {"a": 1}, ["b"])}}


def test_a_name_tells_window_container_epoch_and_attempt():
    assert NAME == "000000000012-c3-e1-r0-t5"
    assert state_files.window_of(NAME) == 12


def test_changes_come_back():
    storage = MemoryStorage()
    size = state_files.write(storage, NAME, SECTIONS)
    assert state_files.read(storage, NAME) == SECTIONS
    assert size == len(storage.read(f"state/{NAME}"))


def test_a_missing_file_is_named(tmp_path):
    storage = LocalStorage(str(tmp_path))
    with pytest.raises(
        StateError, match=rf"^state file `{tmp_path}/state/{NAME}` is missing; the checkpoint needs it; put it back from a copy$"
    ):
        state_files.read(storage, NAME)


def test_a_file_of_any_other_length_is_corrupt(tmp_path):
    storage = LocalStorage(str(tmp_path))
    state_files.write(storage, NAME, SECTIONS)
    data = storage.read(f"state/{NAME}")
    for length in range(len(data)):
        storage.write(f"state/{NAME}", data[:length])
        with pytest.raises(StateError) as error:
            state_files.read(storage, NAME)
        text = f"state file `{tmp_path}/state/{NAME}` is corrupt ({length} bytes, checksum differs); restore it from a copy"
        assert str(error.value) == text
    storage.write(f"state/{NAME}", data + b"\0")
    with pytest.raises(StateError, match="is corrupt"):
        state_files.read(storage, NAME)


def test_a_flipped_bit_is_found():
    storage = MemoryStorage()
    state_files.write(storage, NAME, SECTIONS)
    data = storage.read(f"state/{NAME}")
    for position in range(len(data)):
        storage.write(f"state/{NAME}", data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(StateError, match="is corrupt"):
            state_files.read(storage, NAME)


def test_a_class_that_is_gone_is_told():
    storage = MemoryStorage()
    payload = b"cridgeline\nNoSuchClass\n."
    storage.write(f"state/{NAME}", b"RLST1\n" + zlib.crc32(payload).to_bytes(4, "little") + payload)
    with pytest.raises(StateError, match=rf"^state file `memory:/state/{NAME}` cannot be read: AttributeError: .*NoSuchClass"):
        state_files.read(storage, NAME)

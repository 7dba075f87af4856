"""Files for post-mortems: few, and never the reason that a driver says something else."""

import json

from ridgeline.engine.driver.checkpoint.fault_dumps import write_fault_dump
from ridgeline.engine.files.storage import MemoryStorage


def test_the_newest_three_are_kept():
    storage = MemoryStorage()
    paths = [write_fault_dump(storage, 7, 1000.0 + at, lambda at=at: {"number": at}) for at in range(5)]
    names = storage.names("debug-dumps")
    assert [f"{storage.uri}/debug-dumps/{name}" for name in names] == paths[2:]
    assert [json.loads(storage.read(f"debug-dumps/{name}"))["number"] for name in names] == [2, 3, 4]


def test_files_of_others_stay():
    storage = MemoryStorage()
    storage.write("debug-dumps/a-note.txt", b"mine")
    for at in range(5):
        write_fault_dump(storage, 1, at, dict)
    assert storage.read("debug-dumps/a-note.txt") == b"mine"


def test_a_dump_that_cannot_be_made_is_left_out(caplog):
    def fails():
        raise ZeroDivisionError

    assert write_fault_dump(MemoryStorage(), 1, 0.0, fails) is None
    assert "the last events and instructions could not be written" in caplog.text

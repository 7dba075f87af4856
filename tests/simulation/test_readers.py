"""The readers of a simulated output folder find what they look for."""

import random

import pytest

from support.simulation.disk import Disk, File
from support.simulation.process import ViolationError
from support.simulation.world import Case, World


@pytest.fixture
def world():
    world = World(Case(1, sources=1, files="jsonl"))
    world.ledger.committed = {0: ((3,), {}), 1: ((5,), {})}
    world.ledger._before, world.ledger.last = {0: -1, 1: 0}, 1
    return world


def show(world, name, *numbers):
    lines = b"".join(b'{"value":%d}\n' % number for number in numbers)
    world.disk.link(f"/out/{name}", File(lines))


def test_files_of_committed_windows_are_right(world):
    show(world, "output-a-0-0.jsonl", 0, 1, 2)
    show(world, "output-a-1-1.jsonl", 3, 4)
    world.readers.check_end(range(5))


@pytest.mark.parametrize(
    ("name", "numbers", "what"),
    [
        ("output-a-1-1.jsonl", [2, 3], "readers see 2 in"),
        ("output-a-1-1.jsonl", [3, 3], "numbers twice"),
        ("output-a-1-2.jsonl", [3], "the last committed window is 1"),
        ("output-a-0-0.jsonl", [0, 1], "readers saw"),
        ("w1.segment", [], "readers see `w1.segment`"),
        ("output-a-1-1.jsonl", [], "cannot read"),
    ],
)
def test_what_readers_may_not_see(world, name, numbers, what):
    show(world, "output-a-0-0.jsonl", 0, 1, 2)
    with pytest.raises(ViolationError, match=what):
        show(world, name, *numbers)


def test_what_was_seen_and_not_taken_is_there_at_the_end(world):
    show(world, "output-a-0-0.jsonl", 0, 1, 2)
    world.disk.link("/out/output-a-0-0.jsonl", None)
    with pytest.raises(ViolationError, match="nobody took"):
        world.readers.check_end(range(3))


@pytest.fixture
def disk():
    return Disk(random.Random(1))


def test_a_rename_keeps_the_old_name_until_the_new_one_is_safe(disk):
    disk.link("a/old", File(b"x"))
    disk.names["a/old"].sync()
    disk.sync_folder("a")
    disk.rename("a/old", "b/new")
    disk.sync_folder("a")
    assert list(disk.names) == ["b/new"]
    disk.lose_power()
    assert "a/old" in disk.names or "b/new" in disk.names


def test_what_is_in_a_folder_goes_with_it(disk):
    disk.make_folder("/a/b")
    disk.link("/a/b/file", File())
    for folder in ("/a/b", "/a"):
        disk.sync_folder(folder)
    safe = Disk(random.Random(1))
    safe.make_folder("/a/b")
    safe.link("/a/b/file", File())
    for folder in ("/a/b", "/a", ""):
        safe.sync_folder(folder)
    for one in (disk, safe):
        one._luck = _Nothing()
        one.lose_power()
    assert (list(disk.names), list(safe.names)) == ([], ["/a/b/file"])


class _Nothing(random.Random):
    """Nothing that was not synced is kept."""

    def randint(self, low, high):
        return low

"""Files of plans go once nobody needs them."""

from dataclasses import dataclass

from ridgeline.engine.state.storage import MemoryStorage
from ridgeline.engine.worker.plan_files import PlanFiles


@dataclass(frozen=True)
class File:
    names: tuple[str, ...]


def test_a_file_goes_with_the_second_purge_that_finds_it_unused():
    storage, files = MemoryStorage(), PlanFiles()
    one, other = File(("plans/one", "plans/package")), File(("plans/other", "plans/package"))
    storage.create("plans/package", b"")
    files.create(storage, "plans/one", b"", one)
    assert files.purge(storage) == frozenset()
    files.create(storage, "plans/other", b"", other)
    del one
    unused = files.purge(storage, frozenset())
    assert unused == {"plans/one"}
    assert storage.names("plans") == ["one", "other", "package"]
    assert files.purge(storage, unused) == frozenset()
    assert storage.names("plans") == ["other", "package"]


def test_equal_files_are_in_use_as_long_as_one_of_them_is():
    storage, files = MemoryStorage(), PlanFiles()
    first, second = File(("plans/one",)), File(("plans/one",))
    files.create(storage, "plans/one", b"", first)
    files.create(storage, "plans/one", b"", second)
    del first
    assert files.purge(storage) == frozenset()
    del second
    assert files.purge(storage) == frozenset()
    assert storage.names("plans") == []


def test_files_of_drivers_before_go_at_the_start():
    storage = MemoryStorage()
    storage.create("plans/before", b"")
    held = File(("plans/now",))
    files = PlanFiles()
    files.create(storage, "plans/now", b"", held)
    files.purge(storage)
    assert storage.names("plans") == ["now"]
    assert held.names

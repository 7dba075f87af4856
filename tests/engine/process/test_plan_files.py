"""Files of plans go once nobody needs them."""

from dataclasses import dataclass

import pytest

from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.engine.process import plan_distribution
from ridgeline.engine.process.plan_files import PlanFiles
from ridgeline.plan.container_spec import container_specs
from ridgeline.plan.planner import plan_application
from support.depth import deeper
from support.engine.applications import sum_application


@dataclass(frozen=True)
class File:
    names: tuple[str, ...]


def test_a_file_goes_with_the_second_purge_that_finds_it_unused():
    storage, files = MemoryStorage(), PlanFiles()
    one, other = File(("plans/one", "plans/package")), File(("plans/other", "plans/package"))
    storage.create("plans/package", b"")
    files.create(storage, "plans/one", b"", one)
    assert files.purge(storage, 1) == frozenset()
    files.create(storage, "plans/other", b"", other)
    del one
    unused = files.purge(storage, 1, frozenset())
    assert unused == {"plans/one"}
    assert storage.names("plans") == ["one", "other", "package"]
    assert files.purge(storage, 1, unused) == frozenset()
    assert storage.names("plans") == ["other", "package"]


def test_equal_files_are_in_use_as_long_as_one_of_them_is():
    storage, files = MemoryStorage(), PlanFiles()
    first, second = File(("plans/one",)), File(("plans/one",))
    files.create(storage, "plans/one", b"", first)
    files.create(storage, "plans/one", b"", second)
    del first
    assert files.purge(storage, 1) == frozenset()
    del second
    assert files.purge(storage, 1) == frozenset()
    assert storage.names("plans") == []


def test_files_of_drivers_before_go_at_the_start():
    storage = MemoryStorage()
    storage.create("plans/before", b"")
    held = File(("plans/now",))
    files = PlanFiles()
    files.create(storage, "plans/now", b"", held)
    files.purge(storage, 1)
    assert storage.names("plans") == ["now"]
    assert held.names


class Standing(MemoryStorage):
    """Its driver stands still where it looks for what it may remove, or just before it removes it."""

    def __init__(self, where):
        super().__init__()
        self.where = where
        self.meanwhile = lambda: None

    def _stand(self, where):
        if where == self.where:
            self.where = ""
            self.meanwhile()

    def names(self, folder):
        self._stand("names")
        return super().names(folder)

    def delete(self, names):
        self._stand("delete")
        super().delete(names)


@pytest.mark.parametrize(
    ("where", "first"),
    [
        pytest.param("names", True, id="first purge-names"),
        pytest.param("delete", False, id="later purge-delete"),
        pytest.param("names", False, id="later purge-names", marks=deeper),
        pytest.param("delete", True, id="first purge-delete", marks=deeper),
    ],
)
def test_a_driver_that_stands_still_removes_nothing_of_the_next_one(where, first):
    """Both run the same code, so their files have the same contents."""
    storage, files, others = Standing(where), PlanFiles(), PlanFiles()
    specs = container_specs(plan_application(sum_application(count=1)))
    mine = plan_distribution.distribute(storage, specs, epoch=1)
    next_one = []
    storage.meanwhile = lambda: next_one.append(plan_distribution.distribute(storage, specs, epoch=2))
    unused = None if first else frozenset(mine.names)
    files.purge(storage, 1, unused)
    assert plan_distribution.receive(storage, next_one[0])
    assert set(next_one[0].names) <= {f"plans/{name}" for name in storage.names("plans")}
    assert not storage.where
    others.create(storage, "plans/00000002-more", b"", next_one[0])
    others.purge(storage, 2)  # what the one before left
    assert {f"plans/{name}" for name in storage.names("plans")} == set(next_one[0].names)

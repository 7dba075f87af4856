"""Lists say where tests run; files begin in the order of how long they take."""

from pathlib import Path
from types import SimpleNamespace

import check_tests
from support import tiers
from support.paths import ROOT


def item(path, name, *marks):
    return SimpleNamespace(
        path=Path(ROOT, path), name=name, get_closest_marker=lambda mark: mark if mark in marks else None
    )


class Marked(SimpleNamespace):
    """A test as `set_marks` sees it."""

    def add_marker(self, name):
        self.marks.append(name)


def test_long_files_then_those_on_spark_then_the_rest(monkeypatch):
    monkeypatch.setattr(
        tiers, "seconds", lambda: {"tests/a/test_first.py": 9.0, "tests/a/test_last.py::b": 1.0}
    )
    monkeypatch.delenv("CI_TURN", raising=False)
    items = [
        item("tests/api/test_a.py", "a"),
        item("tests/api/test_b.py", "without"),
        item("tests/api/test_b.py", "with", "spark"),
        item("tests/a/test_last.py", "shorter"),
        item("tests/api/test_c.py", "c"),
        item("tests/a/test_first.py", "one", "spark"),
        item("tests/a/test_first.py", "two"),
    ]
    tiers.in_order(items)
    assert [one.name for one in items] == ["one", "two", "shorter", "without", "with", "a", "c"]


def test_each_file_comes_early_in_one_of_eight_commits(monkeypatch):
    monkeypatch.setenv("CI_TURN", "0")
    names = [f"tests/a/test_{number}.py" for number in range(80)]
    first = set()
    for turn in range(8):
        monkeypatch.setattr(tiers, "TURN", turn)
        items = [item(name, name) for name in names]
        tiers.in_order(items)
        first.update(one.name for one in items[:25])
    assert first == set(names)


def test_marks_follow_from_the_lists(monkeypatch):
    lists = {"deep": {"tests/test_a.py::test_all": (), "tests/test_a.py::test_some": ("one",)}, "kills": {}}
    monkeypatch.setattr(tiers, "listed", lists.__getitem__)
    names = ("test_all[one]", "test_some[one]", "test_some[two]", "test_new")
    items = [Marked(nodeid=f"tests/test_a.py::{name}", marks=[]) for name in names]
    tiers.set_marks(items)
    assert [one.nodeid for one in items if one.marks == ["deep"]] == [
        "tests/test_a.py::test_all[one]",
        "tests/test_a.py::test_some[two]",
    ]


def test_an_entry_that_names_no_test_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(check_tests, "LISTS", tmp_path)
    monkeypatch.setattr(check_tests, "ROOT", tmp_path)
    for name in ("kills", "pinned"):
        (tmp_path / f"{name}.txt").write_text("# nothing\n")
    (tmp_path / "deep.txt").write_text("tests/test_a.py::test_deep\ntests/test_a.py::test_gone\n")
    (tmp_path / "seconds.txt").write_text("tests/test_a.py::test_core\t1.5\ntests/test_a.py::test_deep\t7\n")
    known = {"tests/test_a.py::test_deep": False, "tests/test_a.py::test_core": False}
    gone, long = check_tests.check(known)
    assert "test_gone" in gone
    assert "--mend" in gone
    assert "test_core" in long
    assert "1.5" in long
    check_tests.mend(known)
    assert (tmp_path / "deep.txt").read_text() == "tests/test_a.py::test_deep\n"

"""Files of tests begin in the order of how long they take."""

from pathlib import Path
from types import SimpleNamespace

from support.longest_first import SECONDS, longest_first
from support.paths import ROOT


def item(path, name, *marks):
    return SimpleNamespace(
        path=Path(ROOT, path), name=name, get_closest_marker=lambda mark: mark if mark in marks else None
    )


def test_files_that_begin_first_exist():
    assert [path for path in SECONDS if not (ROOT / path).exists()] == []


def test_long_files_then_those_on_spark_then_the_rest():
    (first, _), *_, (last, _) = sorted(SECONDS.items(), key=lambda entry: -entry[1])
    items = [
        item("tests/api/test_a.py", "a"),
        item("tests/api/test_b.py", "without"),
        item("tests/api/test_b.py", "with", "spark"),
        item(last, "shorter"),
        item("tests/api/test_c.py", "c"),
        item(first, "one", "spark"),
        item(first, "two"),
    ]
    longest_first(items)
    assert [one.name for one in items] == ["one", "two", "shorter", "without", "with", "a", "c"]

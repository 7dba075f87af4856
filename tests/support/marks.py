"""Marks that say where a test runs: `make` collects only files whose text has them."""

import pytest

from support.paths import ROOT

PLACES = ("spark", "crash", "slow", "alone")


def check_marks(items):
    """Fail if a test has such a mark from elsewhere than its own file: `make` would never run it."""
    missed, texts = set(), {}
    for item in items:
        for mark in PLACES:
            if item.get_closest_marker(mark) is None:
                continue
            if item.path not in texts:
                texts[item.path] = item.path.read_text(encoding="utf-8")
            if f"mark.{mark}" not in texts[item.path] or not item.path.is_relative_to(ROOT / "tests"):
                where = f"`make` looks for `mark.{mark}` in tests/**/test_*.py"
                missed.add(f"{item.path} has tests marked `{mark}`, which would not run: {where}")
    if missed:
        raise pytest.UsageError("\n".join(sorted(missed)))

"""Key loads over periods: sums by cell, heavy keys with their shares, and what is forgotten."""

from __future__ import annotations

import numpy as np
import pytest

from ridgeline.measure.deciding.key_load import KeyFold, KeyLoad


def test_a_period_has_what_came_in_it():
    fold = KeyFold()
    fold.add("count", 1.0, np.array([5, 1]), 6, [(2, "home", 5), (3, "cart", 1)])
    fold.add("count", 20.0, np.array([1, 3]), 4, [(3, "cart", 3), (2, "home", 1)])
    recent = fold.counted("count", 15.0)
    assert recent.cells.tolist() == [1, 3]
    assert [(one.key, one.hash, one.share) for one in recent.heavy] == [("cart", 3, 0.75), ("home", 2, 0.25)]
    whole = fold.counted("count", 0.0)
    assert (whole.cells.tolist(), whole.tuples) == ([6, 4], 10)
    assert {one.key: one.share for one in whole.heavy} == {"home": 0.6, "cart": 0.4}
    assert fold.counted("count", 21.0) is None
    assert fold.counted("other", 0.0) is None


def test_a_sample_stands_for_all_and_says_how_far_it_may_be_off():
    fold = KeyFold()
    fold.add("count", 1.0, np.array([9_000, 1_000]), 100, [(2, "home", 30)])
    (home,) = fold.counted("count", 0.0).heavy
    assert home.share == pytest.approx(0.3)
    assert 0.05 < home.error < 0.15


def test_what_is_old_is_forgotten():
    fold = KeyFold(kept_seconds=10.0)
    for second in range(100):
        fold.add("count", float(second), np.array([1, 0]), 1, [(0, "home", 1)])
    assert fold.counted("count", 0.0).tuples == 11


def test_memory_is_bounded_with_ever_new_keys():
    fold = KeyFold()
    for window in range(200):
        heavy = [(1, "home", 10), *((10_000 * window + one, f"{window}.{one}", 1) for one in range(40))]
        fold.add("count", window / 1_000, np.array([25, 25]), 50, heavy)
    heavy = fold.counted("count", 0.0).heavy
    assert len(heavy) <= 20
    assert heavy[0].key == "home"
    assert heavy[0].share == pytest.approx(0.2, abs=0.05)


def test_another_number_of_cells_begins_anew():
    fold = KeyFold()
    fold.add("count", 1.0, np.array([1, 1]), 2, [])
    fold.add("count", 1.1, np.array([0, 0, 3, 0]), 3, [])
    assert fold.counted("count", 0.0).cells.tolist() == [0, 0, 3, 0]


def load(loads, owners, partitions, shared=()):
    return KeyLoad(2, np.array(loads), (), 1, 1.0, partitions, np.array(owners), dict(shared))


def test_partitions_get_their_cells_and_parts_of_shared_ones():
    one = load([0.5, 0.3, 0.1, 0.1], [0, 1, 2, 0], 3, {0: (0, 2)})
    assert one.by_partition.tolist() == pytest.approx([0.35, 0.3, 0.35])
    assert one.imbalance == pytest.approx(1.05)

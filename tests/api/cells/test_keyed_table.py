"""A table of numbers by key against a dict, and declarations that have a value for each instance."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.api.cells.keyed_table import NumberTable

KEYS = st.one_of(st.integers(-5, 5), st.integers(-(1 << 63), (1 << 63) - 1))
PUTS = st.lists(st.lists(st.tuples(KEYS, st.integers(-9, 9)), max_size=40), max_size=8)


def filled(puts: Any, dtype: Any = np.int64) -> tuple[NumberTable, dict[int, Any]]:
    table, model = NumberTable(dtype), {}
    for put in puts:
        keys, values = [key for key, _ in put], [value for _, value in put]
        table.set_many(np.array(keys, np.int64), np.array(values, dtype))
        model.update(zip(keys, values, strict=True))
    return table, model


@given(PUTS, st.lists(KEYS, max_size=20))
def test_it_holds_what_a_dict_does(puts: Any, others: list[int]) -> None:
    table, model = filled(puts)
    assert table.as_dict() == model
    keys = [*model, *others]
    rows = table.find(np.array(keys, np.int64))
    assert [table.values[row] if row >= 0 else None for row in rows.tolist()] == list(map(model.get, keys))
    assert rows.tolist() == table.find_all(keys).tolist() == list(map(table.find_one, keys))


def test_many_keys_fit_in() -> None:
    keys = np.random.default_rng(1).permutation(np.arange(-60_000, 60_000) * 0x9E3779B1)
    table = NumberTable(np.float64)
    for start in range(0, len(keys), 7_000):
        table.set_many(keys[start : start + 7_000], keys[start : start + 7_000] / 2)
    rows = table.find(keys)
    assert (table.values[rows] == keys / 2).all()
    assert len(np.unique(rows)) == len(table) == len(keys)
    assert (table.find(keys + 1) == -1).all()


@pytest.mark.parametrize("key", ["1", b"1", None, 1.5, float("nan"), float("inf"), 2**70, (1,), [1]])
def test_what_is_no_whole_number_is_not_there(key: object) -> None:
    table, _ = filled([[(1, 1)]])
    assert table.find_one(key) == -1


@pytest.mark.parametrize("key", [1, True, 1.0, 1 + 0j, np.int64(1), np.float64(1)])
def test_what_equals_a_key_finds_it(key: Any) -> None:
    table, _ = filled([[(1, 1)]])
    assert table.find_one(key) == (-1 if isinstance(key, complex) else 0)

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from ridgeline import KeyedState, ListState, Operator, State
from ridgeline.api.operator import state_cells


class Range(NamedTuple):
    high: int
    low: int


class Keeper(Operator):
    position = State(0)
    seen = State([])
    totals = KeyedState(int, default=0)
    ranges = KeyedState(Range)
    names = KeyedState(list, default=list)
    recent = ListState(float)


def keyed(kind, **options):
    cell = KeyedState(kind, **options).cell()
    cell.begin(0)
    return cell


@pytest.mark.guide("002", "Operator State")
def test_state_reads_like_an_attribute():
    keeper = Keeper()
    keeper.position += 2
    keeper.totals["a"] += 1
    keeper.names["a"].append("x")
    keeper.recent += [1.0]
    keeper.totals |= {"b": 5}
    assert (keeper.position, dict(keeper.totals), dict(keeper.names), list(keeper.recent)) == (
        2,
        {"a": 1, "b": 5},
        {"a": ["x"]},
        [1.0],
    )
    assert Keeper().position == 0
    assert Keeper().seen is not Keeper().seen
    assert isinstance(Keeper.totals, KeyedState)
    assert list(state_cells(keeper)) == ["position", "seen", "totals", "ranges", "names", "recent"]
    assert repr(keeper.totals) == "KeyedState(2 keys)"
    assert repr(keeper.recent) == "ListState(1 items)"


def test_keyed_and_list_state_cannot_be_assigned():
    with pytest.raises(
        AttributeError, match=r"^`Keeper\.totals` is keyed state; assign to its keys, or `clear\(\)` it$"
    ):
        Keeper().totals = {}
    with pytest.raises(
        AttributeError,
        match=r"^`Keeper\.recent` is list state; use its methods, such as `append` and `clear`$",
    ):
        Keeper().recent = []


def test_a_missing_key_starts_from_the_default():
    totals = keyed(int, default=0)
    assert totals["a"] == 0
    assert "a" not in totals
    assert totals.get("a") is None
    assert totals.get("a", 7) == 7
    assert totals.pop("a", 7) == 7
    assert totals.setdefault("a", 5) == 5 == totals["a"]
    with pytest.raises(KeyError, match="b"):
        totals.pop("b")
    with pytest.raises(KeyError, match="x"):
        keyed(int)["x"]


def test_the_default_is_copied_for_each_key():
    names = keyed(list, default=[0])
    names["a"].append(1)
    assert names["b"] == [0]
    assert dict(keyed(dict, default=dict)) == {}


def test_arrays_as_values_are_noticed_when_they_change_in_place():
    arrays = keyed(np.ndarray)
    arrays["a"], arrays["b"] = np.zeros(3), np.zeros(0)
    arrays.begin(1)
    assert arrays["a"].sum() + arrays["b"].sum() == 0
    assert arrays.changes() is None
    arrays["a"][1] = 5
    assert [key for key, _ in arrays.changed()] == ["a"]


def test_a_delta_costs_what_the_window_touched():
    totals = keyed(int)
    totals.put_many(range(1_000), range(1_000))
    totals.begin(1)
    totals[3] = 0
    del totals[4]
    assert totals.changes() == (False, 1, {3: 0}, [4])


@pytest.mark.parametrize(
    "make", [list, tuple, np.array, pa.array, lambda keys: pa.chunked_array([keys]), iter], ids=range(6)
)
def test_the_vectorised_side_takes_arrays_and_sequences(make):
    totals = keyed(int, default=0)
    totals.put_many(make([3, 1, 3]), make([30, 10, 31]))
    got = totals.get_many(make([1, 2, 3]))
    assert got.dtype == np.int64
    assert got.tolist() == [10, 0, 31]
    assert all(type(key) is int and type(value) is int for key, value in totals.items())


@pytest.mark.parametrize(
    ("kind", "values", "dtype"),
    [
        (int, [1, 2], np.int64),
        (float, [1, 2.5], np.float64),
        (bool, [True, False], np.bool_),
        (str, ["a", "b"], object),
    ],
)
def test_arrays_come_out_in_the_type_of_the_values(kind, values, dtype):
    cell = keyed(kind)
    cell.put_many(["x", "y"], values)
    keys, changed = cell.changed_arrays()
    assert (keys.dtype, changed.dtype, cell.get_many(["y"]).dtype) == (object, dtype, dtype)
    assert (keys.tolist(), changed.tolist()) == (["x", "y"], values)
    assert cell.get_many([]).tolist() == []


@pytest.mark.parametrize("values", [[Range(1, 0), Range(2, 1)], [[1, 2], [3, 4]], [np.zeros(2), np.ones(2)]])
def test_values_that_are_sequences_stay_single_values(values):
    cell = keyed(type(values[0]))
    cell.put_many(["a", "b"], values)
    got = cell.get_many(["a", "b"])
    assert (got.dtype, got.shape) == (object, (2,))
    assert [type(value) for value in got] == [type(value) for value in values]
    assert cell.changed_arrays()[1].shape == (2,)


def test_keys_that_are_tuples_stay_single_keys():
    cell = keyed(int, default=0)
    cell.put_many([("a", 1), ("b", 2)], [1, 2])
    assert cell.get_many([("b", 2), ("c", 3)]).tolist() == [2, 0]
    assert cell.changed_arrays()[0].tolist() == [("a", 1), ("b", 2)]


def test_get_many_of_missing_keys_without_a_default():
    with pytest.raises(KeyError, match="b"):
        keyed(int).get_many(["b"])
    with pytest.raises(KeyError, match="b"):
        keyed(Range).get_many(np.array(["b"]))


def test_put_many_of_different_lengths_is_refused():
    with pytest.raises(ValueError, match=r"^2 keys but 1 values$"):
        keyed(int).put_many([1, 2], [1])


def test_a_list_may_be_appended_to_itself():
    cell = ListState(int).cell()
    cell.extend([1, 2])
    cell.extend(cell)
    assert cell == [1, 2, 1, 2]


def test_what_is_appended_to_a_list_costs_only_itself():
    cell = ListState(int).cell()
    cell.extend(range(1_000))
    cell.begin(0)
    assert cell.changes() is None
    cell.append(7)
    assert cell.changes() == (1_000, [7])
    cell[998] = 5
    assert cell.changes() == (998, [5, 999, 7])

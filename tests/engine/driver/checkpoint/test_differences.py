import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.engine.driver.checkpoint.journal_record import difference, patched, same

LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text("ab", max_size=2)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text("abc", max_size=1), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(VALUES, VALUES)
def test_a_difference_leads_from_the_one_to_the_other(old, new):
    change = json.loads(json.dumps(difference(old, new)))
    assert same(patched(old, change), new)


@given(VALUES)
def test_a_value_has_no_difference_from_itself(value):
    again = json.loads(json.dumps(value))
    assert same(value, again)
    change = difference(value, again)
    assert change in (
        {},
        {"is": value},
        {"keep": [len(value), 0] if isinstance(value, list) else 0, "put": []},
    ) or (not isinstance(value, list | dict))


def test_values_that_are_equal_in_python_differ_in_json():
    values = [1, 1.0, True, 0, 0.0, -0.0, False, None, "", [], {}, math.nan]
    for one in values:
        for other in values:
            assert same(one, other) == (one is other)
            assert same([one], [other]) == (one is other)
    assert same(math.nan, float("nan"))


def test_a_longer_list_says_what_it_adds():
    assert difference({"a": ["x", "y"], "b": 1}, {"a": ["x", "y", "z"], "b": 1}) == {
        "change": {"a": {"keep": [2, 0], "put": ["z"]}}
    }
    assert difference(("s", "x", "y", "z"), ("t", "z")) == {"keep": [0, 1], "put": ("t",)}


def test_what_did_not_change_is_shared():
    old = {"a": ["x"], "b": {"c": [1]}}
    assert patched(old, {"set": {"d": 2}})["b"] is old["b"]


@pytest.mark.parametrize(
    "change", [{"drop": ["z"]}, {"change": {"z": {"is": 1}}}, {"change": {"a": {"keep": [2, 2], "put": []}}}]
)
def test_what_is_no_difference_of_a_value_is_refused(change):
    with pytest.raises(LookupError):
        patched({"a": ["x", "y", "z"]}, change)

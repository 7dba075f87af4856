import math

import pytest

from ridgeline.engine.driver.checkpoint.journal_record import difference, patched, same


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

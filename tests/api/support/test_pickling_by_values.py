"""Dataclasses that travel often are pickled as the values of their fields."""

import pickle
from dataclasses import dataclass

import pytest

from ridgeline.api.support.pickling import pickled_by_values
from ridgeline.plan.protocol import WindowRequest


@pickled_by_values
@dataclass(frozen=True, slots=True)
class One:
    number: int


@pickled_by_values
@dataclass(slots=True)
class Two:
    number: int
    name: str = "x"


@pytest.mark.parametrize(
    "instance", [One(3), Two(4, "y"), Two(4), WindowRequest(1, 2, 3, states=None, samples={(1, "out"): 3})]
)
def test_what_is_pickled_by_values_comes_back_without_the_names(instance):
    data = pickle.dumps(instance, 5)
    assert pickle.loads(data) == instance
    assert b"number" not in data
    assert b"window_id" not in data

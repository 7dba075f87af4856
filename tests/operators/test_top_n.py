import pickle
from typing import NamedTuple

import cloudpickle
import numpy as np
import pytest

from ridgeline import ValidationError
from ridgeline.operators import TopN
from support.operators.one_operator import collect


class Route(NamedTuple):
    route: str
    minutes: int


RANDOM = np.random.default_rng(5)
WINDOWS = [
    [Route(f"r{k}", int(v)) for k, v in RANDOM.integers(0, 30, (n, 2))] for n in (40, 0, 17, 3, 25, 60, 1)
]


def test_a_missing_column_is_reported():
    with pytest.raises(
        ValidationError, match=r"`by` names `delay`, which the stream \['route', 'minutes'\] does not have"
    ):
        collect(TopN(by="delay"), {"data": (Route, WINDOWS)}, "top")


def test_it_can_be_shipped():
    copy = pickle.loads(cloudpickle.dumps(TopN(by="minutes", size=3)))
    assert (copy.size, copy.by, copy.unifier_of("top").size, copy.unifier_of("top").by) == (
        3,
        "minutes",
        3,
        "minutes",
    )

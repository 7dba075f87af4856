"""Combinations of parameters of which each value is in some that always run."""

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

from support.depth import deeper


def share(parts: int, *values: Iterable[Any], spread: bool = False) -> list[Any]:
    """All combinations of values for `parametrize`. One in `parts` always runs, the others in deeper rounds.

    Each value is in one that runs if another list has `parts` values. `spread`: the first values are tuples
    of several parameters.
    """
    lists, found = [list(one) for one in values], []
    for places in product(*(range(len(one)) for one in lists)):
        chosen = [one[place] for one, place in zip(lists, places, strict=True)]
        if spread:
            chosen[:1] = chosen[0]
        found.append(pytest.param(*chosen, marks=() if sum(places) % parts == 0 else deeper))
    return found

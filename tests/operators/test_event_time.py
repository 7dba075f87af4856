"""`Windowed` over random streams, with kills and restarts, equals polars on the sorted data."""

from __future__ import annotations

from collections import Counter

import pytest

from support.depth import deep
from support.operators.event_time import check

QUICK = deep(12)


def test_random_streams_equal_polars_on_the_sorted_data() -> None:
    for seed in range(QUICK):
        check(seed)


@pytest.mark.slow
def test_hundreds_of_random_streams() -> None:
    seen: Counter[str] = Counter()
    for seed in range(deep(400)):
        told, late = check(seed)
        seen["late"] += late
        seen["kills"] += len(told.kills)
        seen["restarts"] += len(told.restarts)
        seen["idle"] += told.idle_after is not None
        seen["early"] += bool(told.options)
        seen[type(told.how).__name__ + str(told.zone_days and told.zone_days[0])] += 1
    assert len(seen) == 10, "five kinds, sliding (or tumbling) and session, three zones"
    assert min(seen.values()) > deep(25)

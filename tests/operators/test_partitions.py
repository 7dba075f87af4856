"""Library operators by key or with a unifier: results do not depend on the number of partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, Operator, RoundRobinPartitioner
from ridgeline.operators import (
    ConsolidatorKeyVal,
    Filter,
    Map,
    RangeKeyVal,
    SimpleMovingAverage,
    SumKeyVal,
    TopN,
)
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local


class Pair(NamedTuple):
    key: str
    value: int


class Range(NamedTuple):
    key: str
    high: int
    low: int


class Average(NamedTuple):
    key: str
    average: float


class Both(NamedTuple):
    key: str
    value: int


OPERATORS: dict[str, Callable[[], Operator]] = {
    "sum": SumKeyVal,
    "cumulative_sum": lambda: SumKeyVal(cumulative=True),
    "restarted_sum": lambda: SumKeyVal(cumulative=True, restart_every=2),
    "range": lambda: RangeKeyVal(schema=Range),
    "average": lambda: SimpleMovingAverage(schema=Average, window_size=2),
    "top": lambda: TopN(by="value", size=2),
    "top_by_key": lambda: TopN(by="value", size=2, keyed=True),
    "cumulative_top": lambda: TopN(by="value", size=2, cumulative=True),
    "cumulative_top_by_key": lambda: TopN(by="value", size=2, keyed=True, cumulative=True),
    "consolidated": lambda: ConsolidatorKeyVal(schema=Both),
    "filtered": lambda: Filter(predicate=lambda pair: pair.value > 0),
    "mapped": lambda: Map(function=lambda pair: Pair(pair.key, -pair.value), schema=Pair),
}
OF_PARTS = ["sum", "range", "top", "cumulative_top", "filtered", "mapped"]
"""Those whose unifier makes the results of parts into results, so that round robin is right too."""
WINDOWS = st.lists(
    st.lists(st.builds(Pair, st.sampled_from("abcde"), st.integers(-9, 9)), max_size=8),
    min_size=1,
    max_size=7,
)


def results(make: Callable[[], Operator], windows: list[list[Pair]], **attributes: Any) -> list[Counter[Any]]:
    """What it emits in each streaming window."""
    app = Application("one", window="1s")
    source = app.add_operator(
        "source", ListInput(Pair, [item for window in windows for item in (*window, END_WINDOW)])
    )
    operator: Any = app.add_operator("operator", make(), **attributes)
    sink = app.add_operator("sink", CollectorSink())
    entry, leaving = (
        ("in1", "out")
        if isinstance(operator, ConsolidatorKeyVal)
        else ("data", getattr(operator, "emits", "output"))
    )
    app.add_stream("in", source.output, getattr(operator, entry))
    app.add_stream("out", getattr(operator, leaving), sink.input)
    run = run_local(app)
    return [
        Counter(tuple(row.values()) for row in run.collected("sink", window)) for window in run.window_ids
    ]


@pytest.mark.guide("002", "Partitioning")
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", OPERATORS)
def test_results_do_not_depend_on_partitions(name: str, count: int) -> None:
    @settings(deadline=None, max_examples=2, suppress_health_check=[HealthCheck.too_slow])
    @given(WINDOWS)
    def check(windows: list[list[Pair]]) -> None:
        one = results(OPERATORS[name], windows, application_window_count=count)
        for partitions in (2, 3, 5):
            assert (
                results(OPERATORS[name], windows, application_window_count=count, partitions=partitions)
                == one
            )
            if name in OF_PARTS:
                options = {
                    "application_window_count": count,
                    "partitions": partitions,
                    "partitioner": RoundRobinPartitioner(),
                }
                assert results(OPERATORS[name], windows, **options, unifier_limit=2) == one

    check()

"""An application that goes on from a checkpoint with other operators around those that have state."""

from typing import Any, NamedTuple

import pytest

from ridgeline import Application
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.operators import Filter, SumKeyVal
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deeper


class Pair(NamedTuple):
    key: str
    value: int


def sums(filters: list[int]) -> Application:
    """Running sums behind filters of so many partitions each, so that the sum's physical id differs."""
    app = Application("sums", window="1s")
    stream: Any = app.add_operator("source", ListInput(Pair, [Pair("a", 1), END_WINDOW] * 40)).output
    for number, partitions in enumerate(filters):
        step = app.add_operator(f"filter{number}", Filter(predicate=bool), partitions=partitions)
        app.add_stream(f"to{number}", stream, step.data)
        stream = step.output
    total = app.add_operator("total", SumKeyVal(cumulative=True))
    app.add_stream("in", stream, total.data)
    app.add_stream("out", total.sum, app.add_operator("sink", CollectorSink(Pair)).input)
    return app


@pytest.mark.parametrize(
    ("changed", "windows"),
    [
        *(([2], 3), ([1, 1], 3), ([3, 2], 3), ([], 3), ([3, 2], 30)),
        *(pytest.param(changed, 30, marks=deeper) for changed in ([2], [1, 1], [])),
    ],
)
def test_state_is_found_again_when_ids_shift(changed: list[int], windows: int) -> None:
    """Of deltas alone (3 windows), and of what was merged of them (30)."""
    storage = MemoryStorage()
    first = run_local(sums([1]), checkpoint=storage, windows=windows)
    second = run_local(sums(changed), checkpoint=storage, windows=2)
    assert [row.value for row in first.collected("sink")] == list(range(1, windows + 1))
    assert [row.value for row in second.collected("sink")] == [windows + 1, windows + 2]

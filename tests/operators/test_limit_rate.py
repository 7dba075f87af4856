from typing import NamedTuple

import pytest

from ridgeline import Application
from ridgeline.operators import LimitRate
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local


class Number(NamedTuple):
    value: int


def passed(items: list[object], **given: float) -> list[list[int]]:
    """The values that pass in each window of a second."""
    app = Application("few", window="1s")
    parts = app.read("numbers", ListInput(Number, items)).process("few", LimitRate(**given))
    parts.output.write("sink", CollectorSink(Number))
    parts.rest.write("rest", CollectorSink(Number))
    run = run_local(app)
    found = [[row.value for row in run.collected("sink", window)] for window in run.window_ids]
    every = sorted(row.value for name in ("sink", "rest") for row in run.collected(name))
    assert every == sorted(item.value for item in items if isinstance(item, Number))
    return found


WINDOWS = [item for window in range(6) for item in (*(Number(10 * window + n) for n in range(8)), END_WINDOW)]


@pytest.mark.parametrize("rate", [1, 2, 5, 8, 100])
def test_so_many_a_second_pass_and_the_others_leave_elsewhere(rate: int) -> None:
    assert [len(window) for window in passed(WINDOWS, rate=rate)][:6] == [min(rate, 8)] * 6


def test_a_quiet_time_allows_a_burst() -> None:
    items = [Number(1), END_WINDOW, END_WINDOW, END_WINDOW, *map(Number, range(2, 12))]
    assert passed(items, rate=2, burst=5) == [[1], [], [], [2, 3, 4, 5, 6]]

"""Windows that begin with the clock while others are under way."""

from __future__ import annotations

import pytest

from ridgeline.measure.events import WindowPlanned
from support.engine.driven import WIDTH, Driven


@pytest.mark.guide("002", "Streaming Window")
def test_windows_are_due_by_the_clock_whatever_is_under_way():
    driven = Driven(seconds=0.25)
    driven.drive(windows=6)
    planned = driven.of(WindowPlanned)
    dues = [event.due - planned[0].due for event in planned]
    assert dues == pytest.approx([number * WIDTH for number in range(6)])
    assert all(event.at >= event.due for event in planned)

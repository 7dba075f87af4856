"""The budget of a window grows while full windows are quick, and falls where they are slow."""

from ridgeline.connect._enumerating import Budget
from ridgeline.testing import SteppingClock


def test_full_windows_grow_to_half_a_second() -> None:
    """A source of 4 million records in a full window, of which the machine does 1.5 million a second."""
    clock = SteppingClock()
    budget = Budget(clock)
    records = []
    for window in range(20):
        records.append(4_000_000 * budget.share)
        budget.began(window, full=True)
        clock.advance(records[-1] / 1_500_000)
        budget.committed(window)
    assert records[0] == 62_500
    assert records[:3] == [62_500, 250_000, 500_000]
    assert set(records[4:]) == {1_000_000}


def test_windows_that_take_all_change_nothing() -> None:
    clock = SteppingClock()
    budget = Budget(clock)
    first = budget.share
    for window in range(10):
        budget.began(window, full=False)
        clock.advance(0.01)
        budget.committed(window)
    assert budget.share == first


def test_slow_windows_fall() -> None:
    clock = SteppingClock()
    budget = Budget(clock)
    for window in range(20):
        budget.began(window, full=True)
        clock.advance(3.0)
        budget.committed(window)
    assert budget.share == 1 / 4096

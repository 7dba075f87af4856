"""A clock that somebody sets while a run goes on is told, once."""

import pytest

from ridgeline.engine.driver.run.reporter import Reporter
from ridgeline.measure.events import StateWarning
from ridgeline.observe.reporting import ClockSteps
from ridgeline.plan.planner import plan_application
from ridgeline.testing import SteppingClock
from support.testing.diamond import diamond


class SetClock(SteppingClock):
    """One whose wall clock can be set."""

    off = 0.0

    def wall(self):
        return super().wall() + self.off


@pytest.mark.parametrize(
    ("step", "what"), [(30.0, "set forward, or the host slept, by 30.0 s"), (-3600.0, "set back by 3600.0 s")]
)
def test_a_step_is_told_once(step, what):
    clock, events = SetClock(), []
    reporter = Reporter(plan_application(diamond()), clock, events.append)
    reporter.begin()
    for second in range(60):
        clock.advance(1.0)
        clock.off = step if second >= 30 else 0.0
        reporter.look_at_clock()
    (event,) = events
    assert isinstance(event, StateWarning)
    assert what in event.text


def test_a_clock_that_is_turned_slowly_is_no_step():
    steps = ClockSteps(1000.0, 0.0)
    assert not any(steps.look(1000.0 + second * 1.0005, second) for second in range(1, 100_000))
    assert not steps.look(1000.0 + 200_000 * 1.0005, 200_000)

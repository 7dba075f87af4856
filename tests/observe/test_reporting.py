"""Window reports as events, and clocks that somebody sets."""

from dataclasses import replace

import pytest

from ridgeline.engine.driver.run.reporter import Reporter
from ridgeline.measure.events import ContainerWindow, OperatorWindow, SourceProgress, StateWarning
from ridgeline.observe.own_metrics import MetricAggregation
from ridgeline.observe.reporting import ClockSteps, report_events, taken_events
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import OperatorReport, WindowReport
from ridgeline.testing import SteppingClock
from support.testing.diamond import diamond

CONTAINER = ContainerWindow(0.0, 3, 1, 0, "host", 42, "t0", 9.0, 10.0, 10.25, 12.1, 12.2, 12.5, 99)
READ = OperatorWindow(0.0, 3, 1, 1, 0, "host", 10.5, 11.0, 0.3, 0.25, 0.2, {}, {"out": 5})
SUM = OperatorWindow(0.0, 3, 1, 2, 0, "host", 11.0, 12.0, 0.9, 0.75, 0.1, {"in": 5}, {}, 1, 5, 7)
WORK = SourceProgress(0.0, 3, 1, 5.0, None, unit="units")


def test_a_report_holds_the_events_of_its_container_its_operators_and_their_sources():
    operators = [OperatorReport(replace(READ), WORK), OperatorReport(replace(SUM))]
    reports = [WindowReport(replace(CONTAINER), operators)]
    assert list(report_events(reports, 20.0, MetricAggregation(()))) == [
        replace(CONTAINER, at=20.0),
        replace(READ, at=20.0),
        replace(WORK, at=20.0, asked=11.3),
        replace(SUM, at=20.0),
    ]


def test_a_report_that_waited_in_its_slot_says_how_far_its_source_was_before_that():
    held = WindowReport(replace(CONTAINER), [OperatorReport(replace(READ), WORK)], held_seconds=7.0)
    assert [event.asked for event in taken_events(held)] == [11.3 - 7.0]


def test_reports_come_by_container_whatever_their_order():
    reports = [WindowReport(replace(CONTAINER, container=number)) for number in (2, 1)]
    assert [event.container for event in report_events(reports, 0.0, MetricAggregation(()))] == [1, 2]


# A clock that somebody sets while a run goes on is told, once -----------------------------------------------


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

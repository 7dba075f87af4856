"""Window reports as events."""

from dataclasses import replace

from ridgeline.measure.events import ContainerWindow, OperatorWindow, SourceProgress
from ridgeline.observe.own_metrics import MetricAggregation
from ridgeline.observe.reporting import report_events, taken_events
from ridgeline.plan.protocol import OperatorReport, WindowReport

CONTAINER = ContainerWindow(0.0, 3, 1, 0, "host", 42, "t0", 9.0, 10.0, 10.25, 12.1, 12.2, 12.5, 99)
READ = OperatorWindow(0.0, 3, 1, 1, 0, "host", 10.5, 11.0, 0.3, 0.25, 0.2, {}, {"out": 5})
SUM = OperatorWindow(0.0, 3, 1, 2, 0, "host", 11.0, 12.0, 0.9, 0.75, 0.1, {"in": 5}, {}, 1, 5, 7)
WORK = SourceProgress(0.0, 3, 1, 5.0, None, unit="units")


def test_a_report_holds_the_events_of_its_container_its_operators_and_their_sources():
    operators = [OperatorReport(replace(READ), WORK), OperatorReport(replace(SUM))]
    assert list(
        report_events([WindowReport(replace(CONTAINER), operators)], 20.0, MetricAggregation(()))
    ) == [
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

"""Window reports as events."""

from dataclasses import replace

from ridgeline.api.errors import Failure
from ridgeline.measure.events import ContainerWindow, OperatorWindow, SourceProgress
from ridgeline.plan.protocol import OperatorReport, WindowReport
from ridgeline.stram.reporting import report_events

READ = OperatorReport(
    1, began=10.5, ended=11.0, compute_seconds=0.3, tuples_out={"out": 5}, progress=(5.0, None)
)
SUM = OperatorReport(
    2,
    began=11.0,
    ended=12.0,
    compute_seconds=0.9,
    queue=5,
    tuples_in={"in": 5},
    errors=1,
    error_tuples=["x"],
    state_bytes=7,
)
REPORT = WindowReport(
    0,
    3,
    1,
    "t0",
    {},
    [READ, SUM],
    "host",
    42,
    task_began=9.0,
    began=10.0,
    restored=10.25,
    ran=12.1,
    written=12.2,
    received=12.5,
    bytes_out=99,
)


def test_a_report_becomes_its_container_its_operators_and_their_sources():
    container, read, source, total = report_events([REPORT], 20.0)

    assert container == ContainerWindow(
        20.0, 3, 1, 0, "host", 42, "t0", 9.0, 10.0, 10.25, 12.1, 12.2, 12.5, 99
    )
    assert isinstance(read, OperatorWindow)
    assert (read.began, read.ended, read.compute_seconds, read.wait_seconds, read.transfer_seconds) == (
        10.5,
        11.0,
        0.3,
        0.25,
        0.2,
    )
    assert source == SourceProgress(20.0, 3, 1, 5.0, None, unit="units")
    assert (total.wait_seconds, round(total.transfer_seconds, 6)) == (0.75, 0.1)
    assert (
        total.tuples_in,
        total.errors,
        total.error_tuples,
        total.state_bytes,
        total.queue,
        total.dropped,
    ) == (
        {"in": 5},
        1,
        ("x",),
        7,
        5,
        "",
    )


def test_reports_come_by_container_whatever_their_order():
    events = report_events(
        [replace(REPORT, container=2, operators=[]), replace(REPORT, container=1, operators=[])], 0.0
    )
    assert [event.container for event in events] == [1, 2]


def test_times_that_a_clock_makes_negative_are_zero_and_a_drop_is_told():
    dropped = replace(
        SUM, began=10.0, ended=10.1, dropped=Failure("app", "sum", 0, 3, "process", "ValueError: no")
    )
    _, total = report_events([replace(REPORT, operators=[dropped])], 0.0)
    assert (total.wait_seconds, total.transfer_seconds) == (0.0, 0.0)
    assert (
        total.dropped
        == "operator `sum` (partition 0) of application `app` failed in window 3 in `process`: ValueError: no"
    )

import math

import pytest

from ridgeline.measure.events import ApplicationPlanned, WindowPlanned
from ridgeline.measure.latency.window_phases import phase_table
from support.measure.simulated_window import BASE, graph, reported, run

TOPOLOGY = graph({"A": (0, 0), "B": (1, 1)}, ["AB"])
OVERHEAD = {
    "launch_ms": 4,
    "read_ms": 1,
    "restore_ms": 1,
    "decode_ms": 1,
    "state_ms": 2,
    "driver_ms": [0, 3, 4, 1, 2, 1],
}


def planned(window_seconds=0.0):
    return ApplicationPlanned(BASE, "app", "app-1", 0, window_seconds, TOPOLOGY, {}, {"host": "driver"})


def times_of(window, *, slow=0.0, every=0.1):
    return run(TOPOLOGY, {"A": 10, "B": 20 + slow}, window_id=window, began=BASE + every * window, **OVERHEAD)


def events_of(times, *, due=None):
    yield WindowPlanned(times.began, times.window_id, 0, times.began if due is None else due)
    yield from reported(TOPOLOGY, times, {0: "driver", 1: "driver"}, {})


def by_phase(table):
    return {phase.phase: phase for phase in table.phases}


def test_the_phases_of_a_run_add_up_and_are_explained():
    events = [
        planned(1.0),
        *(event for window in range(200) for event in events_of(times_of(window, slow=window % 10))),
    ]
    table = phase_table(events)
    assert (table.windows, table.left_out, table.every_seconds) == (150, 50, pytest.approx(0.1))
    assert math.fsum(phase.mean for phase in table.phases) == pytest.approx(table.whole.mean)
    assert math.fsum(phase.share for phase in table.phases) == pytest.approx(1.0)
    assert math.fsum(phase.first for phase in table.phases) == pytest.approx(table.whole.first)
    assert table.explained >= 0.95
    user = by_phase(table)["user code"]
    assert (user.median, user.mean, user.p95, user.first) == pytest.approx(
        (0.0345, 0.0345, 0.039, 0.030), abs=1e-6
    )


def test_the_driver_is_asked_for_the_time_between_windows_unless_the_schedule_waits():
    first, second = times_of(0), times_of(1)
    between = second.began - first.published
    back_to_back = phase_table([planned(), *events_of(first), *events_of(second)], warm_up=0)
    assert by_phase(back_to_back)["between windows"].first == pytest.approx(between)
    late = [planned(0.001), *events_of(first), *events_of(second, due=first.began)]
    assert by_phase(phase_table(late))["between windows"].first == pytest.approx(between)
    on_time = [planned(0.1), *events_of(first), *events_of(second)]
    assert "between windows" not in by_phase(phase_table(on_time))


def test_windows_that_overlap_come_more_often_than_they_take():
    first, second = times_of(0, every=0.05), times_of(1, every=0.05)
    overlapping = sorted([*events_of(first), *events_of(second)], key=lambda event: event.at)
    table = phase_table([planned(), *overlapping], warm_up=0)
    assert table.whole.median > table.every_seconds == pytest.approx(0.05)
    assert "between windows" not in by_phase(table)

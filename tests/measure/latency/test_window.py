import pytest

from ridgeline.measure.clocks import ClockOffsets
from ridgeline.measure.events import (
    ContainerWindow,
    OperatorWindow,
    SparkTrigger,
    WindowCommitted,
    WindowPlanned,
    WindowRetried,
)
from ridgeline.measure.latency.window import assemble, tasks_by_stage
from support.measure.simulated_window import SEED_MS, graph, run, seed_graph

COMMITTED = WindowCommitted(9.0, 3, 2, 1.0, 1.1, 1.2, 8.0, 8.1, 8.5, 9.0)


def container(number, host="h", at=2.0, window_id=3):
    return ContainerWindow(
        9.0, window_id, 1, number, host, 7, f"t{number}", at, at + 0.1, at + 0.2, at + 0.9, at + 1.0, 8.0
    )


def operator(number, where, host="h", at=2.2, window_id=3):
    spent, counts = (at, at + 0.7, 0.5, 0.0, 0.2), ({"a": 4, "b": 3}, {"x": 2, "y": 1})
    return OperatorWindow(9.0, window_id, 1, number, where, host, *spent, *counts)


def two():
    return graph({"A": (0, 0), "B": (1, 1)}, ["AB"])


def test_the_events_of_a_window_become_its_times():
    reports = [container(0), operator(1, 0), container(1, at=4.0), operator(2, 1, at=4.2)]
    times = assemble(two(), [WindowPlanned(1.0, 3, 0, 0.6), *reports, COMMITTED], ClockOffsets())
    assert (times.window_id, times.attempts, times.due, times.published) == (3, 2, 0.6, 9.0)
    assert times.late_seconds == pytest.approx(0.4)
    assert times.latency_seconds == pytest.approx(7.5)
    second = times.containers[1]
    assert (second.task, second.began, second.written) == ("t1", 4.1, 5.0)
    assert times.operators[2].compute_seconds == 0.5
    assert times.tuples(two()) == (3, 7)


def test_a_window_that_spark_triggered_begins_at_the_trigger():
    times = assemble(two(), [COMMITTED, SparkTrigger(10.0, 3, 0.75, {})], ClockOffsets())
    assert times.triggered == 0.75
    assert times.latency_seconds == 7.75
    assert times.late_seconds == 0.0  # nothing said when it was due


def test_other_windows_and_unknown_operators_are_left_out():
    others = [container(0, window_id=2), operator(1, 0, window_id=2), container(9), operator(9, 9)]
    times = assemble(two(), [*others, WindowRetried(1.0, 3, 1, "x"), COMMITTED], ClockOffsets())
    assert not times.containers
    assert not times.operators


def test_all_times_of_a_host_are_put_on_the_clock_of_stram():
    offsets = ClockOffsets(own_host="h")
    for second in range(3):
        offsets.add("far", second + 0.25, second)
    far = container(1, "far", 4.25), operator(2, 1, "far", 4.45)
    times = assemble(two(), [container(0), operator(1, 0), *far, COMMITTED], offsets)
    assert times.containers[0].began == 2.1
    assert times.containers[1].task_began == pytest.approx(4.0)
    assert times.containers[1].received == 8.0
    assert times.operators[2].ended == pytest.approx(4.9)


def test_containers_with_the_same_task_are_one_task_of_their_stage():
    topology = seed_graph()
    times = run(topology, SEED_MS, tasks={3: "t", 4: "u", 5: "t", 0: "t"}, launch_ms=1, read_ms=2)
    stages = tasks_by_stage(topology, times)
    assert [[task.containers for task in tasks] for tasks in stages] == [[(0,)], [(1,), (2,)], [(3, 5), (4,)]]
    task, first, last = stages[2][0], times.containers[3], times.containers[5]
    assert (task.entered, task.began, task.ended) == (first.task_began, first.began, last.written)

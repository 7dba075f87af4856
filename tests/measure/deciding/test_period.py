"""Figures over periods, of real runs in process: by hand where they can be, else beside other answers."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, Metric, Operator, OutputPort
from ridgeline.measure.deciding.figures import OperatorFigures
from ridgeline.observe.watch import Watch
from ridgeline.plan import edits
from ridgeline.policies import Repartition, StatsListener
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local


class Number(NamedTuple):
    value: int


class Odd(Operator):
    """Passes odd numbers on, refuses negative ones."""

    numbers = InputPort(Number, key="value")
    odd = OutputPort(Number)
    refused = OutputPort(Number, error=True, optional=True)
    taken = Metric(0, kind="counter")

    @numbers.process
    def take(self, number: Number) -> None:
        self.taken += 1
        if number.value < 0:
            self.refused.emit(number)
        elif number.value % 2:
            self.odd.emit(number)


def application(windows: int = 20, each: int = 6, partitions: int = 2, **options) -> Application:
    app = Application("odd", window="100ms")
    items = [
        item
        for window in range(windows)
        for item in (*(Number(window * each + one) for one in range(each)), END_WINDOW)
    ]
    source = app.add_operator("source", ListInput(Number, items[:-1]))
    odd = app.add_operator("odd", Odd(), partitions=partitions, **options)
    app.add_stream("numbers", source.output, odd.numbers)
    app.add_stream("odd", odd.odd, app.add_operator("sink", CollectorSink(Number)).input)
    return app


def watched(events, seconds=60.0, **known):
    """The figures of events, as of the last one."""
    watch = Watch(lambda: events[-1].at)
    watch.keep_figures()
    for event in events:
        watch.observe(event)
    return watch.application_figures(seconds, **known)


def test_sums_and_rates_are_those_of_the_run():
    run = run_local(application())
    figures = watched(run.events)
    odd = figures.operators["odd"]
    assert list(figures.operators) == ["source", "odd", "sink"]
    assert (odd.tuples_in, odd.tuples_out, odd.windows, odd.partitions) == (120, 60, 20, 2)
    assert odd.tuples_in_per_second == pytest.approx(120 / odd.seconds)
    assert sum(part.tuples_in for part in odd.by_partition) == 120
    assert odd.imbalance == max(part.tuples_in for part in odd.by_partition) / 60
    assert figures.operators["source"].is_input
    assert figures.operators["sink"].is_output
    assert {(edge.source, edge.sink, edge.tuples) for edge in figures.edges} == {
        ("source", "odd", 120),
        ("odd", "sink", 60),
    }
    assert odd.metrics == {"taken": 6.0}
    assert figures.window_latency.count == 20


def test_latencies_are_those_that_the_other_answers_have():
    run = run_local(application())
    figures = watched(run.events)
    logical = {row["operator"]: row for row in run.watch.latency()["logical"]}
    for name, operator in figures.operators.items():
        assert operator.latency.p50_seconds * 1000 == pytest.approx(
            logical[name]["p50Ms"], rel=0.05, abs=0.01
        )
        parts = [getattr(operator, part).mean_seconds for part in ("compute", "wait", "transfer")]
        assert sum(parts) == pytest.approx(operator.latency.mean_seconds, rel=1e-6, abs=1e-9)


def test_a_shorter_period_has_the_last_windows_only():
    run = run_local(application(windows=40))
    figures = watched(run.events)
    short = figures.for_seconds(1.0)
    assert 5 <= short.windows < figures.windows == 40
    assert short.operators["odd"].tuples_in == short.windows * 6
    assert figures.operators["odd"].for_seconds(1.0).tuples_in == short.windows * 6


def test_a_partition_that_came_later_counts_since_then():
    run = run_local(application(windows=60), changes={30: [edits.Repartition("odd", 3)]})
    odd = watched(run.events).operators["odd"]
    assert odd.partitions == len(odd.by_partition) == 3
    assert odd.tuples_in == 360
    assert sum(part.tuples_in for part in odd.by_partition) <= 180
    assert all(0 <= part.utilization <= 1 for part in odd.by_partition)


def test_slots_are_those_that_containers_could_have():
    events = run_local(application()).events
    assert (watched(events).slots, watched(events).slots_free) == (None, None)
    figures = watched(events, slots=4).for_seconds(1.0)
    assert (figures.slots, figures.slots_free) == (4, 3)  # in process all live in one


def test_nothing_is_known_before_the_first_window():
    run = run_local(application(windows=1))
    figures = watched(run.events[:1])
    odd = figures.operators["odd"]
    assert (figures.windows, odd.tuples_in, odd.latency.p50_seconds, odd.true_rate) == (0, 0, 0.0, None)
    assert (odd.utilization, odd.imbalance, odd.critical_path_share) == (0.0, 1.0, 0.0)
    assert figures.blame == {}


def test_memory_is_bounded():
    run = run_local(application(windows=50))
    watch = Watch(lambda: 0.0)
    watch.keep_figures()
    for event in run.events:
        watch.observe(event)
    with watch._settled() as measurement:
        for one in measurement.deciding.slices():
            assert all(len(rows) <= 64 for rows in one.rows.values())


class Doubles(StatsListener):
    """Once five windows are there."""

    at_least: int = 5

    def observe(self, figures: OperatorFigures) -> Repartition | None:
        if figures.windows >= self.at_least and figures.partitions < 4:
            return Repartition(figures.partitions * 2, note=f"{figures.windows} windows")
        return None


def test_a_listener_in_process_decides_after_each_window():
    run = run_local(application(partitions=1, stats_listeners=[Doubles()]))
    assert [(row["what"], row["state"], row["note"]) for row in run.watch.decisions()] == [
        ("repartition `odd` to 2", "APPLIED", "5 windows"),
        ("repartition `odd` to 4", "APPLIED", "6 windows"),
    ]
    assert run.decisions().column("by").to_pylist() == ["listener Doubles of odd"] * 2
    assert sorted(number.value for number in run.collected("sink")) == list(range(1, 120, 2))


class Self(Odd):
    """Listens to its own figures."""

    size: int = 1

    def observe(self, figures):
        return Repartition(2) if figures.windows == 3 else None


def test_an_operator_may_listen_to_itself():
    app = Application("own", window="100ms")
    source = app.add_operator(
        "source", ListInput(Number, [item for n in range(9) for item in (Number(n), END_WINDOW)])
    )
    odd = app.add_operator("odd", Self())
    app.add_stream("numbers", source.output, odd.numbers)
    app.add_stream("odd", odd.odd, app.add_operator("sink", CollectorSink(Number)).input)
    [row] = run_local(app).watch.decisions()
    assert (row["by"], row["state"]) == ("listener Self of odd", "APPLIED")

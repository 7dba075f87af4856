"""Figures over periods, of real runs in process: by hand where they can be, else beside other answers."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, Metric, Operator, OutputPort
from ridgeline.observe.watch import Watch
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


def test_nothing_is_known_before_the_first_window():
    run = run_local(application(windows=1))
    figures = watched(run.events[:1])
    odd = figures.operators["odd"]
    assert (figures.windows, odd.tuples_in, odd.latency.p50_seconds, odd.true_rate) == (0, 0, 0.0, None)
    assert (odd.utilization, odd.imbalance, odd.critical_path_share) == (0.0, 1.0, 0.0)
    assert figures.blame == {}

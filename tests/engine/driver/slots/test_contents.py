"""What slots are sent about each other: what concerns them, and no more."""

from typing import NamedTuple

import pytest

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort
from ridgeline.engine.driver.heartbeats import spaced_seconds


class Number(NamedTuple):
    key: int


class Read(InputOperator):
    output = OutputPort(Number)

    def emit_tuples(self):
        pass


class Count(Operator):
    data = InputPort(Number, key="key")

    @data.process
    def add(self, number):
        pass


def application(pipelines, partitions=2):
    app = Application("app")
    for number in range(pipelines):
        read = app.add_operator(f"read{number}", Read(), partitions=partitions)
        count = app.add_operator(f"count{number}", Count(), partitions=partitions)
        app.add_stream(f"numbers{number}", read.output, count.data)
    return app


@pytest.mark.parametrize(("workers", "seconds"), [(1, 1.0), (2_000, 1.0), (10_000, 5.0), (100_000, 7.5)])
def test_heartbeats_of_many_workers_come_less_often_and_in_time_for_the_watchdog(workers, seconds):
    assert spaced_seconds(1.0, 30.0, workers) == seconds


def test_heartbeats_that_are_rare_stay_as_they_are():
    assert spaced_seconds(20.0, 30.0, 100_000) == 20.0

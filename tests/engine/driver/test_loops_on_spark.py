"""A loop on Spark, in slots of which one is killed."""

import os
import signal
from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, Operator, OutputPort
from ridgeline.measure.events import SlotJoined
from ridgeline.operators import Delay
from ridgeline.testing import CollectorSink
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark


class Pair(NamedTuple):
    last: int
    next: int


class Step(Operator):
    pairs = InputPort(Pair)
    steps = OutputPort(Pair)

    @pairs.process
    def step(self, pair):
        if pair.next < 60:
            self.steps.emit(Pair(pair.next, pair.last + pair.next))


def test_fibonacci_comes_out_whatever_is_killed(spark_context, tmp_path):
    app = Application("fibonacci", window="10ms")
    step = app.add_operator("step", Step())
    delay = app.add_module("delay", Delay(Pair, first_window=[Pair(0, 1)]), recovery_attempts=5)
    sink = app.add_operator("sink", CollectorSink(Pair))
    app.add_stream("again", delay.output, step.pairs)
    app.add_stream("steps", step.steps, delay.input, sink.input, locality="NODE_LOCAL")
    killed = []

    def each(run, event):
        joined = run.of_type(SlotJoined)
        if event.window_id >= 3 and joined and not killed:
            killed.append(joined[-1].pid)
            os.kill(killed[0], signal.SIGKILL)

    run = run_on_spark(app, spark_context, tmp_path / "checkpoint", each=each)
    assert [pair.last for pair in run.collected("sink")] == [1, 1, 2, 3, 5, 8, 13, 21, 34, 55]
    assert killed

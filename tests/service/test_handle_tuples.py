"""Results and samples in the hands of a notebook, and several applications in one process."""

from typing import NamedTuple

import pytest

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Operator,
    OperatorError,
    OutputPort,
    RidgelineError,
    State,
)
from ridgeline.testing import CollectorSink
from support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.spark


class Number(NamedTuple):
    value: int


class Total(NamedTuple):
    key: int
    total: int


class Numbers(InputOperator):
    output = OutputPort(Number)

    count: int = 0
    position = State(0)

    def emit_tuples(self):
        for value in range(self.position, self.position + 10):
            self.output.emit(Number(value))
        self.position += 10
        if self.count and self.position >= self.count:
            self.finish()


class Totals(Operator):
    numbers = InputPort(Number, key=lambda number: number.value % 3)
    totals = OutputPort(Total)

    fail_at: int = -1
    sums = KeyedState(int, default=0)

    @numbers.process
    def add(self, number: Number) -> None:
        self.check(number)
        self.sums[number.value % 3] += number.value

    def check(self, number):
        if number.value == self.fail_at:
            raise ValueError(number)  # the user's line

    def end_window(self):
        for key, total in self.sums.changed():
            self.totals.emit(Total(key, total))


def application(name, count=0, partitions=2, fail_at=-1):
    app = Application(name, window="50ms")
    numbers = app.add_operator("numbers", Numbers(count=count))
    totals = app.add_operator("totals", Totals(fail_at=fail_at), partitions=partitions)
    sink = app.add_operator("sink", CollectorSink(Total))
    app.add_stream("values", numbers.output, totals.numbers)
    app.add_stream("changes", totals.totals, sink.input)
    return app


@pytest.fixture(autouse=True)
def own_registry(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path / "home"))


def test_the_users_line_stands_in_the_exception(spark_context):
    handle = application("failing", count=50, fail_at=7).start(context=spark_context, port=None)
    with pytest.raises(OperatorError) as caught:
        handle.wait(PATIENCE_SECONDS)
    text = str(caught.value)
    assert "ValueError: Number(value=7)" in text
    assert "test_handle_tuples.py" in text
    assert "raise ValueError(number)  # the user's line" in text
    assert "delivery.py" not in text
    assert "delivery.py" in caught.value.failure.traceback


@pytest.mark.slow
def test_applications_share_the_spark_of_the_process(spark_context, wait_until):
    first = application("first").start(port=None)
    second = application("second", count=50, partitions=1).start(port=None)
    assert second.wait(PATIENCE_SECONDS).ended
    before = first.watch.info()["stats"]["windowsCommitted"]
    first.tail("values", timeout=PATIENCE_SECONDS)
    wait_until(
        lambda: first.watch.info()["stats"]["windowsCommitted"] > before or first.state != "RUNNING",
        "it to go on when the other has ended",
    )
    assert first.state == "RUNNING"
    assert len(second.collected("sink")) == 15
    first.stop(PATIENCE_SECONDS)
    assert spark_context.parallelize([1]).count() == 1, "somebody else's context stays"
    with pytest.raises(
        RidgelineError,
        match=r"Spark runs in this process already, on `local\[4,4\]`, .*; "
        r"`local\[7\]` was given: leave it out",
    ):
        application("other").start("local[7]", port=None)
    with pytest.raises(
        RidgelineError, match=r"Spark runs in this process already, with another `spark.x` or none"
    ):
        application("other").start(conf={"spark.x": "1"}, port=None)

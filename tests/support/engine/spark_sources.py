"""Applications whose windows are micro-batches of Spark."""

from typing import NamedTuple

from ridgeline import Application, InputPort, Operator, OutputPort, State
from ridgeline.operators import SparkInput
from support.engine.applications import Counter, Number, Sum, sink


def odd(frame):
    return frame.where("value % 2 = 1").select("value")


def even(frame):
    return frame.where("value % 2 = 0").select("value")


def timed(frame):
    return frame.selectExpr("value", "value % 3 AS key", "timestamp_seconds(1767225600 + value) AS time")


def rate_application(summing=None, *, rows=100, partitions=1):
    """Odd numbers of a rate source, their running sum, a sink."""
    app = Application("rate", window="1ms")
    source = SparkInput(
        format="rate-micro-batch", options={"rowsPerBatch": rows}, schema=Number, transform=odd
    )
    numbers = app.add_operator("numbers", source, partitions=partitions)
    total = app.add_operator("total", summing or Sum())
    app.add_stream("numbers", numbers.output, total.numbers)
    app.add_stream("sums", total.sums, sink(app, "store", Number))
    return app


def folder_application(format, folder):
    """Numbers in files of a folder, one file a window, their running sum, a sink."""
    app = Application("folder", window="1ms")
    source = SparkInput(format=format, options={"path": str(folder), "maxFilesPerTrigger": 1}, schema=Number)
    numbers = app.add_operator("numbers", source, partitions=2)
    total = app.add_operator("total", Sum())
    app.add_stream("numbers", numbers.output, total.numbers)
    app.add_stream("sums", total.sums, sink(app, "store", Number))
    return app


class Both(NamedTuple):
    first: int
    second: int


class SumBoth(Operator):
    """The running sums of two streams."""

    first = InputPort(Number)
    second = InputPort(Number)
    sums = OutputPort(Both)

    totals = State((0, 0))

    @first.process
    def add_first(self, number):
        self.totals = (self.totals[0] + number.value, self.totals[1])

    @second.process
    def add_second(self, number):
        self.totals = (self.totals[0], self.totals[1] + number.value)

    def end_window(self):
        self.sums.emit(Both(*self.totals))


def mixed_application(first):
    """The tuples of `first` (an input operator and its port's name) beside odd numbers of a rate source."""
    app = Application("mixed", window="1ms")
    operator, port = first
    numbers = app.add_operator("first", operator, partitions=2)
    odds = app.add_operator(
        "odds",
        SparkInput(format="rate-micro-batch", options={"rowsPerBatch": 100}, schema=Number, transform=odd),
    )
    both = app.add_operator("both", SumBoth())
    app.add_stream("first", getattr(numbers, port), both.first)
    app.add_stream("second", odds.output, both.second)
    app.add_stream("sums", both.sums, sink(app, "store", Both))
    return app


def python_beside_spark():
    return mixed_application((Counter(count=45, per_window=10), "numbers"))

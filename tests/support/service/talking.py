"""An application of two partitions that reads rows of Spark."""

from typing import NamedTuple

from ridgeline import Application, InputPort, Operator
from ridgeline.operators import SparkInput


class Number(NamedTuple):
    value: int


class Talks(Operator):
    input = InputPort(Number)

    @input.process
    def take(self, number: Number) -> None:
        pass


app = Application("talking", window="100ms")
source = SparkInput(format="rate-micro-batch", options={"rowsPerBatch": "1000"}, schema=Number)
numbers = app.add_operator("numbers", source)
talks = app.add_operator("talks", Talks(), partitions=2)
app.add_stream("numbers", numbers.output, talks.input)

"""An application that says much: it prints, logs, and knows a secret. Rows of Spark, two partitions."""

import logging
from typing import NamedTuple

from ridgeline import Application, InputPort, Operator
from ridgeline.operators import SparkInput

TOKEN = "planted-secret"


class Number(NamedTuple):
    value: int


class Talks(Operator):
    """Says something for every hundredth number."""

    input = InputPort(Number)

    token: str = TOKEN

    @input.process
    def take(self, number: Number) -> None:
        if number.value % 100 == 0:
            print(f"number {number.value}, known to {self.token}")
            logging.getLogger("talks").warning("hundreds: %d\x1b[2J", number.value)


app = Application("talking", window="100ms")
source = SparkInput(format="rate-micro-batch", options={"rowsPerBatch": "1000"}, schema=Number)
numbers = app.add_operator("numbers", source)
talks = app.add_operator("talks", Talks(), partitions=2)
app.add_stream("numbers", numbers.output, talks.input)

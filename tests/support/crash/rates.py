"""A Spark source with a transformation, a running sum, files; it can wait after the commit of a window."""

import time
from pathlib import Path
from typing import NamedTuple

from ridgeline import Application, InputPort, Operator, OutputPort, State
from ridgeline.api.publisher import Publisher
from ridgeline.operators import FileOutput, SparkInput


class Number(NamedTuple):
    value: int


class Sum(NamedTuple):
    window: int
    sum: int


def odd(frame):
    return frame.where("value % 2 = 1").select("value")


class RunningSum(Operator):
    numbers = InputPort(Number)
    sums = OutputPort(Sum)

    total = State(0)

    @numbers.process
    def add(self, number):
        self.total += number.value

    def end_window(self):
        self.sums.emit(Sum(self.context.window_id, self.total))


class Gate(Operator):
    """Holds the driver between commit and publication while the file `hold` is in `folder`."""

    sums = InputPort(Sum)

    folder: str

    @sums.process
    def ignore(self, sum):
        pass

    def publisher(self):
        return GatePublisher(self.folder)


class GatePublisher(Publisher):
    def __init__(self, folder):
        self.folder = folder

    def publish(self, window_id):
        while Path(self.folder, "hold").exists():
            Path(self.folder, f"held-{window_id}").touch()
            time.sleep(0.01)


def application(output: str, folder: str) -> Application:
    app = Application("rates", window="50ms")
    source = SparkInput(
        format="rate-micro-batch", options={"rowsPerBatch": 100}, schema=Number, transform=odd
    )
    numbers = app.add_operator("numbers", source)
    total = app.add_operator("total", RunningSum())
    gate = app.add_operator("gate", Gate(folder=folder))
    store = app.add_operator("store", FileOutput(path=output, format="jsonl", roll_seconds=0))
    app.add_stream("numbers", numbers.output, total.numbers)
    app.add_stream("sums", total.sums, gate.sums, store.input)
    return app

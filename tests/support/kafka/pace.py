"""Messages of a Kafka topic through a slow operator that records each message when it is done with it."""

import struct
import time
from pathlib import Path
from typing import NamedTuple

from ridgeline import Application, InputPort, Operator, OutputPort
from ridgeline.operators import ConsoleOutput, SparkInput

COUNTER = struct.Struct("<q")


class Message(NamedTuple):
    value: str


class Total(NamedTuple):
    messages: int


def text(frame):
    return frame.selectExpr("CAST(value AS STRING) AS value")


class Slow(Operator):
    """`per_second` messages each second at most; how many it has taken in all lies in the file `counter`."""

    messages = InputPort(Message)
    totals = OutputPort(Total)

    counter: str
    per_second: float

    def setup(self, context):
        Path(self.counter).touch()
        self._file = open(self.counter, "r+b", buffering=0)  # noqa: SIM115, PTH123

    @messages.process
    def take(self, message):
        begin = max(self._due, time.monotonic() - 0.05)
        time.sleep(max(0.0, begin - time.monotonic()))
        self._due = begin + 1 / self.per_second
        self._taken += 1
        self._file.seek(0)
        self._file.write(COUNTER.pack(self._taken))

    def begin_window(self, window_id):
        self._file.seek(0)
        self._taken = COUNTER.unpack(self._file.read(COUNTER.size) or bytes(COUNTER.size))[0]
        self._due = time.monotonic()

    def end_window(self):
        self.totals.emit(Total(self._taken))


def application(brokers: str, topic: str, counter: str, window: str) -> Application:
    app = Application("pace", window=window)
    options = {"kafka.bootstrap.servers": brokers, "subscribe": topic, "startingOffsets": "earliest"}
    source = app.add_operator(
        "messages", SparkInput(format="kafka", options=options, schema=Message, transform=text)
    )
    slow = app.add_operator("slow", Slow(counter=counter, per_second=100.0))
    console = app.add_operator("console", ConsoleOutput())
    app.add_stream("messages", source.output, slow.messages)
    app.add_stream("totals", slow.totals, console.input)
    return app

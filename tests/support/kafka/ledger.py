"""Messages of a Kafka topic into files, each with its running number by key."""

from typing import NamedTuple

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.operators import FileOutput, SparkInput


class Message(NamedTuple):
    partition: int
    offset: int
    key: str
    value: int


class Entry(NamedTuple):
    key: str
    value: int
    number: int
    partition: int
    offset: int


def parsed(frame):
    return frame.selectExpr(
        "partition", "offset", "CAST(key AS STRING) AS key", "CAST(CAST(value AS STRING) AS BIGINT) AS value"
    )


class Numbered(Operator):
    """Number the messages of each key."""

    messages = InputPort(Message, key="key")
    entries = OutputPort(Entry)

    seen = KeyedState(int, default=0)

    @messages.process
    def number(self, message):
        self.seen[message.key] += 1
        self.entries.emit(
            Entry(message.key, message.value, self.seen[message.key], message.partition, message.offset)
        )


def application(brokers: str, topic: str, output: str) -> Application:
    app = Application("ledger", window="200ms")
    options = {
        "kafka.bootstrap.servers": brokers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": 10_000,
    }
    source = app.add_operator(
        "messages", SparkInput(format="kafka", options=options, schema=Message, transform=parsed)
    )
    numbered = app.add_operator("numbered", Numbered(), partitions=2)
    store = app.add_operator("store", FileOutput(path=output, format="jsonl", roll_seconds=1))
    app.add_stream("messages", source.output, numbered.messages)
    app.add_stream("entries", numbered.entries, store.input)
    return app

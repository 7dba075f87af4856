"""Kafka to Kafka over three operators; one fails if a row of a key is missing, twice or out of order."""

from typing import NamedTuple

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.operators.kafka import KafkaInput, KafkaOutput


class Numbered(NamedTuple):
    key: str
    number: int


class PassOn(Operator):
    rows = InputPort(Numbered, key="key")
    passed = OutputPort(Numbered)

    @rows.process
    def on(self, row):
        self.passed.emit(row)


class Check(Operator):
    rows = InputPort(Numbered, key="key")
    checked = OutputPort(Numbered)
    last = KeyedState(int, default=-1)

    @rows.process
    def check(self, row):
        expected = self.last[row.key] + 1
        if row.number != expected:
            msg = f"key {row.key}: {row.number} came, {expected} was due"
            raise ValueError(msg)
        self.last[row.key] = row.number
        self.checked.emit(row)


def application(
    servers: str, source: str, target: str, name: str, inputs: int = 2, checks: int = 2, outputs: int = 2
) -> Application:
    app = Application(name, window="20ms")
    properties = {"key": "key", "discover_every": "1s", "group": f"g-{name}"}
    read = KafkaInput(source, servers=servers, schema=Numbered, **properties)
    rows = app.read("read", read, partitions=inputs)
    passed = rows.process("pass_on", PassOn(), partitions=checks).filter("valid", "number >= 0")
    checked = passed.process("check", Check(), partitions=checks)
    checked.write("write", KafkaOutput(target, key="key", servers=servers), partitions=outputs)
    return app

"""Files, then a topic, over three operators to a topic; one fails if a row of a key is missing or twice."""

from datetime import datetime
from typing import NamedTuple

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.operators import FileInput
from ridgeline.operators.kafka import KafkaInput, KafkaOutput


class Timed(NamedTuple):
    key: str
    number: int
    at: datetime


class Check(Operator):
    rows = InputPort(Timed, key="key")
    checked = OutputPort(Timed)
    last = KeyedState(int, default=-1)

    @rows.process
    def check(self, row):
        expected = self.last[row.key] + 1
        if row.number != expected:
            raise ValueError(f"key {row.key}: {row.number} came, {expected} was due")
        self.last[row.key] = row.number
        self.checked.emit(row)


def application(servers: str, source: str, target: str, archive: str, name: str) -> Application:
    app = Application(name, window="20ms")
    old = FileInput(f"{archive}/*.jsonl", Timed, window_bytes=65_536, settle=0)
    given = {"key": "key", "timestamp": "at", "lateness": "1s", "discover_every": "1s"}
    read = KafkaInput(source, servers=servers, schema=Timed, history=old, **given)
    checked = app.read("read", read).process("check", Check(), partitions=2)
    checked.write("write", KafkaOutput(target, key="key", servers=servers), partitions=2)
    return app

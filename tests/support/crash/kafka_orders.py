"""Kafka to Kafka over three operators; one fails if a row of a key is missing, twice or out of order."""

from queued import Check, Numbered, PassOn

from ridgeline import Application
from ridgeline.connectors.kafka import KafkaInput, KafkaOutput


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

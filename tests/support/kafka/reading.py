"""The driver's half of a `KafkaInput`, window by window."""

from typing import NamedTuple

from ridgeline import EnumeratorContext
from ridgeline.api.clock import SystemClock
from ridgeline.connectors.kafka import KafkaInput
from support.waiting import wait_until


class Number(NamedTuple):
    number: int


class Reading:
    """The driver's half of an input, window by window. `texts`: those that users see."""

    def __init__(self, kafka, topic, **properties):
        servers = properties.pop("servers", kafka.servers)
        source = KafkaInput(topic, servers=servers, schema=Number, discover_every="1s", **properties)
        self.texts, self.offset, self.window = [], None, 0
        self.enumerator = source.enumerator()
        context = EnumeratorContext(
            application="app",
            operator="numbers",
            run_id=topic,
            clock=SystemClock(),
            wake=lambda: None,
            check_owner=lambda: None,
            warn=self.texts.append,
            partitions=lambda: 1,
            staging="memory:",
        )
        self.enumerator.open(context, None)

    def step(self):
        """A window, committed at once: where it ends, by partition of the topic."""
        self.offset = self.enumerator.advance(self.window, self.offset)
        self.enumerator.committed(self.window, self.offset)
        self.window += 1
        return {name: position for name, (_, position) in self.offset["at"].items()}

    def until(self, condition, what):
        """Windows until the condition is true of where one ends."""
        wait_until(lambda: condition(self.step()), what, every=0.02)

    def says(self, words):
        return any(words in text for text in self.texts)

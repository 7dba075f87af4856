"""The conformance tests of `KafkaOutput` against a broker."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from ridgeline.connect.window_output import WindowOutput
from ridgeline.operators.kafka import KafkaOutput
from ridgeline.testing import ConnectorRow, ConnectorTarget, connector_checks
from support.waiting import wait_until

_PARTITIONS = 2
_MOST_BYTES = 200_000


class Topic(ConnectorTarget):
    why_not_down = "the client connects to the addresses that brokers announce"

    def __init__(self, kafka: Any, *, transactional: bool) -> None:
        self.kafka, self.topic = kafka, kafka.topic(partitions=_PARTITIONS)
        self.transactional = transactional

    def output(self) -> WindowOutput:
        return KafkaOutput(
            self.topic, servers=self.kafka.servers, key="key", format="json", transactional=self.transactional
        )

    def poison(self) -> ConnectorRow | None:
        return ConnectorRow(10**6, 99, "poison " * 10 * _MOST_BYTES, 1.0)

    def consumer(self, isolation: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.kafka.direct_servers,
                "group.id": f"{self.topic}.reader",
                "enable.auto.commit": False,
                "isolation.level": isolation,
            }
        )

    def rows(self) -> Sequence[Any]:
        """What a reader of committed records finds, once no transaction is open."""
        every, committed = self.consumer("read_uncommitted"), self.consumer("read_committed")
        places = [TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in range(_PARTITIONS)]

        def ends(consumer: Consumer) -> list[int]:
            return [consumer.get_watermark_offsets(place, 30.0)[1] for place in places]

        try:
            wait_until(lambda: ends(every) == ends(committed), "transactions to end", every=0.02)
            committed.assign(places)
            found, last = [], ends(committed)

            def is_read() -> bool:
                message = committed.poll(0.1)
                if message is not None and message.error() is None:
                    row = json.loads(message.value())
                    found.append((row["id"], row["key"], row["text"], row["value"]))
                at = [place.offset for place in committed.position(places)]
                return all(one >= end or not end for one, end in zip(at, last, strict=True))

            wait_until(is_read, "all rows", every=0)
        finally:
            every.close()
            committed.close()
        return found


@pytest.mark.slow
@pytest.mark.parametrize("transactional", [True, False])
def test_kafka_keeps_its_guarantee(kafka: Any, transactional: bool) -> None:
    guarantee = "exactly once" if transactional else "at least once"
    report = connector_checks(lambda: Topic(kafka, transactional=transactional), guarantee=guarantee)
    assert report.guarantee == guarantee

"""Scratch topics of Kafka: each has its own topic, and its own group for the marks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.connect.scratch import SCRATCH, ScratchPlace
from ridgeline.operators._scratch import KEY, POISON, WHO, copied, left_out
from ridgeline.operators.kafka._client import (
    Trouble,
    code_of,
    codes,
    found_servers,
    library,
    made,
    reason,
    refuse,
    settings,
)
from ridgeline.operators.kafka._sink import connecting

if TYPE_CHECKING:
    from ridgeline.operators.kafka.kafka_output import KafkaOutput

_SECONDS = 30.0
_SETTLED_SECONDS = 10.0
"""The broker ends a transaction soon after it has confirmed the commit."""
_MOST_BYTES = 200_000
_MOST_PARTITIONS = 3
_PLAIN: dict[str, Any] = {
    "format": "json",
    "headers": {},
    "timestamp": None,
    "partition": None,
    "topic_column": None,
    "deleted": None,
    "message": None,
    "avro_schema": None,
    "registry": None,
    "registry_password": "",
    "registry_certificates": None,
}
"""Properties that name columns of the user's, or need a schema of theirs."""


class ScratchTopics:
    """The scratch topics of a broker, and the groups that have their marks."""

    def __init__(self, output: KafkaOutput) -> None:
        self._servers, self._options = found_servers(output.servers), output.options
        self._trouble = Trouble()

    def client(self, kind: str, own: dict[str, Any]) -> Any:
        """A client with the settings of the user's connection."""
        chosen = settings(self._servers, connecting(self._options), WHO, self._trouble, own)
        return made(kind, chosen, WHO)

    def topics(self) -> dict[str, Any]:
        """All topics by name. Raises RidgelineError if no broker answers, or the user may not."""
        try:
            found: dict[str, Any] = self.client("AdminClient", {}).list_topics(timeout=_SECONDS).topics
        except library().KafkaException as error:
            refuse([error], WHO, "list topics")
            msg = f"Kafka at {self._servers} does not answer: {reason(error, self._trouble)}; start it, or "
            msg += "correct `servers`"
            raise RidgelineError(msg) from None
        return found

    def left(self) -> list[str]:
        """The names of all scratch topics, and of those whose group alone is left."""
        groups = {name.split(".")[1] for name in self._groups()}
        return sorted({name for name in self.topics() if name.startswith(SCRATCH)} | groups)

    def _groups(self) -> list[str]:
        """The groups with marks of scratch topics."""
        admin = self.client("AdminClient", {})  # lives until the answer is there
        found = admin.list_consumer_groups(request_timeout=_SECONDS).result(_SECONDS)
        names = [one.group_id for one in found.valid]
        return [name for name in names if name.startswith(f"ridgeline.{SCRATCH}")]

    def remove(self, names: Sequence[str]) -> None:
        """Remove topics and their groups. Raises RidgelineError if the broker refuses."""
        admin, there = self.client("AdminClient", {}), self.topics()
        topics = [name for name in names if name in there]
        groups = [name for name in self._groups() if name.split(".")[1] in names]
        futures = admin.delete_topics(topics, request_timeout=_SECONDS) if topics else {}
        if groups:
            futures |= admin.delete_consumer_groups(groups, request_timeout=_SECONDS)
        gone = codes("UNKNOWN_TOPIC_OR_PART", "GROUP_ID_NOT_FOUND")
        for name, future in futures.items():
            try:
                future.result(_SECONDS)
            except library().KafkaException as error:
                if code_of(error) not in gone:
                    raise RidgelineError(
                        f"Kafka keeps `{name}`: {reason(error, self._trouble)}; remove it by hand"
                    ) from None


class KafkaScratch(ScratchPlace):
    """A topic with as many replicas as the user's has, and up to three partitions."""

    why_no_relay = "the client connects to the addresses that brokers announce"

    def __init__(self, output: KafkaOutput, name: str) -> None:
        self._output, self._name = output, name
        self._topics = ScratchTopics(output)
        topic = self._topics.topics().get(output.topic)
        there = topic is not None and topic.error is None and topic.partitions
        count = len(topic.partitions) if topic is not None and there else output.topic_partitions or 1
        options = {**output.topic_options, "max.message.bytes": str(_MOST_BYTES)}
        options.pop("cleanup.policy", None)  # a compacted topic would lose rows of the proof
        if topic is not None and there:
            options["replication.factor"] = str(len(next(iter(topic.partitions.values())).replicas))
        self._partitions, self._options = min(_MOST_PARTITIONS, count), options
        self.guarantee = "exactly once" if output.transactional else "at least once"
        self.notes = ("read with `read_committed`", *left_out(output, _PLAIN))

    def output(self, relay: int | None = None) -> KafkaOutput:
        """One that writes to the topic, and makes it."""
        key = KEY if self._output.key else ()
        changed = {"topic": self._name, "key": key, "key_format": None, "topic_options": self._options}
        found: KafkaOutput = copied(self._output, topic_partitions=self._partitions, **{**_PLAIN, **changed})
        return found

    def rows(self) -> Sequence[tuple[Any, ...]]:
        """The rows that a reader of committed records finds, once no transaction is open."""
        topic = self._topics.topics().get(self._name)
        if topic is None or topic.error is not None:
            return []
        own = {
            "group.id": f"ridgeline.{self._name}.reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        consumer = self._topics.client("Consumer", {**own, "isolation.level": "read_committed"})
        try:
            self._settle(sorted(topic.partitions), own, consumer)
            return self._read(sorted(topic.partitions), consumer)
        finally:
            consumer.close()

    def _settle(self, partitions: Sequence[int], own: dict[str, Any], committed: Any) -> None:
        """Wait until all transactions have ended: a reader of all records has the same end as this one."""
        clock, one = SystemClock(), library().TopicPartition
        end = clock.monotonic() + _SETTLED_SECONDS
        every = self._topics.client("Consumer", {**own, "isolation.level": "read_uncommitted"})
        try:
            for number in partitions:
                place = one(self._name, number)
                while clock.monotonic() < end:
                    ends = [found.get_watermark_offsets(place, _SECONDS) for found in (every, committed)]
                    if ends[0] == ends[1]:
                        break
        finally:
            every.close()

    def _read(self, partitions: Sequence[int], consumer: Any) -> list[tuple[Any, ...]]:
        """All messages up to the ends of the partitions."""
        first = library().OFFSET_BEGINNING
        consumer.assign([library().TopicPartition(self._name, number, first) for number in partitions])
        found: list[tuple[Any, ...]] = []
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(_SECONDS)
            if message is None:
                raise RidgelineError(
                    f"topic `{self._name}` cannot be read: Kafka has not answered for {_SECONDS:g} s"
                )
            error = message.error()
            if error is None:
                row = json.loads(message.value())
                found.append((row["id"], row["key"], row["text"], row["value"]))
            elif code_of(error) in codes("_PARTITION_EOF"):
                ended.add(message.partition())
            else:
                refuse([error], WHO, f"read `{self._name}`")
        return found

    def poison(self) -> tuple[Any, ...]:
        """A row that is too large for the topic."""
        return (*POISON[:2], "poison " * (_MOST_BYTES // 4), POISON[3])

    def remove(self) -> None:
        """Remove the topic, and the group of its mark. The broker forgets its transactional id by itself."""
        self._topics.remove([self._name])

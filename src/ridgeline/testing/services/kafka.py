"""A Kafka broker, controller included (KRaft)."""

import base64
import logging
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ridgeline.testing.services.parts import Jars, Program
from ridgeline.testing.services.service import Service, new_name

_JARS = Jars(Path(__file__).with_name("kafka.xml"))
JAVA = Program("java", "openjdk-17-jre-headless")
_SECONDS = 60
_SILENT = logging.getLogger(__name__)
_SILENT.setLevel(logging.CRITICAL + 1)
"""The library says to standard error, again and again, that a broker is away."""


class Kafka(Service):
    """A Kafka broker of one process. Topics are made by `topic`; nothing makes them by itself.

    Transactions, consumer groups and idempotent producers work, as all internal topics have one replica.

    Example:
        >>> from ridgeline.testing import services
        >>> broker = services.kafka(settings={"log.retention.ms": "60000"})
        >>> broker.running
        False
    """

    NAME = "kafka"
    PARTS = (JAVA, _JARS)
    INNER_PORTS: ClassVar[tuple[str, ...]] = ("controller",)
    JAVA_OPTIONS: Sequence[str] = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    """Those that start soonest. A broker whose speed matters has others, in a subclass."""

    @property
    def servers(self) -> str:
        """The address for `bootstrap.servers`."""
        return f"127.0.0.1:{self._port('main')}"

    def topic(
        self, name: str | None = None, *, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Make a topic; its name, which is a new one if none is given. `config`: the topic's settings."""
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        name = name or new_name("topic")
        admin = AdminClient(self._client, logger=_SILENT)
        new = NewTopic(name, partitions, 1, config=dict(config or {}))
        admin.create_topics([new], operation_timeout=_SECONDS)[name].result(_SECONDS)
        return name

    def addresses(self) -> dict[str, str]:
        """`KAFKA_SERVERS`."""
        return {"KAFKA_SERVERS": self.servers}

    @property
    def _client(self) -> dict[str, str | int | float | bool]:
        return {"bootstrap.servers": self.servers, "log_level": 0}

    def _prepare(self) -> None:
        """Write the settings, format the storage."""
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._port('controller')}",
            "listeners": f"MAIN://{self.servers},CONTROLLER://127.0.0.1:{self._port('controller')}",
            "advertised.listeners": f"MAIN://{self.servers}",
            "listener.security.protocol.map": "MAIN:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "MAIN",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self._data / "kafka"),
            "auto.create.topics.enable": "false",
            # Messages of tests can have times of long ago, by which Kafka counts what is too old.
            "log.retention.ms": "-1",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "4",
            # After a kill, the next start waits until the controller has given up the session of the last.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            **self._settings,
        }
        lines = [f"{name}={value}\n" for name, value in properties.items()]
        (self.folder / "server.properties").write_text("".join(lines))
        cluster = base64.urlsafe_b64encode(b"rid" + secrets.token_bytes(13)).decode().rstrip("=")
        self._run(self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", "server.properties"))

    def _java(self, main: str, *arguments: str) -> Sequence[str]:
        return [JAVA.path, *self.JAVA_OPTIONS, "-cp", _JARS.class_path, main, *arguments]

    def _command(self) -> Sequence[str]:
        return self._java("kafka.Kafka", "server.properties")

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            return bool(AdminClient(self._client, logger=_SILENT).list_topics(timeout=1).brokers)
        except KafkaException:
            return False

"""Read topics of Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.schema_types import SchemaType
from ridgeline.api.ports import OutputPort
from ridgeline.connect import PartitionedInput
from ridgeline.connect.datasets import Dataset, kafka_datasets
from ridgeline.operators._divided import Columns, columns_of
from ridgeline.operators.kafka._client import client_faults, found_servers
from ridgeline.operators.kafka._names import listed, pattern_of
from ridgeline.operators.kafka._reader import KafkaReader
from ridgeline.operators.kafka._rows import RECORD_METADATA, KafkaRecord, RegistrySettings, RowsMaker
from ridgeline.operators.kafka._source import KafkaSource, Settings
from ridgeline.operators.payloads import PayloadFormat

T = TypeVar("T", default=KafkaRecord)


class KafkaInput(PartitionedInput[T]):
    """Emit the messages of topics of Kafka, each exactly once, those of a partition in order.

    `topic`: a topic, several, or a pattern that begins with `^`. Topics that match it later, and partitions
    that are added, are read too. `servers`: `host:port`, several with commas; default: the environment
    variable `KAFKA_SERVERS`.

    `schema`: the type of the tuples. Without it they are `KafkaRecord`s: topic, partition, offset, timestamp,
    key, value and headers as they are. With it, its columns are read from the value in a `format`:

    - "json": an object. Missing optional fields are null; fields that `schema` lacks are ignored.
    - "avro": a record. With `registry` (a URL) each message begins with the id of its schema there. Without,
      `avro_schema` is the schema that it was written with; default: that of the columns.
    - "protobuf": a `message`, which is a generated class, a descriptor, or text such as "shop_pb2:Order".
    - "text", "bytes": the value as it is; `schema` has one column for it.

    Other columns can come from elsewhere. `key`: the columns that the message's key has, by `key_format`.
    `metadata={"where": "partition"}`: the column `where` has the partition. Others: "topic", "offset",
    "timestamp", "key", "value", "headers", "header.NAME". `deleted`: a column of booleans, true for a
    tombstone. Its columns of the value are null, or the zero of their type.

    A message that does not fit is an error that names partition and offset. With `on_error="SKIP"` it is a
    dead letter.

    `isolation`: with "read_committed" records of open or aborted transactions are not read. A transaction
    that a dead producer has left open makes its partition wait; the application says so.

    Offsets are in the application's own commits. With `group` they are committed to that consumer group too,
    for tools that show its lag. `when_lost`: records that are gone before they were read (retention, a topic
    that was deleted) are an error, or are left out with "skip".

    `timestamp` names the column with the records' times; default: the time that the message has in Kafka.
    `begin`, `until`, `lateness`, `idle_after`: see `PartitionedInput`. `options`: settings of the client
    (librdkafka), such as `security.protocol`. A secret is best `env:NAME` or `file:PATH`.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators.kafka import KafkaInput
        >>> class Order(NamedTuple):
        ...     id: str
        ...     cents: int
        >>> app = Application("shop")
        >>> orders = app.read("orders", KafkaInput("orders", servers="localhost:9092", schema=Order))
        >>> orders.schema.names
        ['id', 'cents']
    """

    gives_record_times: ClassVar[bool] = True
    output = OutputPort[T](Any)

    topic: str | Sequence[str]
    servers: str | Sequence[str] = Field(default="", kw_only=True)
    schema: SchemaType[T] | None = Field(default=None, kw_only=True)
    format: PayloadFormat = Field(default="json", kw_only=True)
    key: Columns = Field(default=(), kw_only=True)
    key_format: PayloadFormat = Field(default="text", kw_only=True)
    metadata: Mapping[str, str] = Field(default={}, kw_only=True)
    deleted: str | None = Field(default=None, kw_only=True)
    isolation: Literal["read_committed", "read_uncommitted"] = Field(default="read_committed", kw_only=True)
    group: str | None = Field(default=None, min_length=1, kw_only=True)
    when_lost: Literal["fail", "skip"] = Field(default="fail", kw_only=True)
    message: Any = Field(default=None, kw_only=True)
    avro_schema: Any = Field(default=None, kw_only=True)
    registry: str | None = Field(default=None, kw_only=True)
    registry_password: str = Field(default="", kw_only=True)
    registry_certificates: str | None = Field(default=None, kw_only=True)
    options: dict[str, Any] = Field(default={}, kw_only=True)

    def __post_init__(self) -> None:
        """Give the output port its schema."""
        if "topic" in vars(self):
            schema: Any = KafkaRecord if self.schema is None else self.schema
            self.declare_schema("output", schema)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse topics and options that cannot be, and columns that do not fit."""
        faults = super().property_faults()
        faults += client_faults(found_servers(self.servers), self.options)
        topics = listed(self.topic)
        for one in topics:
            try:
                pattern_of(one)
            except ValueError as error:
                faults.append(("topic", one, str(error)))
        if not topics or not all(topics):
            faults.append(("topic", self.topic, "must name a topic"))
        if self.schema is None:
            given = {
                "key": self.key,
                "metadata": self.metadata,
                "deleted": self.deleted,
                "message": self.message,
            }
            faults += [(name, value, "needs a `schema`") for name, value in given.items() if value]
        elif self.format == "protobuf" and self.message is None:
            faults.append(("message", None, "must be given for the format protobuf: a class of messages"))
        else:
            faults += self._maker().faults(Schema(self.schema))
        return faults

    def settle_properties(self) -> None:
        """Take the servers from the environment, if they are not given."""
        super().settle_properties()
        self.servers = found_servers(self.servers)

    def datasets(self) -> list[Dataset]:
        """The topics, as `ridgeline.connect.datasets` names them."""
        return kafka_datasets(found_servers(self.servers), self.topic)

    def source(self) -> KafkaSource:
        """The driver's half."""
        return KafkaSource(self._settings())

    def reader(self) -> KafkaReader:
        """The container's half."""
        return KafkaReader(self._settings(), self._maker())

    def _settings(self) -> Settings:
        servers = found_servers(self.servers)
        return Settings(self.topic, servers, self.options, self.isolation, self.when_lost, self.group)

    def _maker(self) -> RowsMaker:
        """How messages become rows."""
        if self.schema is None:
            return RowsMaker("bytes", (), "bytes", RECORD_METADATA, None, None, None, None)
        registry = None
        if self.registry is not None:
            registry = RegistrySettings(self.registry, self.registry_password, self.registry_certificates)
        return RowsMaker(
            self.format,
            columns_of(self.key),
            self.key_format,
            self.metadata,
            self.deleted,
            registry,
            self.message,
            self.avro_schema,
        )

"""Write to a topic of Kafka, exactly once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from ridgeline.api.clock import SystemClock
from ridgeline.api.columns.schema import Schema
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import mask_text
from ridgeline.connect import PartitionedOutput
from ridgeline.connectors.kafka._client import AtKafka
from ridgeline.connectors.kafka._rows import MessageMaker
from ridgeline.connectors.kafka._sink import KafkaSink, Settings
from ridgeline.operators._divided import Columns, DividedOperator, columns_of
from ridgeline.operators.payloads import PayloadFormat, UnavailableError

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
"""Seconds between two questions to a registry that is away."""
_log = logging.getLogger("ridgeline.connectors.kafka")


class _Encoders:
    """The encoders of a container, made for the columns that come."""

    def __init__(self, maker: MessageMaker, operator: str) -> None:
        self._maker, self._operator = maker, operator
        self._made: tuple[pa.Schema, Any] | None = None

    def of(self, schema: Schema, columns: pa.Schema) -> Any:
        """The encoder of batches of these columns. Raises RidgelineError if they do not fit."""
        if self._made is None or not self._made[0].equals(columns):
            declared = schema if schema.arrow.names == columns.names else Schema(columns)
            self._maker.check(columns, self._operator)
            self._made = columns, self._waited_for(declared)
        return self._made[1]

    def _waited_for(self, columns: Schema) -> Any:
        """The encoder, once the registry answers."""
        clock, pause = SystemClock(), _FIRST_PAUSE
        while True:
            try:
                return self._maker.made(columns)
            except UnavailableError as error:
                _log.warning("`%s` waits: %s", self._operator, mask_text(str(error)))
                clock.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)


class KafkaOutput(AtKafka, DividedOperator, PartitionedOutput):
    """Write each tuple as a message to a topic, exactly once for readers of committed records.

    `topic`: the topic. `servers`: `host:port`, several with commas; default: the environment variable
    `KAFKA_SERVERS`. `topic_partitions`: the topic is made with so many partitions if it is not there, with
    `topic_options` such as `{"cleanup.policy": "compact", "replication.factor": "3"}`.

    A committed window is written in one transaction, with its number. So readers with `read_committed` see
    each tuple once, whatever fails; after a failure the application asks Kafka how far it is. Windows that
    wait are written together. With `transactional=False` a message arrives at least once, and all see it.

    `key`: the columns of the message's key; messages of a key are in one partition of the topic, in the
    order in which they came. Tuples are divided by it. `key_format`: "text" is the text of the one column;
    "json" an object of several, "avro" a record. `partitioner`: "murmur2_random" chooses the partition that
    Java's client would choose. `partition`: a column with the partition's number instead.

    `format` of the value: "json", "avro", "protobuf", "text" or "bytes", as for `KafkaInput`. With
    `registry` its schema is registered as `<topic>-value`: `avro_schema`, or one made of the columns unless
    one is there. `headers={"trace": "trace_id"}`: the header `trace` is the column `trace_id`. `deleted`: a
    column of booleans; where it is true the message is a tombstone. `topic_column`: a column with the topic
    of each tuple. The columns of headers, topic, partition and tombstones are not in the value.

    A message has the time of the column `timestamp`, else of the record, else of its sending.

    A tuple that Kafka refuses, such as one that is too large, is an error that names window and row. With
    `on_error="SKIP"` it is left out. `options`: settings of the client (librdkafka).

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.connectors.kafka import KafkaOutput
        >>> from ridgeline.testing import ListInput
        >>> class Total(NamedTuple):
        ...     country: str
        ...     cents: int
        >>> app = Application("shop")
        >>> totals = app.read("totals", ListInput(Total, [("CH", 500)]))
        >>> output = totals.write("out", KafkaOutput("totals", key="country", servers="localhost:9092"))
    """

    topic: str = Field(min_length=1)
    key: Columns = Field(default=(), kw_only=True)
    key_format: PayloadFormat | None = Field(default=None, kw_only=True)
    transactional: bool = Field(default=True, kw_only=True)
    headers: Mapping[str, str] = Field(default={}, kw_only=True)
    timestamp: str | None = Field(default=None, kw_only=True)
    partition: str | None = Field(default=None, kw_only=True)
    partitioner: Literal["murmur2_random", "murmur2", "consistent_random", "consistent", "random"] = Field(
        default="murmur2_random", kw_only=True
    )
    topic_column: str | None = Field(default=None, kw_only=True)
    deleted: str | None = Field(default=None, kw_only=True)
    topic_partitions: int | None = Field(default=None, ge=1, kw_only=True)
    topic_options: dict[str, str] = Field(default={}, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse options that cannot be, and a key that was changed from outside."""
        faults = super().property_faults()
        if self.format == "protobuf" and self.message is None:
            faults.append(("message", None, "must be given for the format protobuf: a class of messages"))
        if self.key_format == "text" and len(columns_of(self.key)) > 1:
            faults.append(("key_format", "text", "is of one column; take json for a key of several"))
        if self.deleted is not None and not self.key:
            faults.append(("key", self.key, "must be given: a tombstone deletes its key"))
        return faults

    def sink(self) -> KafkaSink:
        """The driver's half."""
        settings = Settings(
            self.at,
            self.options,
            self.transactional,
            self.partitioner,
            self.topic_partitions,
            self.topic_options,
        )
        return KafkaSink(settings, self._maker())

    def setup(self, context: OperatorContext) -> None:
        """Prepare; the encoder is made for the first batch."""
        super().setup(context)
        self._encoders = _Encoders(self._maker(), context.name)

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The messages of a batch. Raises RidgelineError for a row that does not fit."""
        make = self._encoders.of(self.input.schema, batch.schema)
        try:
            return make(batch, self.context.batch_times())
        except ValueError as error:
            raise RidgelineError(f"`{self.context.name}`: {error}; correct it upstream") from error

    def _maker(self) -> MessageMaker:
        """How rows become messages."""
        key = columns_of(self.key)
        return MessageMaker(
            self.topic,
            self.format,
            key,
            self.key_format or ("json" if len(key) > 1 else "text"),
            self.headers,
            self.timestamp,
            self.partition,
            self.topic_column,
            self.deleted,
            self.registry_settings,
            self.message,
            self.avro_schema,
        )

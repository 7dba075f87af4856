"""Read topics of Kafka."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.clock import SystemClock
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.struct_types import SchemaType
from ridgeline.api.errors import RidgelineError
from ridgeline.api.ports import OutputPort
from ridgeline.api.support.masking import masked_and_shortened
from ridgeline.connect import (
    PartitionedInput,
    ReaderContext,
    Records,
    SourceRange,
    SourceReader,
    SourceUnavailableError,
)
from ridgeline.connectors.kafka._client import AtKafka, code_of, codes, library, listed, parts_of, pattern_of
from ridgeline.connectors.kafka._rows import RECORD_METADATA, KafkaRecord, Rows, RowsMaker
from ridgeline.connectors.kafka._source import KafkaSource, Settings
from ridgeline.operators._divided import Columns, columns_of
from ridgeline.operators.payloads import PayloadFormat

_AT_ONCE = 10_000
_AHEAD = 50_000
"""A partition is not read further ahead by its own window, while others are behind."""
_WAIT_SECONDS = 0.002
_QUEUE_BACKOFF_MILLISECONDS = 10
"""How long the client waits once it has read enough ahead. Its own default, a second, outlasts what it holds:
100,000 messages a partition are decoded sooner."""
_GIVE_UP_SECONDS = 10.0
"""After so long without a message the window's records are asked for again, over a new connection."""
_LAST_ANSWER_SECONDS = 5.0
_UNKNOWN = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC")
_RESET = ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")


class _Place:
    """A partition that is read. `next`: the offset that the next window reads first.

    `messages`: those that were read ahead, of later windows. `reached`: the end that the client has reported.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.topic, self.partition = parts_of(name)
        self.next = self.reached = -1
        self.messages: list[Any] = []
        self.paused = False

    def taken(self, end: int) -> list[Any]:
        """Take the messages before an offset."""
        messages = self.messages
        if not messages or messages[0].offset() >= end:
            return []
        if messages[-1].offset() < end:
            self.messages = []
            return messages
        place = bisect_left(messages, end, key=lambda message: message.offset())
        self.messages = messages[place:]
        return messages[:place]


class KafkaReader(SourceReader):
    """Reads all partitions of a container over one connection, which reads ahead by itself.

    A partition is read by offset, without a group. The end of a window may be no message: the client's
    position says that it has passed markers of transactions, and what was compacted away.
    """

    def __init__(self, properties: Settings, maker: RowsMaker) -> None:
        self._set, self._maker = properties, maker
        self._consumer: Any = None
        self._places: dict[str, _Place] = {}
        self._found: dict[str, list[list[Any]]] = {}
        """The messages of the window that is being read, by partition."""
        self._clock = SystemClock()

    def open(self, context: ReaderContext) -> None:
        """Make the client. Raises RidgelineError for options that it refuses."""
        self._context, self._operator = context, context.operator.name
        group = f"ridgeline.{context.operator.application}.{self._operator}"
        self._cluster = self._set.cluster(self._operator)
        defaults = {
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 50,
            "fetch.queue.backoff.ms": _QUEUE_BACKOFF_MILLISECONDS,
            "enable.partition.eof": True,
        }
        self._consumer = self._cluster.client("Consumer", self._set.reading(group), defaults)
        self._places = {}
        self._decode = self._maker.made(context.schema)
        self._end_errors = codes("_PARTITION_EOF")
        self._unknown, self._reset = codes(*_UNKNOWN), codes(*_RESET)

    def close(self) -> None:
        """Let go of the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def read_all(self, parts: Sequence[SourceRange]) -> Iterator[tuple[str, Records]]:
        """Read all partitions at once. Raises SourceUnavailableError, RidgelineError for lost records."""
        self._assign(parts)
        wanted = {part.partition: part for part in parts}
        answered = self._clock.monotonic()
        self._found = {name: [] for name in wanted}
        found = self._found
        while True:
            for name in list(wanted):
                if messages := self._places[name].taken(wanted[name].end):
                    found[name].append(messages)
            self._settle(wanted)
            if not wanted:
                break
            if self._take(wanted):
                answered = self._clock.monotonic()
            elif self._clock.monotonic() - answered > _GIVE_UP_SECONDS:
                waiting = ", ".join(f"{part.partition} from {part.start} on" for part in wanted.values())
                why = self._cluster.because("no answer")
                raise SourceUnavailableError(
                    f"Kafka at {self._set.servers} sends nothing of {waiting}: {why}"
                )
        self._found = {}
        for part in parts:
            if (place := self._places.get(part.partition)) is not None:
                place.next = part.end
            for messages in found[part.partition]:
                yield part.partition, self._records(part, messages)

    def _records(self, part: SourceRange, messages: list[Any]) -> Records:
        """Decode messages, and leave those out that do not fit."""
        rows: Rows = self._decode(messages)
        for row in sorted(rows.bad):
            text = masked_and_shortened(messages[row].value())
            self._context.leave_out(part.partition, messages[row].offset(), text, rows.bad[row])
        return Records(rows.batch, rows.times)

    # The connection -----------------------------------------------------------------------------------------

    def _assign(self, parts: Sequence[SourceRange]) -> None:
        """Read these partitions from where they begin: nothing is done where the reader is there already."""
        if any(
            part.partition in self._places and self._places[part.partition].next != part.start
            for part in parts
        ):
            # a client that goes back may say its former position for a while: a new one cannot
            self.close()
            self.open(self._context)
        place_of = library().TopicPartition
        added = []
        for part in parts:
            place = self._places.get(part.partition)
            if place is None:
                place = self._places[part.partition] = _Place(part.partition)
                added.append(place_of(place.topic, place.partition, part.start))
            elif place.paused:
                place.paused = False
                self._consumer.resume([place_of(place.topic, place.partition)])
            place.next = -1  # until the window is read: it may break off
        if added:
            self._consumer.incremental_assign(added)

    def _settle(self, wanted: dict[str, SourceRange]) -> None:
        """Take out the partitions that are read up to their ends."""
        open_ = [self._places[name] for name in wanted if not self._places[name].messages]
        for name in [name for name in wanted if self._places[name].messages]:
            del wanted[name]  # the next message is one of a later window
        if not open_:
            return
        place_of = library().TopicPartition
        for at in self._consumer.position([place_of(one.topic, one.partition) for one in open_]):
            name = f"{at.topic}-{at.partition}"
            if max(at.offset, self._places[name].reached) >= wanted[name].end:
                del wanted[name]

    def _take(self, wanted: dict[str, SourceRange]) -> bool:
        """Take messages that are there, or wait a moment for one. Returns whether there was one."""
        messages = self._consumer.consume(_AT_ONCE, 0)
        if not messages:
            one = self._consumer.poll(_WAIT_SECONDS)
            if one is None:
                return False
            messages = [one]
        by_place: dict[tuple[str, int], list[Any]] = {}
        errors = []
        for message in messages:
            if message.error() is not None:
                errors.append(message)
            else:
                by_place.setdefault((message.topic(), message.partition()), []).append(message)
        for (topic, partition), own in by_place.items():
            name = f"{topic}-{partition}"
            if (place := self._places.get(name)) is None:
                continue
            place.messages.extend(own)
            if name not in wanted and len(place.messages) > _AHEAD and not place.paused:
                place.paused = True
                self._consumer.pause([library().TopicPartition(topic, partition)])
        for message in errors:  # behind those that came before them
            self._note(message, wanted)
        return True

    def _note(self, message: Any, wanted: dict[str, SourceRange]) -> None:
        """Handle an error that came in the place of a message. Raises what makes the window fail."""
        error, name = message.error(), f"{message.topic()}-{message.partition()}"
        code = code_of(error)
        if name not in self._places:
            return
        if code in self._end_errors:  # messages before it may still be in hand
            self._places[name].reached = message.offset()
        elif code in self._reset:
            self._skip(name, wanted)
        elif code in self._unknown and self._set.when_lost == "skip":
            if (part := wanted.pop(name, None)) is not None:
                first = self._first_missing(part)
                self._lose(name, first, part.end, "their topic was deleted")
        elif code in self._unknown:
            msg = (
                f"`{self._operator}`: topic `{message.topic()}`, or its partition {message.partition()}, was "
            )
            msg += "deleted; make it again, or leave out what is lost with `when_lost='skip'`"
            raise RidgelineError(msg)
        else:
            self._cluster.refuse(f"read `{message.topic()}`", error)
            if error.fatal():
                raise self._cluster.unavailable(error)

    def _skip(self, name: str, wanted: dict[str, SourceRange]) -> None:
        """The next records of a partition are gone. Raises RidgelineError unless they may be left out."""
        place = self._places.pop(name)
        at = library().TopicPartition(place.topic, place.partition)
        self._consumer.incremental_unassign([at])
        if (part := wanted.get(name)) is None:
            return  # its next window finds out
        if messages := place.taken(part.end):
            self._found[name].append(messages)
        first = self._first_missing(part)
        try:
            low, high = self._consumer.get_watermark_offsets(at, timeout=_LAST_ANSWER_SECONDS)
        except library().KafkaException as error:
            raise self._cluster.unavailable(error) from None
        if low <= first and part.end <= high:
            msg = f"Kafka at {self._set.servers} denies offset {first} of partition {name}, which it has"
            raise SourceUnavailableError(msg)
        if self._set.when_lost == "fail":
            msg = f"`{self._operator}`: partition {name} has offsets {low} to {high} now; records from "
            msg += f"{first} on are gone (retention, or the topic was made again); begin anew with a fresh "
            msg += "`--checkpoint`, or leave out what is lost with `when_lost='skip'`"
            raise RidgelineError(msg)
        why = f"it has offsets {low} to {high} now: retention, or the topic was made again"
        if low >= part.end or high < part.end:
            self._lose(name, first, part.end, why)
            del wanted[name]  # nothing of the window is left; the next one finds out what it has
            return
        self._lose(name, first, low, why)
        self._places[name] = _Place(name)
        at.offset = low
        self._consumer.incremental_assign([at])

    def _first_missing(self, part: SourceRange) -> int:
        """The offset after the last message of a partition that the window has."""
        last = [messages[-1].offset() for messages in self._found[part.partition]]
        return int(max(last)) + 1 if last else int(part.start)

    def _lose(self, name: str, first: int, end: int, why: str) -> None:
        """Count records between two offsets as gone."""
        if end > first:
            text = f"offsets {first} to {end - 1} of partition {name} ({why})"
            self._context.lost(name, end - first, text)


T = TypeVar("T", default=KafkaRecord)


class KafkaInput(AtKafka, PartitionedInput[T]):
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
    that a dead producer has left open makes its partition wait until Kafka aborts it.

    Offsets are in the application's own commits. With `group` they are committed to that consumer group too,
    for tools that show its lag. `when_lost`: records that are gone before they were read (retention, a topic
    that was deleted) are an error, or are left out with "skip".

    `timestamp` names the column with the records' times; default: the time that the message has in Kafka.
    `begin`, `until`, `lateness`, `idle_after`: see `PartitionedInput`. `options`: settings of the client
    (librdkafka), such as `security.protocol`. A secret is best `env:NAME` or `file:PATH`.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.connectors.kafka import KafkaInput
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
    schema: SchemaType[T] | None = Field(default=None, kw_only=True)
    key: Columns = Field(default=(), kw_only=True)
    key_format: PayloadFormat = Field(default="text", kw_only=True)
    metadata: Mapping[str, str] = Field(default={}, kw_only=True)
    deleted: str | None = Field(default=None, kw_only=True)
    isolation: Literal["read_committed", "read_uncommitted"] = Field(default="read_committed", kw_only=True)
    group: str | None = Field(default=None, min_length=1, kw_only=True)
    when_lost: Literal["fail", "skip"] = Field(default="fail", kw_only=True)

    def __post_init__(self) -> None:
        """Give the output port its schema."""
        if "topic" in vars(self):
            schema: Any = KafkaRecord if self.schema is None else self.schema
            self.declare_schema("output", schema)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse topics and options that cannot be, and columns that do not fit."""
        faults = super().property_faults()
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

    def source(self) -> KafkaSource:
        """The driver's half."""
        return KafkaSource(self._settings())

    def reader(self) -> KafkaReader:
        """The container's half."""
        return KafkaReader(self._settings(), self._maker())

    def _settings(self) -> Settings:
        return Settings(self.topic, self.at, self.options, self.isolation, self.when_lost, self.group)

    def _maker(self) -> RowsMaker:
        """How messages become rows."""
        if self.schema is None:
            return RowsMaker("bytes", (), "bytes", RECORD_METADATA, None, None, None, None)
        return RowsMaker(
            self.format,
            columns_of(self.key),
            self.key_format,
            self.metadata,
            self.deleted,
            self.registry_settings,
            self.message,
            self.avro_schema,
        )

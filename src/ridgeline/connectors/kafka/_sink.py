"""The driver's half of `KafkaOutput`: windows as transactions, with their mark in the same one.

The mark is an offset of a consumer group of the run's own, in partition 0 of the topic: the number of the
last window. Its metadata is the number of the driver. `send_offsets_to_transaction` puts it into the
transaction of the window's messages. A producer that starts fences the one before (`init_transactions`), and
ends its open transaction. So the mark that is read after that says which windows are in.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError, shorten
from ridgeline.connect import Batch, Mark, Sink, SinkContext, SinkUnavailableError, UnwritableError
from ridgeline.connectors.kafka._client import (
    Cluster,
    admin_library,
    code_of,
    codes,
    library,
    nearest,
    text_of,
)
from ridgeline.connectors.kafka._rows import HEADER, KEY, PARTITION, TIMESTAMP, TOPIC, VALUE, MessageMaker


class HungError(Exception):
    """A call has not returned. Its client cannot be used any more, nor be closed."""


def bounded(function: Callable[[], Any], seconds: float, name: str) -> Any:
    """Call in a daemon thread, and return or raise what the call does. Raises HungError if it takes longer.

    `send_offsets_to_transaction` does not mind its timeout while the coordinator of the group is away. It may
    not return even after that is back (librdkafka, issue 5456).
    """
    answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def call() -> None:
        try:
            answers.put((function(), None))
        except BaseException as error:  # noqa: BLE001  it is raised in the thread that has called
            answers.put((None, error))

    threading.Thread(target=call, name=name, daemon=True).start()
    try:
        found, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise HungError(f"the client of Kafka has not returned for {seconds:.0f} s") from None
    if error is not None:
        raise error
    return found


_SECONDS = 30.0
_HANGS_SECONDS = 5.0
"""A call that takes so much longer than its timeout will not return."""
_FLUSH_SECONDS = 60.0
_GOODBYE_SECONDS = 1.0
_MOST_SEEN = 20
"""Refused messages that are looked at, of one attempt."""
_BAD_ROW = ("MSG_SIZE_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP", "INVALID_MSG", "_INVALID_ARG")
_NO_TOPIC = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "TOPIC_EXCEPTION")
_ENDED = (
    "_FENCED",
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_TXN_STATE",
    "UNKNOWN_PRODUCER_ID",
)
"""The broker has ended a transaction that was open."""
_LONGEST_ID = 200


class Settings(NamedTuple):
    """The properties of a `KafkaOutput` for its driver's half."""

    servers: str
    options: Mapping[str, Any]
    transactional: bool
    partitioner: str
    make_partitions: int | None
    topic_options: Mapping[str, str]


class _Refused(NamedTuple):
    """A message that the broker, or the client, refuses."""

    batch: Batch
    row: int
    error: Any


class KafkaSink(Sink):
    """Writes windows to a topic. With transactions each message arrives once; else at least once."""

    appends = True

    def __init__(self, properties: Settings, maker: MessageMaker) -> None:
        self._set, self._maker = properties, maker
        self.protocol = "transactional" if properties.transactional else "idempotent"  # type: ignore[misc]
        self.prepares = properties.transactional  # type: ignore[misc]
        self._clock = SystemClock()
        self._producer: Any = None
        self._reader: Any = None
        self._mark: Mark | None = None
        self._prepared: Mark | None = None
        """The mark of the transaction that is open, if `prepare` has begun one."""
        self._errors: list[tuple[Any, Any]] = []
        """Errors of messages, with the message."""
        self._singly = False
        """Each message is sent alone: the broker refuses whole batches, with good messages in them."""

    def place(self) -> str:
        """The topic, and where."""
        return f"topic {self._maker.topic} of Kafka at {self._set.servers}"

    # The connection -----------------------------------------------------------------------------------------

    def open(self, context: SinkContext) -> None:
        """Find the topic, or make it, and fence the producer before.

        Raises RidgelineError, SinkUnavailableError.
        """
        self._context = context
        self._cluster = Cluster(self._set.servers, self._set.options, context.operator)
        if context.schema is not None:
            self._maker.check(context.schema, context.operator)
        most = self._find_topic()
        own: dict[str, Any] = {
            "enable.idempotence": True,
            "partitioner": self._set.partitioner,
            "delivery.report.only.error": True,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
            "on_delivery": self._delivered,
        }
        defaults: dict[str, Any] = {"linger.ms": 0, "retry.backoff.ms": 1, "retry.backoff.max.ms": 250}
        if most is not None:
            defaults["message.max.bytes"] = most
        if self._set.transactional:
            own["transactional.id"] = self._name(context.mark_name)
            defaults["transaction.timeout.ms"] = 60_000
        self._producer = self._cluster.client("Producer", own, defaults)
        if not self._set.transactional:
            return
        reading = {
            "group.id": self._name(context.mark_name),
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        self._reader = self._cluster.client("Consumer", reading, connects=True)
        self._group = self._reader.consumer_group_metadata()
        self._do("take over its transactions", lambda: self._producer.init_transactions(_SECONDS))

    @staticmethod
    def _name(mark_name: str) -> str:
        """The id of transactions, and the group of the mark: of this run and operator only."""
        name = f"ridgeline.{mark_name.replace('/', '.')}"
        if len(name) <= _LONGEST_ID:
            return name
        return f"{name[:150]}.{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"

    def _find_topic(self) -> int | None:
        """Check that the topic is there; make it if that was asked for. Returns its `max.message.bytes`.

        It bounds batches, and the client does not divide one that is refused. None if it is not known.
        """
        operator, topic, cluster = self._context.operator, self._maker.topic, self._cluster
        admin = cluster.client("AdminClient", {}, connects=True)
        topics = self._do("list topics", lambda: cluster.topics(admin, _SECONDS))
        found = topics.get(topic)
        if found is not None and found.error is None:
            return self._most_bytes(admin)
        if found is not None:
            cluster.refuse(f"write to `{topic}`", found.error)
        else:
            cluster.refuse_hidden(admin, topic, f"write to `{topic}`")
        if self._set.make_partitions is None:
            msg = f"`{operator}`: there is no topic `{topic}` at {self._set.servers}; make it, or let it be "
            msg += f"made with `topic_partitions`; {nearest(topic, topics)}"
            raise RidgelineError(msg)
        self._make_topic(admin)
        return self._most_bytes(admin)

    def _most_bytes(self, admin: Any) -> int | None:
        """The topic's `max.message.bytes`; None for a user who may not ask for it."""
        module = admin_library()
        resource = module.ConfigResource(module.ResourceType.TOPIC, self._maker.topic)
        try:
            [future] = admin.describe_configs([resource], request_timeout=_SECONDS).values()
            return int(future.result(_SECONDS)["max.message.bytes"].value)
        except (library().KafkaException, KeyError, TimeoutError):
            return None

    def _make_topic(self, admin: Any) -> None:
        """Make the topic, unless another has made it meanwhile. Raises RidgelineError."""
        module = admin_library()
        options = dict(self._set.topic_options)
        replicas = int(options.pop("replication.factor", -1))
        new = module.NewTopic(self._maker.topic, self._set.make_partitions or 1, replicas, config=options)
        future = admin.create_topics([new])[self._maker.topic]
        try:
            future.result(_SECONDS)
        except library().KafkaException as error:
            if code_of(error) not in codes("TOPIC_ALREADY_EXISTS"):
                msg = f"`{self._context.operator}`: the topic `{self._maker.topic}` cannot be made: "
                msg += f"{text_of(error)}; make it, or correct `topic_options`"
                raise RidgelineError(msg) from None

    def close(self) -> None:
        """Let go of the connection; an open transaction is void."""
        producer, self._producer = self._producer, None
        reader, self._reader = self._reader, None
        prepared, self._prepared = self._prepared, None
        self._mark = None
        if producer is not None and prepared is not None:  # readers would wait for its end
            with contextlib.suppress(Exception):
                producer.abort_transaction(_GOODBYE_SECONDS)
        if producer is not None:
            with contextlib.suppress(Exception):
                producer.purge(in_queue=True, in_flight=True, blocking=False)
            with contextlib.suppress(Exception):
                producer.close() if hasattr(producer, "close") else producer.flush(0)
        if reader is not None:
            reader.close()

    def _do(self, what: str, function: Callable[[], Any]) -> Any:
        """Call the client.

        Raises RidgelineError for what is never allowed, SinkUnavailableError for the rest.
        """
        try:
            return function()
        except library().KafkaException as error:
            self._raise(what, error)

    def _raise(self, what: str, error: Any) -> NoReturn:
        """Raise what an error of the client means. `what`: it was about to do."""
        for client in (self._producer, self._reader):
            with contextlib.suppress(Exception):
                client.poll(0)  # it says then why
        self._cluster.refuse(what, error, self._cluster.error)
        raise SinkUnavailableError(f"cannot {what}: {self._cluster.reason(error)}") from None

    # The mark -----------------------------------------------------------------------------------------------

    def mark(self) -> Mark | None:
        """The offset of the run's group: the last window that is in. `open` has fenced others."""
        place = library().TopicPartition(self._maker.topic, 0)
        [found] = self._do("read its mark", lambda: self._reader.committed([place], timeout=_SECONDS))
        if found.error is not None:
            raise SinkUnavailableError(f"cannot read its mark: {text_of(found.error)}")
        self._mark = None if found.offset < 0 else Mark(found.offset, int(found.metadata or 0))
        return self._mark

    # Windows ------------------------------------------------------------------------------------------------

    def prepare(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Send windows and their mark in a transaction that stays open: readers see nothing of it.

        Raises SinkUnavailableError. If a row is refused it does nothing: `write` says which one.
        """
        self._singly = False
        self._begin()
        self._prepared = mark
        refused = self._produce(self._context.unwritten(batches, self._mark), set())
        if refused or self._send_mark(mark) is not None:
            self._prepared = None
            self._abort()
            self._producer.poll(0)
            if self._errors:
                self._open_again()

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Write windows as one transaction, or without. Raises UnwritableError, SinkUnavailableError."""
        left_out: set[tuple[int, int, int]] = set()
        self._singly = False
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared != mark:
            self._abort()
            prepared = None
        while True:
            due = self._context.unwritten(batches, self._mark)
            refused: list[_Refused] = []
            failed = None
            if prepared is None:
                self._begin()
                refused = self._produce(due, left_out)
                failed = None if refused else self._send_mark(mark)
            prepared = None
            if not refused or (not self._set.transactional and len(refused) < _MOST_SEEN):
                failed = failed or self._commit()
                if failed is None:
                    self._leave_out(refused, left_out)  # without transactions the others are written
                    break
                self._producer.poll(0)
                refused = refused or self._refused(due, left_out)
            self._abort()
            if self._errors and refused and self._set.transactional:
                self._open_again()
            if self._blames_several(refused):
                self._singly = True
                continue
            if not refused:
                raise SinkUnavailableError(f"a transaction failed: {text_of(failed)}")
            self._leave_out(refused, left_out)
        self._mark = mark if self._set.transactional else None

    def _open_again(self) -> None:
        """Take a new client: this one would miss the numbers of refused messages. Raises as `open`."""
        self.close()
        self.open(self._context)
        self.mark()

    def _blames_several(self, refused: Sequence[_Refused]) -> bool:
        """Whether the broker has refused a batch of messages: it is not known which of them is bad."""
        return len(refused) > 1 and bool(self._errors) and not self._singly

    def _begin(self) -> None:
        """Begin a transaction. Raises as `_do`."""
        self._errors = []
        if self._set.transactional:
            self._do("begin a transaction", self._producer.begin_transaction)

    def _abort(self) -> None:
        """Abort the transaction. Raises as `_do`."""
        if self._set.transactional:
            self._do("abort a transaction", lambda: self._producer.abort_transaction(_SECONDS))

    def _send_mark(self, mark: Mark) -> Any:
        """Add the mark to the transaction. Returns and raises as `_ended`.

        A client that hangs is left behind; the next one ends its transaction.
        """
        if not self._set.transactional:
            return None
        place = library().TopicPartition(self._maker.topic, 0, mark.window, metadata=str(mark.epoch))
        producer, group, name = self._producer, self._group, f"ridgeline-kafka-{self._context.operator}"

        def send() -> None:
            producer.send_offsets_to_transaction([place], group, _SECONDS)

        try:
            return self._ended(lambda: bounded(send, _SECONDS + _HANGS_SECONDS, name))
        except HungError as error:
            self._producer = self._prepared = None  # to close it may hang, too
            raise SinkUnavailableError(
                f"cannot commit a transaction: {error}; a new client takes over"
            ) from None

    def _commit(self) -> Any:
        """Commit the transaction, or wait until the broker has all. Returns and raises as `_ended`."""
        if not self._set.transactional:
            left = self._producer.flush(_FLUSH_SECONDS)
            if left and not self._errors:
                why = self._cluster.because("no answer")
                raise SinkUnavailableError(f"{left} messages are not acknowledged: {why}")
            return self._errors[0][0] if self._errors else None
        deadline = self._clock.monotonic() + _FLUSH_SECONDS

        def commit() -> None:
            while not self._is_committed(deadline):
                pass

        return self._ended(commit)

    def _ended(self, function: Callable[[], Any]) -> Any:
        """Call the client in a transaction. None, or the error for which it must be aborted.

        Raises SinkUnavailableError, RidgelineError for what is never allowed.
        """
        if self._errors:
            return self._errors[0][0]
        try:
            function()
        except library().KafkaException as error:
            found = error.args[0]
            if code_of(error) in codes(*_ENDED):
                why = "it was open for longer than `transaction.timeout.ms`, or another producer has its id"
                what = f"Kafka has aborted a transaction before its commit ({text_of(error)}): {why}"
                self._context.warn(f"{what}; its rows are written again")
            if found.txn_requires_abort():
                return found
            self._raise("commit a transaction", error)
        return None

    def _is_committed(self, deadline: float) -> bool:
        """Commit. False if it takes longer: it may be asked again. Raises what the client does."""
        try:
            self._producer.commit_transaction(_SECONDS)
        except library().KafkaException as error:
            if not error.args[0].retriable() or self._clock.monotonic() > deadline:
                raise
            return False
        return True

    def _produce(self, batches: Sequence[Batch], left_out: set[tuple[int, int, int]]) -> list[_Refused]:
        """Hand all messages to the client. Returns those that it refuses, at most a few."""
        refused: list[_Refused] = []
        errors = library().KafkaException
        produce, poll = self._producer.produce, self._producer.poll
        for batch in batches:
            for row, (topic, message) in enumerate(self._messages(batch)):
                if left_out and (batch.window, batch.partition, row) in left_out:
                    continue
                while True:
                    try:
                        produce(topic, **message)
                    except BufferError:
                        poll(0.05)
                        if self._errors:
                            return refused
                        continue
                    except (errors, TypeError, ValueError, OverflowError) as error:
                        if isinstance(error, errors) and code_of(error) not in codes(*_BAD_ROW, *_NO_TOPIC):
                            raise SinkUnavailableError(f"cannot write: {text_of(error)}") from None
                        refused.append(_Refused(batch, row, error))
                        if not self._context.skips or len(refused) >= _MOST_SEEN:
                            return refused
                    break
                if self._singly:
                    self._producer.flush(_FLUSH_SECONDS)
                    if self._errors and (self._set.transactional or len(self._errors) >= _MOST_SEEN):
                        return refused
            poll(0)
        return refused

    def _messages(self, batch: Batch) -> Iterator[tuple[str, dict[str, Any]]]:
        """The topic and the arguments of `produce` of each row."""
        columns: dict[str, list[Any]] = {
            name: batch.data.column(name).to_pylist() for name in batch.data.column_names
        }
        values, stamps = columns[VALUE], columns[TIMESTAMP]
        keys = columns.get(KEY) or [None] * len(values)
        plain = self._maker.topic
        headers = {name.removeprefix(HEADER): columns[name] for name in columns if name.startswith(HEADER)}
        if not headers and PARTITION not in columns and TOPIC not in columns:
            for key, value, stamp in zip(keys, values, stamps, strict=True):
                if stamp >= 0:
                    yield plain, {"key": key, "value": value, "timestamp": stamp}
                else:
                    yield plain, {"key": key, "value": value}
            return
        topics, partitions = columns.get(TOPIC), columns.get(PARTITION)
        for row, (key, value, stamp) in enumerate(zip(keys, values, stamps, strict=True)):
            message = {"key": key, "value": value}
            if stamp >= 0:
                message["timestamp"] = stamp
            if headers:
                message["headers"] = [(name, column[row]) for name, column in headers.items()]
            if partitions is not None and partitions[row] is not None:
                message["partition"] = partitions[row]
            topic = topics[row] if topics is not None else None
            yield plain if topic is None else topic, message

    # Refused messages ---------------------------------------------------------------------------------------

    def _delivered(self, error: Any, message: Any) -> None:
        """Note an error of a message. The client calls it while it is polled; of errors only."""
        if (
            error is not None
            and code_of(error) not in codes("_PURGE_QUEUE", "_PURGE_INFLIGHT")
            and len(self._errors) < _MOST_SEEN
        ):
            self._errors.append((error, message))

    def _refused(self, batches: Sequence[Batch], left_out: set[tuple[int, int, int]]) -> list[_Refused]:
        """The rows of the messages that the broker has refused.

        Raises RidgelineError if something else than rows is at fault.
        """
        bad, no_topic = codes(*_BAD_ROW), codes(*_NO_TOPIC)
        found: list[_Refused] = []
        for error, message in self._errors:
            self._cluster.refuse(f"write to `{message.topic()}`", error)
            if code_of(error) in no_topic:
                msg = f"`{self._context.operator}`: there is no topic `{message.topic()}`, or not this "
                msg += f"partition of it: {text_of(error)}; make it, then start it again"
                raise RidgelineError(msg)
            if code_of(error) in bad:
                wanted = message.topic(), message.key(), message.value()
                found += self._rows_of(wanted, error, batches, left_out, found)
        return found

    def _rows_of(
        self,
        wanted: tuple[Any, Any, Any],
        error: Any,
        batches: Sequence[Batch],
        left_out: set[tuple[int, int, int]],
        found: Sequence[_Refused],
    ) -> list[_Refused]:
        """The first row that made a message, and that is not found or left out yet."""
        known = {(one.batch.window, one.batch.partition, one.row) for one in found} | left_out
        for batch in batches:
            for row, (topic, message) in enumerate(self._messages(batch)):
                if (topic, message["key"], message["value"]) == wanted and (
                    batch.window,
                    batch.partition,
                    row,
                ) not in known:
                    return [_Refused(batch, row, error)]
        return []

    def _leave_out(self, refused: Sequence[_Refused], left_out: set[tuple[int, int, int]]) -> None:
        """Leave out rows with `on_error=SKIP`. Raises UnwritableError for the first one without."""
        for batch, row, error in refused:
            text = self._text(batch, row)
            why = f"Kafka refuses it: {text_of(error)}"
            if not self._context.skips:
                remedy = "leave such rows out with `on_error=SKIP`"
                if code_of(error) in codes("MSG_SIZE_TOO_LARGE"):
                    remedy = f"raise `max.message.bytes` of the topic, or {remedy}"
                elif code_of(error) in codes("INVALID_RECORD"):
                    remedy = f"give it a `key` if the topic is compacted, or {remedy}"
                raise UnwritableError(self._context.operator, batch.window, text, why, remedy)
            self._context.refused(batch, text, why)
            left_out.add((batch.window, batch.partition, row))

    @staticmethod
    def _text(batch: Batch, row: int) -> str:
        names = [name for name in (KEY, VALUE) if name in batch.data.column_names]
        parts = {name: batch.data.column(name)[row].as_py() for name in names}
        return ", ".join(f"{name} {shorten(value)}" for name, value in parts.items())

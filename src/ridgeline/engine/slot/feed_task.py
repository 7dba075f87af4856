"""The tasks of a micro-batch where containers live in slots: each hands the rows that it reads to slots.

A task ends once every slot that it has sent to has taken all. So it waits while a slot does not read, with a
few megabytes of rows in memory. One that loses a slot says so and ends well: Spark need not try it again,
STRAM begins the window again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa
from pyspark import TaskContext
from pyspark.serializers import NoOpSerializer, SpecialLengths, read_int

from ridgeline.api.clock import Clock
from ridgeline.engine.container.feed import Fed, Reading, container_of, of_source, read_rows
from ridgeline.engine.exchange.block import PIECE_BYTES
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import FEEDER, LATE, Event, Lost, Network, Opened, Peer, Received
from ridgeline.engine.exchange.sockets import Sockets
from ridgeline.engine.exchange.tls import Certificate
from ridgeline.engine.operator.failures import InputLostError
from ridgeline.engine.slot.hosting import CLOCK, end_orderly
from ridgeline.engine.slot.messages import Address, MalformedError, Taken, TaskParameters, decode, encode

PROPERTY = "ridgeline.feed.secret"
"""The local property's name. Has `secret` in it, for `redact`: Spark's event log has no value of it."""
QUEUE_BYTES = 8 << 20
"""A task reads no further while so much waits for a slot to take it."""
_WAIT_SECONDS = 1.0
_FULL_SECONDS = 0.002
_ATTEMPTS = 1 << 32
"""The numbers that a peer's attempt can have."""


class WholeInput(NoOpSerializer):
    """Spark's records as bytes. PySpark takes it for the end where they break off; here it is an error."""

    def load_stream(self, stream: BinaryIO) -> Iterator[bytes]:
        """Raises InputLostError where the records break off: Spark's side of the task has failed."""
        try:
            while (length := read_int(stream)) != SpecialLengths.END_OF_DATA_SECTION:
                record = stream.read(length)
                if len(record) < length:
                    raise EOFError  # noqa: TRY301  as where a length is missing
                yield record
        except (EOFError, OSError, struct.error) as error:
            raise InputLostError("Spark's rows broke off") from error


@dataclass(frozen=True, slots=True)
class FeedTask(TaskParameters):
    """The parameters of a micro-batch's tasks.

    `sources`: the containers of each Spark source. `schema`: of the micro-batch's rows, as an Arrow IPC
    schema. `slots`: who hosts each container, and where that is reached. `certificate`: the application's.
    """

    window_id: int
    attempt: int
    sources: tuple[tuple[int, ...], ...]
    schema: bytes
    slots: Mapping[int, tuple[Peer, Address]]
    certificate: Certificate | None = field(default=None, repr=False)


def feed_stage(index: int, messages: Iterable[bytes]) -> Iterator[bytes]:
    """Hand the Arrow messages of a partition to slots; yields what was lost, in words, if anything was."""
    began = CLOCK.monotonic()
    context: Any = TaskContext.get()
    end_orderly()
    task = FeedTask.decode(context.getLocalProperty(PROPERTY))
    lost = feed(task, index, messages, context.taskAttemptId(), context.attemptNumber(), began)
    if lost:
        yield lost.encode()


def feed(
    task: FeedTask, index: int, messages: Iterable[bytes], run: int, task_attempt: int, began: float
) -> str:
    """Be a run of a task; returns what was lost. `run` is unique, `began` is of the monotonic clock."""
    network = Sockets(Peer(FEEDER, run % _ATTEMPTS), Listen(unix=False, certificate=task.certificate), CLOCK)
    try:
        return Feeder(network, task, index, CLOCK, began, task_attempt).feed(messages)
    finally:
        network.close(0.0)  # what was sent is taken, or does not count


class Feeder:
    """Sends what one run of a task reads. One thread."""

    def __init__(
        self, network: Network, task: FeedTask, index: int, clock: Clock, began: float, task_attempt: int
    ) -> None:
        self._network = network
        self._task = task
        self._index = index
        self._clock = clock
        self._began = began
        self._task_attempt = task_attempt
        containers = (container_of(task.sources, n, index) for n in range(len(task.sources)))
        self._schemas: dict[int, bytes] = dict.fromkeys(containers, task.schema)
        """Of the containers that may get rows."""
        self._rows: dict[int, list[pa.Buffer]] = {container: [] for container in self._schemas}
        self._sizes = dict.fromkeys(self._schemas, 0)
        self._untaken = set(self._schemas)
        self._open: set[Peer] = set()
        self._lost = ""
        self._read_seconds = 0.0

    def feed(self, messages: Iterable[bytes]) -> str:
        """Send all, and wait until it is taken; returns what was lost: a slot, or the end of the messages.

        All messages are read, also if no slot wants them any more: Spark's worker needs that. Where they
        break off Spark has failed, and says why better than a task that fails too.
        """
        try:
            self._send_all(messages)
        except InputLostError as error:
            return str(error)
        while self._untaken and not self._lost:
            self._listen(_WAIT_SECONDS)
        return self._lost if self._untaken else ""

    def _send_all(self, messages: Iterable[bytes]) -> None:
        """Send what is read, and at last that it is all."""
        for container, row in self._read(messages):
            if container in self._untaken and not self._lost:
                self._rows[container].append(row)
                self._sizes[container] += row.size
                if self._sizes[container] >= PIECE_BYTES:
                    self._send(container)
        reading = Reading(self._read_seconds, self._clock.monotonic() - self._began, self._task_attempt)
        for container in self._schemas:
            self._send(container, reading)

    def _read(self, messages: Iterable[bytes]) -> Iterator[tuple[int, pa.Buffer]]:
        """The rows as Arrow messages, each with the container that it is for. One source's are not opened."""
        if len(self._task.sources) == 1:
            [container] = self._schemas
            for message in self._timed(messages):
                yield container, pa.py_buffer(message)
            return
        for batch in read_rows(self._task.schema, self._timed(messages)):
            if batch.num_rows:
                number, rows = of_source(batch)
                container = container_of(self._task.sources, number, self._index)
                self._schemas[container] = rows.schema.serialize().to_pybytes()
                yield container, rows.serialize()

    def _timed(self, messages: Iterable[bytes]) -> Iterator[bytes]:
        """The same, with the time that they take to come added up."""
        iterator = iter(messages)
        while True:
            began = self._clock.monotonic()
            message = next(iterator, None)
            self._read_seconds += self._clock.monotonic() - began
            if message is None:
                return
            yield message

    def _send(self, container: int, ended: Reading | None = None) -> None:
        """Send what has been read for a container, once its slot takes it.

        It is connected to at the first time, and again if it was busy: it gets no answer while rows are read.
        """
        peer, address = self._task.slots[container]
        self._listen(0.0)
        while container in self._untaken and not self._lost and not self._has_room(peer):
            if peer not in self._open:
                self._network.connect(peer, address)
            self._listen(_FULL_SECONDS if peer in self._open else _WAIT_SECONDS)
        rows, self._rows[container], self._sizes[container] = tuple(self._rows[container]), [], 0
        if container in self._untaken and not self._lost:
            task = self._task
            fed = Fed(
                task.window_id, task.attempt, container, self._index, self._schemas[container], rows, ended
            )
            self._network.send(peer, *encode(fed))

    def _has_room(self, peer: Peer) -> bool:
        return peer in self._open and self._network.queued_bytes(peer) <= QUEUE_BYTES

    def _listen(self, seconds: float) -> None:
        """Take in what slots say, and let more be sent; waits at most so long."""
        for event in self._network.poll(seconds):
            self._take(event)

    def _take(self, event: Event) -> None:
        """Take in what a slot says. One that is lost before it has all is what is lost."""
        match event:
            case Opened(peer):
                self._open.add(peer)
            case Received(peer):
                try:
                    answer = decode(event)
                except MalformedError as error:
                    self._lost = str(error)
                    return
                if isinstance(answer, Taken):
                    self._untaken.discard(answer.container)
            case Lost(peer, reason) if reason == LATE and peer not in self._open:
                pass  # it is busy, and nothing was sent yet
            case Lost(peer, reason, detail):
                if any(self._task.slots[container][0] == peer for container in self._untaken):
                    self._lost = f"{peer} is lost: {reason}" + (f" ({detail})" if detail else "")

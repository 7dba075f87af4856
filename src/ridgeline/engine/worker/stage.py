"""The functions that Spark runs in Python workers. What changes with the window is a local property.

A record between stages is the id of the container that it is for (64 bits; -1 is the driver) and its content.
The number of the task that it is sent to precedes each. What is addressed further down the chain of stages is
handed on. The last stage's tasks give all reports that they have as one pickled list. A container that fails
reports its failure (see `failures`), and its consumers do not run. A task runs one container, or several one
after the other where a stage has more containers than Spark has slots. An additional task would only wait,
and costs milliseconds.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import socket
import struct
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark import TaskContext

from ridgeline.api.support import files
from ridgeline.api.support.pickling import dumps
from ridgeline.engine.container import source_rows
from ridgeline.engine.exchange.block import Message
from ridgeline.engine.exchange.shared_blocks import SharedPlace
from ridgeline.engine.operator.failures import NOT_RUN, Failed, InputLostError, failure_of
from ridgeline.engine.process import plan_distribution, process_start
from ridgeline.engine.process.black_box import victims
from ridgeline.engine.slot.hosting import CLOCK, Hosted, Specs, end_orderly
from ridgeline.engine.worker.heartbeat_line import HeartbeatAddress, sender_of
from ridgeline.plan.protocol import WindowRequest

PROPERTY = "ridgeline.window.secret"
"""The local property's name.

Spark redacts in its logs what is called secret (`spark.redaction.regex`): a task holds that of heartbeats.
"""
DRIVER = -1
_TASK = struct.Struct(">q")
_ADDRESSEE = struct.Struct("<q")
Envelope: TypeAlias = tuple[int, bytes]
"""The container that it is for, and what it gets."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a stage's tasks need, as Spark's local property: the plan's place, the request, tasks per stage.

    `source_containers` (of each Spark source): the containers that get its rows. `source_schema`: the schema
    of these rows, as an Arrow IPC schema. `heartbeats`: where to, None for none. `place`: where blocks may
    lie by reference, None for nowhere. `s3`: how S3 is reached.
    """

    checkpoint: str
    plan: plan_distribution.PlanFile
    run_id: str
    request: WindowRequest
    slots: int
    source_containers: tuple[tuple[int, ...], ...] = ()
    source_schema: bytes = b""
    heartbeats: HeartbeatAddress | None = None
    place: SharedPlace | None = None
    s3: Mapping[str, Any] = field(default_factory=files.s3_settings)

    def encode(self) -> str:
        """As text."""
        return base64.b64encode(pickle.dumps(self, 5)).decode()


class StageHost(Hosted):
    """The containers of one plan in this worker process, and their stages."""

    def __init__(self, task: Task) -> None:
        files.use_s3(task.s3)
        super().__init__(task.checkpoint, task.plan, task.run_id)
        self._find_stages()

    def _find_stages(self) -> None:
        self.by_stage: dict[int, list[int]] = {}
        for spec in self.specs.values():
            self.by_stage.setdefault(spec.stage, []).append(spec.id)
        self._positions = {one: at for stage in self.by_stage.values() for at, one in enumerate(stage)}

    def change(self, plan: plan_distribution.PlanFile, read: Specs | None = None) -> list[Failed]:
        """As `Hosted.change`."""
        failed = super().change(plan, read)
        self._find_stages()
        return failed

    def address(self, destination: int, stage: int, slots: int) -> int:
        """The number of the task, in the stage after `stage`, that runs or forwards to `destination`."""
        following = self.by_stage.get(stage + 1, [0])
        spec = self.specs.get(destination)
        its = spec is not None and spec.stage == stage + 1
        position = self._positions[destination] if its else max(destination, 0)
        return position % min(slots, len(following))

    def post(self, envelopes: Iterable[Envelope], stage: int, slots: int) -> Iterator[bytes]:
        """Address the envelopes of a task of `stage` (-1: before the first) for the shuffle; reports last."""
        if stage == len(self.by_stage) - 1:
            yield pickle.dumps([content for _, content in envelopes], 5)
            return
        for destination, content in envelopes:
            yield _TASK.pack(self.address(destination, stage, slots))
            yield _ADDRESSEE.pack(destination) + content

    def share(self, stage: int, index: int, slots: int) -> list[int]:
        """The containers of a stage that its index-th task runs."""
        return self.by_stage[stage][index :: min(slots, len(self.by_stage[stage]))]


_hosts: dict[tuple[str, plan_distribution.PlanFile, str], StageHost] = {}
_HOSTS_KEPT = 4
"""Applications of one Spark context whose containers stay in a worker."""


@lru_cache(maxsize=4)
def _decode_task(text: str) -> Task:
    return pickle.loads(base64.b64decode(text))


def _task() -> tuple[Task, StageHost, Any]:
    """The task's parameters, the containers of its plan in this process, and Spark's context."""
    context: Any = TaskContext.get()
    end_orderly()
    task = _decode_task(context.getLocalProperty(PROPERTY))
    key = _key(task)
    before = next((one for one in _hosts if (one[0], one[2]) == (key[0], key[2])), key)
    if key not in _hosts and before in _hosts:  # the application has another plan
        host = _hosts.pop(before)
        try:
            host.change(task.plan)  # what fails in `teardown` loses nothing
        except BaseException:
            host.close()
            raise
        _hosts[key] = host
    if key not in _hosts:
        while len(_hosts) >= _HOSTS_KEPT:
            _hosts.pop(next(iter(_hosts))).close()
        _hosts[key] = StageHost(task)
    return task, _hosts[key], context


def _key(task: Task) -> tuple[str, plan_distribution.PlanFile, str]:
    return task.checkpoint, task.plan, task.run_id


def _open(record: bytes) -> tuple[int, memoryview]:
    """The destination and the content of a record."""
    return _ADDRESSEE.unpack_from(record)[0], memoryview(record)[_ADDRESSEE.size :]


def tick_stage(_index: int, ticks: Iterable[int]) -> Iterator[bytes]:
    """The first stage where inputs are Python operators: each tick is the id of the container to run."""
    began = CLOCK.wall()
    task, host, _ = _task()
    yield from host.post(_run_each(((container, (), ()) for container in ticks), began), 0, task.slots)


def source_stage(index: int, messages: Iterable[bytes]) -> Iterator[bytes]:
    """The first stage with one Spark source: Arrow messages in, for the index-th container of the source."""
    began = CLOCK.wall()
    task, host, _ = _task()
    container = task.source_containers[0][index]
    yield from host.post(
        _run_each([(container, (), source_rows.read(task.source_schema, messages))], began), 0, task.slots
    )


def ingest_stage(index: int, messages: Iterable[bytes]) -> Iterator[bytes]:
    """The stage before the first with several Spark sources: send each batch to a container of its source."""
    task, host, _ = _task()
    yield from host.post(_ingest(task, index, messages), -1, task.slots)


def _ingest(task: Task, index: int, messages: Iterable[bytes]) -> Iterator[Envelope]:
    """Split the union by source."""
    for position, batch in enumerate(source_rows.read(task.source_schema, messages)):
        if batch.num_rows:
            number, part = source_rows.of_source(batch)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, part.schema) as stream:
                stream.write_batch(part)
            yield (
                source_rows.container_of(task.source_containers, number, index),
                pickle.dumps((index, position, sink.getvalue().to_pybytes()), 5),
            )


def fed_stage(index: int, records: Iterable[bytes]) -> Iterator[bytes]:
    """The first stage after `ingest_stage`: all its containers; those of Python inputs get no batches."""
    began = CLOCK.wall()
    task, host, _ = _task()
    found: dict[int, list[tuple[int, int, bytes]]] = {
        container: [] for container in host.share(0, index, task.slots)
    }
    for container, content in map(_open, records):
        found[container].append(pickle.loads(content))
    jobs = (
        (container, (), (batch for _, _, part in sorted(parts) for batch in pa.ipc.open_stream(part)))
        for container, parts in found.items()
    )
    yield from host.post(_run_each(jobs, began), 0, task.slots)


def next_stage(stage: int, index: int, records: Iterable[bytes]) -> Iterator[bytes]:
    """Every later stage: hand on what is for others, run the task's containers on what was sent to them."""
    began = CLOCK.wall()
    task, host, _ = _task()
    yield from host.post(_next(host.share(stage, index, task.slots), records, began), stage, task.slots)


def _next(containers: Sequence[int], records: Iterable[bytes], began: float) -> Iterator[Envelope]:
    """Forward envelopes for other containers, then run this task's containers on the envelopes for them."""
    inboxes: dict[int, list[Message]] = {container: [] for container in containers}
    complete = True
    for destination, content in map(_open, records):
        if destination not in inboxes:
            yield destination, bytes(content)
        elif content == NOT_RUN:
            complete = False
        else:
            inboxes[destination].append(Message.decode(content))
    jobs = ((container, messages, ()) for container, messages in inboxes.items())
    yield from _run_each(jobs, began, complete=complete)


def commit_stage(_index: int, containers: Iterable[int]) -> Iterator[bytes]:
    """Report the commit to operators that override `committed`; the request's states are those after it."""
    task, host, _ = _task()
    for container in containers:
        try:
            host.container(container).committed(task.request.window_id, task.request.states)
        except BaseException as error:  # noqa: BLE001  reported
            yield Failed(
                container, failure_of(error, host.specs[container], task.request.window_id, task.checkpoint)
            ).encode()
            return


def close_stage(_index: int, _ticks: Iterable[int]) -> Iterator[bytes]:
    """Tear down the application's containers in this process: its id, then what failed in it."""
    host = _hosts.pop(_key(_decode_task(TaskContext.get().getLocalProperty(PROPERTY))), None)  # type: ignore[union-attr]
    yield json.dumps([socket.gethostname(), os.getpid()]).encode()
    yield from (failed.encode() for failed in (host.close() if host is not None else ()))


Job: TypeAlias = tuple[int, Sequence[Message], Iterable[pa.RecordBatch]]
"""A container, the messages for it, the batches of its Spark source."""


def _run_each(jobs: Iterable[Job], began: float, *, complete: bool = True) -> Iterator[Envelope]:
    """Run a task's containers up to the first that fails; none of them if their input is not `complete`."""
    for container, messages, batches in jobs:
        if complete:
            complete = yield from _run(container, messages, batches, began)
        if not complete:
            for consumer in _task()[1].specs[container].consumers:
                yield consumer, NOT_RUN


def _run(
    container_id: int, messages: Sequence[Message], batches: Iterable[pa.RecordBatch], began: float
) -> Generator[Envelope, None, bool]:
    """Run a container in the task that began then; its messages and its report, or its failure.

    Returns whether it did well.
    """
    task, host, context = _task()
    spec = host.specs[container_id]
    tag = f"t{context.taskAttemptId()}"
    if context.attemptNumber() and (died := victims(spec, task.run_id, task.request)) is not None:
        yield DRIVER, Failed(container_id, died).encode()
        return False
    try:
        with host.working(container_id, sender_of(task.heartbeats, CLOCK)) as container:
            outgoing, report = container.run(
                task.request, messages, batches, tag, context.attemptNumber(), began, task.place
            )
    except InputLostError:
        raise
    except BaseException as error:  # noqa: BLE001  reported
        yield (
            DRIVER,
            Failed(container_id, failure_of(error, spec, task.request.window_id, task.checkpoint)).encode(),
        )
        return False
    for consumer, message in outgoing.items():
        for part in message.divided():
            yield consumer, part.encode()
    report.window.worker_began, report.window.daemon_began = process_start.worker_process()
    report.window.sent = CLOCK.wall()
    yield DRIVER, dumps(report)
    return True

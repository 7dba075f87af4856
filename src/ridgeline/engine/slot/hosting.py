"""The containers of a slot in this worker process, and what surrounds a container's work.

While a container works its process sends heartbeats for it, and the black box names the operator in turn. A
process that Spark ends tears its containers down first.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import Failure
from ridgeline.engine.container.container import Container
from ridgeline.engine.container.feed import FedRows
from ridgeline.engine.exchange.block import Message
from ridgeline.engine.exchange.shared_blocks import SharedPlace
from ridgeline.engine.files.patience import open_patient
from ridgeline.engine.files.storage import Storage
from ridgeline.engine.operator.failures import failure_of
from ridgeline.engine.process import plan_distribution
from ridgeline.engine.process.black_box import BlackBox, Turn
from ridgeline.engine.process.garbage import collect_again, spare_loaded
from ridgeline.engine.process.heartbeat import HeartbeatSender, Send
from ridgeline.engine.slot.messages import Host, Prepare
from ridgeline.measure.events import SourceTaken
from ridgeline.plan.container_spec import ContainerSpec
from ridgeline.plan.protocol import StateVersion, WindowReport, WindowRequest

CLOCK = SystemClock()
Specs: TypeAlias = tuple[ContainerSpec, ...]
"""Of the containers of a plan that are shipped to one slot."""
_with_containers: list[Containers] = []
"""All that have containers in this process."""
_at_work = False
"""Whether a container runs right now."""
_closing = False
_box: BlackBox | None = None


class Containers:
    """The containers of a slot in this process, each made at its first use.

    They do the work of a `Slot`, and all of its input and output. `specs`: of those hosted now, by id. `uri`:
    the checkpoint. `tag` names the slot's task in reports. `send` sends heartbeats, by a thread of theirs.
    `on_wake` is called when an input has something to emit.
    """

    def __init__(self, tag: str, send: Send) -> None:
        self._send = send
        self.on_wake: Callable[[], None] | None = None
        self.specs: Mapping[int, ContainerSpec] = {}
        self._shipped: dict[int, ContainerSpec] = {}
        """All of the plan that were shipped, hosted here or not."""
        self.uri = ""
        self._tag = tag
        self._storage: Storage | None = None
        """That of the checkpoint; None while nothing is hosted."""
        self._plan = "", "", ""
        """Checkpoint, name of the plan and run."""
        self._coming: tuple[str, Specs] | None = None
        """A plan that may follow, by its name."""
        self._containers: dict[int, Container] = {}
        self._heartbeats: HeartbeatSender | None = None
        self._heartbeat_seconds: float | None = None
        self._failures: list[Failure] = []

    def host(self, message: Host) -> None:
        """Host these containers from now on. Raises what reading raises.

        Those that are here already are retained as far as possible.
        """
        self.uri = message.checkpoint
        self._send_heartbeats(message.heartbeat_seconds)
        plan = (message.checkpoint, message.plan.name, message.run_id)
        replaced = self._storage is not None
        # The checkpoint and the run must be the same; the plan may be another one.
        if self._storage is None or plan[::2] != self._plan[::2]:
            self.tear_down()
            storage = open_patient(message.checkpoint)
            self._shipped = self._read(storage, message.plan)
            self._storage = storage
            _with_containers.append(self)
        else:
            self._close(self.specs.keys() - set(message.containers))
            if plan != self._plan:
                self._change(self._read(self._storage, message.plan))
        self._plan = plan
        self.specs = {number: self._shipped[number] for number in message.containers}
        spare_loaded(replaced=replaced)

    def prepare(self, message: Prepare) -> None:
        """Read what a later `Host` may name, so that it takes no time then. Raises what reading raises."""
        storage = self._storage or open_patient(message.checkpoint)
        self._coming = message.plan.name, plan_distribution.receive(storage, message.plan)

    def _read(self, storage: Storage, plan: plan_distribution.ShippedPlan) -> dict[int, ContainerSpec]:
        """What was shipped of a plan that is to be hosted now; `prepare` may have read it.

        Raises what `plan_distribution.receive` raises.
        """
        coming, self._coming = self._coming, None
        ready = coming is not None and coming[0] == plan.name
        found = coming[1] if coming and ready else plan_distribution.receive(storage, plan)
        return {spec.id: spec for spec in found}

    def _change(self, specs: dict[int, ContainerSpec]) -> None:
        """Have the containers of another plan. What fails in `deactivate` and `teardown` is kept."""
        self._close(self._containers.keys() - specs.keys())
        self._shipped = specs
        with _tearing_down():
            for number, container in self._containers.items():
                for error in container.change(specs[number]):
                    self._failures.append(failure_of(error, specs[number], -1, self.uri))

    def run(
        self,
        container: int,
        request: WindowRequest,
        messages: Sequence[Message],
        ready: float,
        place: SharedPlace | None,
        rows: FedRows | None = None,
    ) -> tuple[Mapping[int, Message], WindowReport]:
        """Run an attempt whose producers have ended, as `Container.run`.

        `ready`: when all of its input had come (wall clock). `rows`: those of a Spark source, None for
        nothing.
        """
        with self._working(container) as working:
            working.near = self.specs.keys()
            outgoing, report = working.run(request, messages, rows or (), self._tag, place)
        collect_again()
        report.window.ready = ready
        if rows is not None:
            report.task_attempt = rows.task_attempt
        return outgoing, report

    def committed(self, container: int, window_id: int, states: Mapping[int, StateVersion] | None) -> None:
        """Call `committed` of the container's operators that have it. Raises OperatorError.

        `states`: the versions after the window, None if the container went on from there.
        """
        with self._working(container) as working:
            working.committed(window_id, states)

    @contextmanager
    def _working(self, number: int) -> Iterator[Container]:
        """The calling thread runs a window of a container."""
        global _at_work  # noqa: PLW0603  one thread of tasks a process
        _at_work = True
        try:
            container = self._container(number)
            with (
                contextlib.nullcontext() if self._heartbeats is None else self._heartbeats.working(container)
            ):
                yield container
        finally:
            _at_work = False
            _black_box().idle()

    def _container(self, number: int) -> Container:
        container = self._containers.get(number)
        if container is None:
            assert self._storage is not None  # noqa: S101  it is hosted
            run_id = self._plan[2]
            container = Container(self.specs[number], self._storage, CLOCK, run_id)
            container.on_turn = partial(_note_turn, run_id, number)
            if self.on_wake is not None:
                container.on_wake = self.on_wake
            self._containers[number] = container
        return container

    def close(self) -> Sequence[Failure]:
        """Tear all containers down; what failed in it, and in those that were torn down before."""
        self.tear_down()
        self._send_heartbeats(None)
        return self._failures

    def tear_down(self) -> None:
        """Tear all containers down: nothing is hosted."""
        if self._storage is not None:
            self._close(list(self._containers))
            _with_containers.remove(self)
            self._storage = None

    def _close(self, numbers: Collection[int]) -> None:
        """Tear these containers down. What fails in it is kept."""
        with _tearing_down():
            for number in numbers:
                container = self._containers.pop(number, None)
                try:
                    if container is not None:
                        container.close()
                except BaseException as error:  # noqa: BLE001  reported
                    self._failures.append(failure_of(error, self._shipped[number], -1, self.uri))

    def _send_heartbeats(self, seconds: float | None) -> None:
        """Send heartbeats so often from now on, None for never."""
        if seconds != self._heartbeat_seconds:
            if self._heartbeats is not None:
                self._heartbeats.stop()
            self._heartbeat_seconds = seconds
            self._heartbeats = (
                None if seconds is None else HeartbeatSender(self._send, seconds, CLOCK, taken=self._taken)
            )
            if self._heartbeats is not None:
                self._heartbeats.start()

    def _taken(self) -> tuple[SourceTaken, ...]:
        """How far input operators are that are in no window. The thread of heartbeats calls it."""
        return tuple(one for container in list(self._containers.values()) for one in container.taken())


@contextmanager
def _tearing_down() -> Iterator[None]:
    """A signal that ends the process leaves it to the end of this."""
    global _closing  # noqa: PLW0603  one thread of tasks a process
    _closing = True
    try:
        yield
    finally:
        _closing = False


def _black_box() -> BlackBox:
    """That of this process."""
    global _box  # noqa: PLW0603  one a process
    if _box is None or not _box.of_this_process:
        _box = BlackBox()
    return _box


def _note_turn(run_id: str, container: int, request: WindowRequest, operator: int) -> None:
    _black_box().note(Turn(run_id, request.window_id, request.attempt, container, operator))


def end_orderly() -> None:
    """Tear all containers down when the daemon ends this process.

    Every task calls it: pyspark sets its own handler before.
    """
    signal.signal(signal.SIGHUP, _shut_down)


def _shut_down(_signal: int, _frame: object) -> None:
    """Tear down what `setup` made, then go; at once if a callback is interrupted by this.

    The operator in turn has not ended the process: the black box names none.
    """
    if _closing:
        return
    _black_box().idle()
    for hosted in () if _at_work else list(_with_containers):
        hosted.tear_down()
    os._exit(0)

"""The containers of one plan in this worker process, and what surrounds a container's work.

While a container works its process sends heartbeats for it, and the black box names the operator in turn. A
process that Spark ends tears its containers down first.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from ridgeline.api.clock import SystemClock
from ridgeline.engine.container.container import Container
from ridgeline.engine.files.patience import open_patient
from ridgeline.engine.files.storage import Storage
from ridgeline.engine.operator.failures import Failed, failure_of
from ridgeline.engine.process import plan_distribution
from ridgeline.engine.process.black_box import BlackBox, Turn
from ridgeline.engine.process.heartbeat import HeartbeatSender
from ridgeline.measure.events import SourceTaken
from ridgeline.plan.container_spec import ContainerSpec
from ridgeline.plan.protocol import WindowRequest

CLOCK = SystemClock()
Specs: TypeAlias = tuple[ContainerSpec, ...]
"""Of the containers of a plan that are shipped to one slot."""
_with_containers: list[Hosted] = []
"""All that have containers in this process."""
_at_work = False
"""Whether a container runs right now."""
_closing = False
_box: BlackBox | None = None


class Hosted:
    """The containers of one plan in this process, each made at its first use."""

    def __init__(
        self,
        checkpoint: str,
        plan: plan_distribution.ShippedPlan,
        run_id: str,
        on_wake: Callable[[], None] | None = None,
        read: Specs | None = None,
    ) -> None:
        """Read the plan, unless it was `read` before. Raises what `plan_distribution.receive` raises."""
        self._on_wake = on_wake
        self.storage: Storage = open_patient(checkpoint)
        found = plan_distribution.receive(self.storage, plan) if read is None else read
        self.specs: dict[int, ContainerSpec] = {spec.id: spec for spec in found}
        self._run_id = run_id
        self._containers: dict[int, Container] = {}
        _with_containers.append(self)

    def container(self, container_id: int) -> Container:
        """The container."""
        container = self._containers.get(container_id)
        if container is None:
            container = Container(self.specs[container_id], self.storage, CLOCK, self._run_id)
            container.on_turn = partial(_note_turn, self._run_id, container_id)
            if self._on_wake is not None:
                container.on_wake = self._on_wake
            self._containers[container_id] = container
        return container

    def change(self, plan: plan_distribution.ShippedPlan, read: Specs | None = None) -> list[Failed]:
        """Have the containers of another plan: those that are here already are retained as far as possible.

        `read`: what is in its file, if that is known. Returns what failed in `deactivate` and `teardown`.
        Raises what `plan_distribution.receive` raises.
        """
        global _closing  # noqa: PLW0603  as below
        found = plan_distribution.receive(self.storage, plan) if read is None else read
        specs = {spec.id: spec for spec in found}
        failed = self.close(self._containers.keys() - specs.keys())
        self.specs = specs
        _closing = True
        try:
            for container_id, container in self._containers.items():
                for error in container.change(self.specs[container_id]):
                    failure = failure_of(error, self.specs[container_id], -1, self.storage.uri)
                    failed.append(Failed(container_id, failure))
        finally:
            _closing = False
        return failed

    @contextmanager
    def working(self, container_id: int, heartbeats: HeartbeatSender | None) -> Iterator[Container]:
        """The calling thread runs a window of the container."""
        global _at_work  # noqa: PLW0603  one thread of tasks a process
        _at_work = True
        try:
            container = self.container(container_id)
            with contextlib.nullcontext() if heartbeats is None else heartbeats.working(container):
                yield container
        finally:
            _at_work = False
            _black_box().idle()

    def taken(self) -> tuple[SourceTaken, ...]:
        """How far the input operators are that live here and are in no window. From any thread."""
        return tuple(one for container in list(self._containers.values()) for one in container.taken())

    def close(self, containers: Collection[int] | None = None) -> list[Failed]:
        """Tear these containers down, or all. Returns what failed in it."""
        global _closing  # noqa: PLW0603  as above
        _closing = True
        failed = []
        try:
            for container_id in list(self._containers) if containers is None else containers:
                container = self._containers.pop(container_id, None)
                try:
                    if container is not None:
                        container.close()
                except BaseException as error:  # noqa: BLE001  reported
                    spec = self.specs[container_id]
                    failed.append(Failed(container_id, failure_of(error, spec, -1, self.storage.uri)))
        finally:
            _closing = False
        if containers is None:
            _with_containers.remove(self)
        return failed


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
        hosted.close()
    os._exit(0)

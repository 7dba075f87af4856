"""Runs containers in this thread: what stands in process where Spark's tasks are else."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random

from ridgeline.api.attributes import APPLICATION_ATTRIBUTES
from ridgeline.api.clock import Clock
from ridgeline.api.errors import CallbackInterrupt, ContainerAbortError, RidgelineError
from ridgeline.engine.container.container import Container
from ridgeline.engine.driver.run.committing import Commits
from ridgeline.engine.exchange.block import Message
from ridgeline.engine.files.storage import Storage
from ridgeline.engine.operator.failures import failure_of
from ridgeline.observe.identity import own_host
from ridgeline.plan.container_spec import ContainerSpec, container_specs
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion, WindowRequest
from ridgeline.stram.control import AttemptFailed, ContainerReported, ExecutorEvent, ManifestWritten
from ridgeline.testing.faults import FaultInjector, KilledError
from ridgeline.testing.inspection import Inspector

ContainerClock = Callable[[int], tuple[str, Clock]]
"""The name of a container's host, and that host's clock, by the container's id."""
_LATE = 0.3  # of the reports of interleaved containers, and of commits, come later than they could


class CommitsLater(Commits):
    """Commits at random times, so that windows run meanwhile."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self._noted: Callable[[], ManifestWritten] | None = None

    @property
    def under_way(self) -> bool:
        """Whether a commit waits."""
        return self._noted is not None

    def begin(self, commit: Callable[[], ManifestWritten]) -> None:
        """Note it."""
        self._noted = commit

    def finished(self) -> ManifestWritten | None:
        """Commit, or leave it for later: chance decides."""
        if self._noted is None or self._random.random() < _LATE:
            return None
        commit, self._noted = self._noted, None
        return commit()

    def close(self) -> None:
        """A commit that has not begun is none."""
        self._noted = None


class LocalExecutor:
    """Run the containers of windows in this thread, each as soon as all its producers have run.

    Blocks between containers are encoded and decoded as on Spark. `seed`: several windows may be in flight.
    Containers run, and report, in an order that is drawn from it.
    """

    def __init__(
        self,
        plan: Plan,
        storage: Storage,
        clock: Clock,
        run_id: str,
        container_clock: ContainerClock | None = None,
        seed: int | None = None,
        injector: FaultInjector | None = None,
        awake: threading.Event | None = None,
    ) -> None:
        """`awake`: is set when an input that waits for its tuples has some."""
        self.waits = False
        self.slots = None
        self.capacity = 1 if seed is None else APPLICATION_ATTRIBUTES["windows_in_flight"].maximum
        self._random = None if seed is None else Random(seed)  # noqa: S311  not a secret
        self._specs = container_specs(plan)
        self._storage = storage
        self._clock = clock
        self._run_id = run_id
        self._container_clock = container_clock or (lambda _container: (own_host(), clock))
        self._injector = injector
        if injector is not None:
            injector.planned(plan)
        self._uri = storage.uri
        self._awake = awake or threading.Event()
        self._clocks: dict[int, Clock] = {}
        self._came: dict[tuple[int, int], float] = {}
        """When the input of a window had come, by window and container, by its host's clock."""
        self._make_all()
        self._requests: dict[int, deque[WindowRequest]] = {spec.id: deque() for spec in self._specs}
        self._inboxes: dict[tuple[int, int], list[Message | None]] = {}
        self._happened: list[ExecutorEvent] = []

    def _make_all(self) -> None:
        """Make all containers, without their state."""
        self._containers = [self._make(spec) for spec in self._specs]

    def _make(self, spec: ContainerSpec) -> Container:
        """A container without state, on the clock of its host."""
        host, clock = self._container_clock(spec.id)
        injector = self._injector
        if injector is not None:
            clock = injector.clock_of(spec, clock)
        inspect = Inspector if injector is None else injector.inspect
        self._clocks[spec.id] = clock
        container = Container(spec, self._storage, clock, self._run_id, host, inspect)
        container.on_wake = self._awake.set
        if injector is not None:
            container.on_turn = injector.on_turn
        return container

    def open(self) -> None:
        """Nothing has to be there before the first window."""

    def begin(self, request: WindowRequest, source: object) -> float:
        """Note an attempt; `poll` runs it."""
        if request.states is not None:
            # states in a request void all attempts that were begun before, as in slots
            self._void()
            self._happened.clear()
        for requests in self._requests.values():
            requests.append(request)
        return self._clock.wall()

    def poll(self, seconds: float) -> list[ExecutorEvent]:
        """Run containers, all that can run or one of them; returns what has come of it."""
        while ready := [container for container in self._containers if self._is_ready(container)]:
            if self._random is not None:
                self._run(self._random.choice(ready))
                break
            self._run(ready[0])
        happened, self._happened = self._happened, []
        if self._random is not None:
            self._random.shuffle(happened)
            # some reports come late, after other containers have run
            while happened and ready and self._random.random() < _LATE:
                self._happened.append(happened.pop())
        return happened

    def kill(self, host: str, pid: int, reason: str) -> bool:
        """Containers in this process are in none of their own."""
        return False

    def wake(self) -> None:
        """Nothing waits in `poll`."""
        self._awake.set()

    def _void(self) -> None:
        """Forget all attempts."""
        for requests in self._requests.values():
            requests.clear()
        self._inboxes.clear()
        self._came.clear()

    def _is_ready(self, container: Container) -> bool:
        """Whether the input of its next window has come; notes when that was first so."""
        number, requests = container.spec.id, self._requests[container.spec.id]
        inbox = self._inboxes.get((requests[0].window_id, number), ()) if requests else ()
        ready = bool(requests) and len(inbox) == len(container.spec.producers)
        if ready and (requests[0].window_id, number) not in self._came:
            self._came[requests[0].window_id, number] = self._clocks[number].wall()
        return ready

    def _run(self, container: Container) -> None:
        """Run the next window of a container.

        After a `ContainerAbortError` all containers are made again, without their state; after a
        `KilledError` that container only.
        """
        request = self._requests[container.spec.id].popleft()
        inbox = self._inboxes.pop((request.window_id, container.spec.id), [])
        came = self._came.pop((request.window_id, container.spec.id))
        messages = [message for message in inbox if message is not None]
        ends = self._container_clock(container.spec.id)[1].monotonic() + container.spec.window_seconds
        request = replace(request, ends=ends)
        try:
            with _interrupts_of_the_caller():
                outgoing, report = container.run(request, messages, (), f"t{request.attempt}")
            if self._injector is not None:
                self._injector.reported(request, container.spec)
        except (RidgelineError, OSError) as error:
            self._requests[container.spec.id].clear()
            if self._random is None or isinstance(error, ContainerAbortError):
                self._void()
            if isinstance(error, KilledError):
                self._containers[self._containers.index(container)] = self._make(container.spec)
            elif isinstance(error, ContainerAbortError):
                self._make_all()
            failure = failure_of(error, container.spec, request.window_id, self._uri)
            self._happened.append(AttemptFailed(request.window_id, request.attempt, failure))
            return
        for consumer in container.spec.consumers:
            message = outgoing.get(consumer)
            inbox = self._inboxes.setdefault((request.window_id, consumer), [])
            # pickled even within the process: a tuple that does not survive it must fail here too
            inbox.append(None if message is None else message.copied())
        report.window.ready, report.window.received = came, self._clock.wall()
        self._happened.append(ContainerReported(report))

    def prepare(self, plan: Plan) -> None:
        """Nothing has to be there before."""

    def check(self, plan: Plan) -> None:
        """There are no slots."""

    prepared = True

    def abandon(self) -> None:
        """Nothing was made."""

    def change(self, plan: Plan) -> None:
        """Run the containers of another plan; those that stay are retained. Raises OperatorError."""
        before = {container.spec.id: container for container in self._containers}
        self._specs = container_specs(plan)
        if self._injector is not None:
            self._injector.planned(plan)
        errors: list[BaseException] = []
        self._containers = []
        with _interrupts_of_the_caller():
            for spec in self._specs:
                container = before.pop(spec.id, None)
                if container is not None:
                    errors += container.change(spec)
                    if self._injector is not None:
                        self._injector.clock_of(spec, self._clock)
                self._containers.append(container or self._make(spec))
            for container in before.values():
                try:
                    container.close()
                except RidgelineError as error:
                    errors.append(error)
            # only now: all other containers are to be closed first
            for one in errors:
                if not isinstance(one, RidgelineError):
                    raise one
        self._requests = {spec.id: deque() for spec in self._specs}
        self._inboxes.clear()
        self._came.clear()
        self._happened.clear()

    def committed(self, window_id: int, states: Mapping[int, StateVersion]) -> None:
        """Call `committed` of the operators that have it."""
        for container in self._containers:
            if container.spec.wants_commit:
                with _interrupts_of_the_caller():
                    container.committed(window_id, states if self._random is None else None)

    def close(self, *, at_once: bool = False) -> tuple[()]:
        """Tear all containers down. Raises OperatorError."""
        del at_once  # containers run in the thread that calls this: none is at work
        with _interrupts_of_the_caller():
            for container in self._containers:
                container.close()
        return ()


@contextlib.contextmanager
def _interrupts_of_the_caller() -> Iterator[None]:
    """Pass on what a callback raised if it is no Exception: Ctrl-C, or the end of a test."""
    try:
        yield
    except CallbackInterrupt as error:
        raise error.__cause__ or error from None

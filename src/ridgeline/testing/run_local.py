"""Run an application in this process: plan, containers, STRAM and commits as on Spark, without Spark."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any

from rich.console import Console

from ridgeline.api.application import Application
from ridgeline.api.attributes import APPLICATION_ATTRIBUTES
from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import (
    CallbackInterrupt,
    CheckpointError,
    ContainerAbortError,
    RidgelineError,
)
from ridgeline.api.files import is_local
from ridgeline.api.operator import InputOperator, Operator, SparkSource, operator_type, port_schema
from ridgeline.api.publisher import PublisherContext
from ridgeline.engine.driver.checkpoint import Checkpoint
from ridgeline.engine.driver.planning import Planner
from ridgeline.engine.driver.run import ApplicationRun
from ridgeline.engine.exchange.block import Message
from ridgeline.engine.state.storage import DriverStorage, LocalStorage, MemoryStorage, Storage
from ridgeline.engine.worker.container import Container
from ridgeline.engine.worker.failures import failure_of
from ridgeline.measure.events import (
    ApplicationEnded,
    OperatorWindow,
    RunEvent,
    StateWarning,
    WindowCommitted,
    WindowRetried,
)
from ridgeline.plan.container_spec import ContainerSpec, container_specs
from ridgeline.plan.execution import Plan
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import StateVersion, WindowRequest
from ridgeline.plan.replacing import Replace
from ridgeline.stram.control import AttemptFailed, ContainerReported, ExecutorEvent, ManifestWritten
from ridgeline.stram.event_lines import EventLines
from ridgeline.stram.identity import own_host, run_info
from ridgeline.stram.metric_tables import MetricTables
from ridgeline.stram.topology import planned_event
from ridgeline.stram.watch import Watch
from ridgeline.testing.clock import SteppingClock
from ridgeline.testing.collector import Collector, collected
from ridgeline.testing.inspection import Inspector
from ridgeline.testing.list_input import ListInput

ContainerClock = Callable[[int], tuple[str, Clock]]
"""The name of a container's host, and that host's clock, by the container's id."""
_LATE = 0.3  # of the reports of interleaved containers, and of commits, come later than they could


class CommitLater:
    """A `Committer` that commits when chance has it, so that windows go on meanwhile."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._commit: Callable[[], ManifestWritten] | None = None

    @property
    def done(self) -> bool:
        """Chance decides in `finished`; nothing waits for it."""
        return False

    def begin(self, commit: Callable[[], ManifestWritten]) -> None:
        """Note it."""
        self._commit = commit

    def finished(self) -> ManifestWritten | None:
        """Commit, or leave it for later."""
        if self._commit is None or self._random.random() < _LATE:
            return None
        commit, self._commit = self._commit, None
        return commit()

    def close(self) -> None:
        """A commit that has not begun is none."""
        self._commit = None


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
    ) -> None:
        self.waits = False
        self.capacity = 1 if seed is None else APPLICATION_ATTRIBUTES["windows_in_flight"].maximum
        self._random = None if seed is None else Random(seed)  # noqa: S311  not a secret
        self._specs = container_specs(plan)
        self._storage = storage
        self._clock = clock
        self._run_id = run_id
        self._container_clock = container_clock or (lambda _container: (own_host(), clock))
        self._uri = storage.uri
        self._awake = threading.Event()
        self._make_all()
        self._requests: dict[int, deque[WindowRequest]] = {spec.id: deque() for spec in self._specs}
        self._inboxes: dict[tuple[int, int], list[Message]] = {}
        self._happened: list[ExecutorEvent] = []

    def _make_all(self) -> None:
        """Make all containers, without their state."""
        self._containers = [self._make(spec) for spec in self._specs]

    def _make(self, spec: ContainerSpec) -> Container:
        host, clock = self._container_clock(spec.id)
        container = Container(spec, self._storage, clock, self._run_id, host, Inspector)
        container.on_wake = self._awake.set
        return container

    def open(self) -> None:
        """Nothing has to be there before the first window."""

    def begin(self, request: WindowRequest, source: object) -> float:
        """Note an attempt; `poll` runs it."""
        if request.states is not None:
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
            while happened and ready and self._random.random() < _LATE:
                self._happened.append(happened.pop())
        return happened

    def wake(self) -> None:
        """Nothing waits in `poll`."""

    def wait_for_inputs(self, seconds: float) -> None:
        """Wait until an input that waits for its tuples has some, at most so long by the machine's clock."""
        SystemClock().wait(seconds, self._awake)
        self._awake.clear()

    def _void(self) -> None:
        """Forget all attempts."""
        for requests in self._requests.values():
            requests.clear()
        self._inboxes.clear()

    def _is_ready(self, container: Container) -> bool:
        requests = self._requests[container.spec.id]
        inbox = self._inboxes.get((requests[0].window_id, container.spec.id), ()) if requests else ()
        return bool(requests) and len(inbox) == len(container.spec.producers)

    def _run(self, container: Container) -> None:
        """Run the next window of a container.

        After a `ContainerAbortError` all containers are made again, without their state.
        """
        request = self._requests[container.spec.id].popleft()
        messages = self._inboxes.pop((request.window_id, container.spec.id), [])
        try:
            with _interrupts_of_the_caller():
                outgoing, report = container.run(request, messages, (), f"t{request.attempt}")
        except (RidgelineError, OSError) as error:
            self._requests[container.spec.id].clear()
            if self._random is None or isinstance(error, ContainerAbortError):
                self._void()
            if isinstance(error, ContainerAbortError):
                self._make_all()
            failure = failure_of(error, container.spec, request.window_id, self._uri)
            self._happened.append(AttemptFailed(request.window_id, request.attempt, failure))
            return
        for consumer, message in outgoing.items():
            self._inboxes.setdefault((request.window_id, consumer), []).append(
                Message.decode(message.encode())
            )
        report.window.received = self._clock.wall()
        self._happened.append(ContainerReported(report))

    def committed(self, window_id: int, states: Mapping[int, StateVersion]) -> None:
        """Call `committed` of the operators that have it."""
        for container in self._containers:
            if container.spec.wants_commit:
                with _interrupts_of_the_caller():
                    container.committed(window_id, states if self._random is None else None)

    def close(self) -> tuple[()]:
        """Tear all containers down. Raises OperatorError."""
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


class LocalRun(MetricTables):
    """The result of `run_local`: collected tuples, `events`, and the metrics, as tables and in `watch`.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("numbers")
        >>> numbers = app.add_operator("numbers", ListInput(Number, [(1,), (2,), END_WINDOW, (3,)]))
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("numbers", numbers.output, sink.input)
        >>> run = run_local(app)
        >>> run.window_ids, run.tuples_out("numbers"), run.tuples_in("sink"), run.retries
        ([0, 1], 3, 3, [])
    """

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self.plan = plan
        self.events: list[RunEvent] = []
        self.collectors: dict[str, Collector] = {}
        self._watch = Watch(clock.wall, own_host())
        self._watch.subscribe(self.events.append)
        self._watch.subscribe(EventLines().apply)

    @property
    def watch(self) -> Watch:
        """The metrics as plain data, as of the end of the run."""
        return self._watch

    @property
    def windows_committed(self) -> int:
        """The number of windows committed in this run."""
        return len(self.window_ids)

    @property
    def window_ids(self) -> list[int]:
        """The windows committed in this run, in order."""
        return [event.window_id for event in self.events if isinstance(event, WindowCommitted)]

    @property
    def retries(self) -> list[tuple[int, int, str]]:
        """The failed attempts: window, number of the attempt that followed (from 1), reason."""
        retried = (event for event in self.events if isinstance(event, WindowRetried) and not event.final)
        return [(event.window_id, event.attempt, event.reason) for event in retried]

    def collected(self, operator: str, window: int | None = None) -> list[Any]:
        """The tuples that a CollectorSink kept, of one window or of all, in order.

        Raises KeyError with the names of the collectors.
        """
        return collected(self.collectors, operator, window)

    def tuples_in(self, operator: str) -> int:
        """Tuples that all partitions of a logical operator received."""
        return self._sum(operator, lambda event: sum(event.tuples_in.values()))

    def tuples_out(self, operator: str) -> int:
        """Tuples that all partitions of a logical operator emitted."""
        return self._sum(operator, lambda event: sum(event.tuples_out.values()))

    def errors(self, operator: str) -> int:
        """Tuples that all partitions of a logical operator emitted on error ports."""
        return self._sum(operator, lambda event: event.errors)

    def _sum(self, operator: str, count: Callable[[OperatorWindow], int]) -> int:
        ids = {
            physical.id
            for physical in self.plan.physical.operators
            if physical.name == operator and not physical.unifier
        }
        return sum(
            count(event)
            for event in self.events
            if isinstance(event, OperatorWindow) and event.operator in ids
        )


def run_local(  # noqa: PLR0913  a test may replace any of its surroundings
    app: Application,
    *,
    windows: int | None = None,
    clock: Clock | None = None,
    properties: Mapping[str, str] | None = None,
    attributes: Mapping[str, str] | None = None,
    inputs: Mapping[str, Iterable[object]] | None = None,
    checkpoint: str | os.PathLike[str] | DriverStorage | None = None,
    console: Console | None = None,
    container_clock: ContainerClock | None = None,
    interleave: int | None = None,
    reset_properties: bool = False,
) -> LocalRun:
    """Run an application in process until its inputs have finished, or for `windows` windows.

    `clock` (default: a SteppingClock) is advanced by the window's width before each window but the first.
    `properties` and `attributes` are as `-D` and `--attribute`. `inputs` replaces input operators, by name
    (`outer.inner` in a module), with lists; Spark sources can only run so. `checkpoint` (a path or a storage;
    default: memory): a run that it holds is continued, with the properties that it keeps, unless
    `reset_properties`. `container_clock` returns host and clock of a container, for tests of clock skew.
    `interleave`: a seed. `windows_in_flight` windows are under way then, as in slots. Their containers run in
    an order that is drawn from it. Raises ValidationError, OperatorError, CheckpointError.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Map
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("doubled")
        >>> numbers = app.add_operator("numbers", ListInput(Number, [(1,), (2,)]))
        >>> double = app.add_operator("double", Map(lambda n: Number(2 * n.value), schema=Number))
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("numbers", numbers.output, double.data)
        >>> app.add_stream("doubled", double.output, sink.input)
        >>> run_local(app).collected("sink")
        [Number(value=2), Number(value=4)]
        >>> run_local(app, inputs={"numbers": [(50,)]}).collected("sink")
        [Number(value=100)]
    """
    clock = clock or SteppingClock()
    storage = (
        _local(os.fspath(checkpoint))
        if isinstance(checkpoint, (str, os.PathLike))
        else checkpoint or MemoryStorage()
    )
    given = dict(properties or {})
    by_lists = _by_lists(app.name, inputs) if inputs else None
    planner = Planner(
        lambda kept: plan_application(app, {**kept, **given}, attributes or {}, by_lists),
        given,
        reset=reset_properties,
    )
    plan = planner.first(storage, app.name)
    _refuse_spark_sources(plan)
    owned = Checkpoint(storage, plan.logical.application)
    plan = planner.settled(owned.properties())
    result = LocalRun(plan, clock)
    executor = LocalExecutor(plan, storage, clock, owned.run_id, container_clock, interleave)
    console = console or Console()

    def observe(event: RunEvent) -> None:
        if isinstance(event, StateWarning):
            console.print(event.text, style="yellow", markup=False, soft_wrap=True)
        result.watch.observe(event)

    def publisher_context(operator: str) -> PublisherContext:
        return PublisherContext(
            application=plan.logical.application,
            operator=operator,
            run_id=owned.run_id,
            clock=clock,
            console=console,
            staging=f"{storage.uri}/staging",
            spark=_no_spark,
            epoch=owned.epoch,
            check_owner=owned.check_owner,
        )

    outcome, reason = "failed", ""
    try:
        observe(
            planned_event(
                plan,
                at=clock.wall(),
                application_id=owned.run_id,
                info=run_info("in process", storage.uri, planner.shown),
            )
        )
        committer = None if interleave is None else CommitLater(Random(interleave))  # noqa: S311  no secret
        run = ApplicationRun(plan, owned, executor, clock, publisher_context, observe, committer=committer)
        run.properties = planner.kept
        result.collectors = {
            name: publisher for name, publisher in run.publishers.items() if isinstance(publisher, Collector)
        }
        orderly = False
        try:
            _drive(run, executor, windows)
            orderly = True
        finally:
            run.close(orderly=orderly)
        outcome = "finished" if run.ended else "stopped"
    except Exception as error:
        reason = str(error)
        raise
    finally:
        owned.close()
        observe(ApplicationEnded(clock.wall(), outcome, reason))
    return result


def _drive(run: ApplicationRun, executor: LocalExecutor, windows: int | None) -> None:
    """Run windows until the application has ended, or until `windows` windows have run."""
    first = run.next_window
    master = run.master
    while not run.ended and (windows is None or run.next_window - first < windows):
        if master.can_begin and (windows is None or master.next_window - first < windows):
            if master.next_window > first:
                if master.idle:
                    executor.wait_for_inputs(run.plan.logical.window_seconds)
                run.rest(run.plan.logical.window_seconds)
            run.begin(master.next_window)
        elif not (master.can_begin and run.commit_held()):
            run.turn(0)


def _local(uri: str) -> DriverStorage:
    if not is_local(uri):
        msg = (
            f"a run in process keeps its checkpoint on a local disk or in memory; found `{uri}`; "
            "give a path, or use `ridgeline run`"
        )
        raise CheckpointError(msg)
    return LocalStorage(uri)


def _no_spark() -> Any:
    msg = "there is no Spark in process; run this application with `ridgeline run`"
    raise RidgelineError(msg)


def _by_lists(name: str, inputs: Mapping[str, Iterable[object]]) -> Replace:
    """What puts a ListInput in the place of each named operator. It raises RidgelineError for unknown names.

    `name`: of the application.
    """

    def replaced(operators: Mapping[str, Operator]) -> Mapping[str, Operator]:
        unknown = sorted(set(inputs) - set(operators))
        if unknown:
            what = f"`inputs` names `{unknown[0]}`, which is not an operator of `{name}`"
            msg = f"{what}; there are {sorted(operators)}"
            raise RidgelineError(msg)
        found = {}
        for one, tuples in inputs.items():
            schema, timestamp = _played_by_list(one, operators[one])
            found[one] = ListInput(schema, tuples, timestamp=timestamp)
        return found

    return replaced


def _played_by_list(name: str, operator: Any) -> tuple[Any, str | None]:
    """Schema and timestamp column of the only output port of an input operator.

    Raises RidgelineError for an operator that a list cannot replace.
    """
    outputs = operator_type(type(operator)).outputs if isinstance(operator, InputOperator) else {}
    schema = port_schema(operator, next(iter(outputs))) if len(outputs) == 1 else None
    if schema is None:
        rule = "a list can replace an input operator with one output port that has a schema"
        msg = f"`inputs` names `{name}`, which is a `{type(operator).__name__}`; {rule}; leave it out"
        raise RidgelineError(msg)
    return schema.type, operator.timestamp_of(next(iter(outputs)))


def _refuse_spark_sources(plan: Plan) -> None:
    for operator in plan.logical.operators:
        if isinstance(operator.operator, SparkSource):
            remedy = f'give its tuples: `run_local(app, inputs={{"{operator.name}": [...]}})`'
            msg = f"`{operator.name}` reads through Spark, which is not there in process; {remedy}"
            raise RidgelineError(msg)

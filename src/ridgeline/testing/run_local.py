"""Run an application in this process: plan, containers, STRAM and commits as on Spark, without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Unpack

from rich.console import Console

from ridgeline.api.application import Application
from ridgeline.api.clock import Clock
from ridgeline.api.errors import CheckpointError, RidgelineError, ValidationError
from ridgeline.api.operator import InputOperator, Operator, SparkSource, operator_type, port_schema
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.api.support.files import is_local
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.checkpoint.resuming import ResumeOptions
from ridgeline.engine.driver.checkpoint.rewinding import rewind
from ridgeline.engine.driver.checkpoint.state_moves import check_states_of
from ridgeline.engine.driver.run.changes import APPLIED, Asked
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.files.storage import DriverStorage, LocalStorage, MemoryStorage
from ridgeline.measure.events import (
    ApplicationEnded,
    ApplicationPlanned,
    OperatorWindow,
    RunEvent,
    StateWarning,
    WindowCommitted,
    WindowRetried,
)
from ridgeline.observe.event_lines import EventLines
from ridgeline.observe.identity import own_host, run_info
from ridgeline.observe.metric_tables import MetricTables
from ridgeline.observe.plan_topology import planned_event
from ridgeline.observe.watch import Watch
from ridgeline.plan.change.replacing import Replace, replace_operators
from ridgeline.plan.change.succession import succeed
from ridgeline.plan.draft import Draft
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.plan.planner import plan_application
from ridgeline.policies.deciding import Deciders
from ridgeline.stram.changes import EditPlan
from ridgeline.testing.captured import Captured, tap
from ridgeline.testing.clock import SteppingClock
from ridgeline.testing.collector import Collector, collected
from ridgeline.testing.fault_injection import DriverGoneError, FaultInjector
from ridgeline.testing.faults import Faults
from ridgeline.testing.list_input import ListInput
from ridgeline.testing.local_executor import CommitLater, ContainerClock, LocalExecutor
from ridgeline.testing.muting import silence
from ridgeline.testing.sinks import ResultPublisher, result_of


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
        self.changes: list[Asked] = []
        """The changes that were requested, with their outcome."""
        self._captured: Captured | None = None
        self._sinks: dict[str, Publisher] = {}
        self._watch = Watch(clock.wall, own_host())
        self._watch.subscribe(self.events.append)
        self._watch.subscribe(EventLines().apply)

    @property
    def watch(self) -> Watch:
        """The metrics as plain data, as of the end of the run."""
        return self._watch

    @property
    def captured(self) -> Captured:
        """The tuples of each stream. Raises RidgelineError for a run without `capture=True`."""
        if self._captured is None:
            msg = "this run has captured nothing; give `run_local(app, capture=True)`"
            raise RidgelineError(msg)
        return self._captured

    def take_over(self, publishers: Mapping[str, Publisher]) -> None:
        """Take the sinks of a driver, which continue those of the one before."""
        for name, publisher in publishers.items():
            before = self._sinks.get(name)
            if before is publisher:
                continue
            if isinstance(publisher, Collector):
                if name in self.collectors:
                    publisher.windows = self.collectors[name].windows
                self.collectors[name] = publisher
            elif isinstance(publisher, ResultPublisher) and isinstance(before, ResultPublisher):
                publisher.result = before.result
            self._sinks[name] = publisher

    def will_capture(self) -> None:
        """The plan has taps."""
        self._captured = Captured.of(self.plan)

    def keep(self, run: ApplicationRun) -> None:
        """Keep what a run has captured, at its end."""
        self.take_over(run.publishers)
        if self._captured is not None:
            self._captured.add(self.plan, run.publishers, self.window_ids)

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

    def result(self, operator: str) -> Any:
        """The result of a `CountSink`, `HashSink` or `FirstLastSink`. Raises KeyError with their names."""
        return result_of(self._sinks, operator)

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
        """The sum over all partitions that an operator has had, in all plans of the run."""
        ids = {
            node.id
            for planned in self.events
            if isinstance(planned, ApplicationPlanned)
            for node in planned.topology.operators
            if node.name == operator and not node.unifier
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
    properties: Mapping[str, object] | None = None,
    attributes: Mapping[str, object] | None = None,
    inputs: Mapping[str, Iterable[object]] | None = None,
    checkpoint: str | os.PathLike[str] | DriverStorage | None = None,
    console: Console | None = None,
    container_clock: ContainerClock | None = None,
    interleave: int | None = None,
    faults: Faults | None = None,
    capture: bool = False,
    changes: Mapping[int, Iterable[Edit]] | None = None,
    **resume: Unpack[ResumeOptions],
) -> LocalRun:
    """Run an application in process until its inputs have finished, or for `windows` windows.

    `clock` (default: a SteppingClock) is advanced by the window's width before each window but the first.
    `properties` and `attributes` are as `-D` and `--attribute`. `inputs` replaces input operators, by name
    (`outer.inner` in a module), with lists; Spark sources can only run so. `checkpoint` (a path or a storage;
    default: memory): a run that it holds is continued, with the properties that it keeps, unless
    `reset_properties`. `container_clock` returns host and clock of a container, for tests of clock skew.
    `interleave`: a seed. `windows_in_flight` windows are under way then, as in slots. Their containers run in
    an order that is drawn from it. `faults` strike the run. `capture`: `run.captured` has what each stream
    carried, and output operators publish nothing. `changes`: edits by the window that is to
    begin with them, or a later one that may. `run.changes` says what came of them.
    `resume`: `reset_properties`, `reset_changes`, `drop_state`, `rename`, `from_window`, as the options of
    `ridgeline run`, for what the checkpoint holds.
    Raises ValidationError, OperatorError, CheckpointError.

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
    for name in resume.keys() - ResumeOptions.__annotations__.keys():
        msg = f"run_local() got an unexpected keyword argument '{name}'"
        raise TypeError(msg)
    clock = clock or SteppingClock()
    storage = (
        _local(os.fspath(checkpoint))
        if isinstance(checkpoint, (str, os.PathLike))
        else checkpoint or MemoryStorage()
    )
    given = dict(properties or {})
    by_lists = _by_lists(app.name, inputs) if inputs else None
    planner = Planner(
        lambda values, kept, edits: _planned(
            app, {**values, **given}, attributes or {}, by_lists, kept, edits, capture=capture
        ),
        given,
        resume=resume,
    )
    plan = planner.first(storage, app.name)
    _refuse_spark_sources(plan)
    console = console or Console()
    injector = (
        None if faults is None else FaultInjector(faults, plan, partial(_say, console), changes=bool(changes))
    )
    local = _InProcessRun(
        planner, storage, clock, console, injector, container_clock, interleave, changes or {}
    )
    return local.run(app.name, windows, capture=capture)


class _InProcessRun:
    """One run in process: of one driver, or of several that follow each other."""

    def __init__(
        self,
        planner: Planner,
        storage: DriverStorage,
        clock: Clock,
        console: Console,
        injector: FaultInjector | None,
        container_clock: ContainerClock | None,
        interleave: int | None,
        changes: Mapping[int, Iterable[Edit]],
    ) -> None:
        self._edits = {window: tuple(edits) for window, edits in changes.items()}
        self._planner = planner
        self._storage = storage
        self._clock = clock
        self._console = console
        self._injector = injector
        self._container_clock = container_clock
        self._interleave = interleave

    def run(self, application: str, windows: int | None, *, capture: bool) -> LocalRun:
        """Run windows until the end. Raises what the application does."""
        owned = Checkpoint(self._storage, application)
        plan = self._planner.settled(owned.last())
        if (back := self._planner.from_window) is not None:
            try:
                context, settled = self._context(owned, plan), self._planner.settled

                def check(other: Plan, window: Manifest) -> None:
                    check_states_of(other, owned, self._planner, window)

                rewind(owned, plan, back, self._clock, context, settled, check)
                plan = self._planner.settled(owned.last())
            except BaseException:
                owned.close()
                raise
        result = LocalRun(plan, self._clock)
        if capture:
            result.will_capture()
        end: int | None = None
        outcome, reason = "failed", ""
        try:
            self._observe(result, self._event_of(owned, plan))
            while outcome == "failed":
                run, executor = self._opened(result, owned, plan)
                if windows is not None and end is None:
                    end = run.next_window + windows
                orderly = False
                try:
                    _drive(run, executor, end, self._injector, self._edits, result)
                    orderly = True
                    outcome = "finished" if run.ended else "stopped"
                except DriverGoneError:
                    pass
                finally:
                    waiting = [] if orderly else [one for one in result.changes if not one.done.is_set()]
                    run.close(orderly=orderly)
                    self._ask_again(result, [one for one in waiting if one.state != APPLIED])
                    result.keep(run)
                if not orderly:
                    owned = Checkpoint(self._storage, application)
                    plan = self._planned_again(result, owned)
        except Exception as error:
            reason = str(error)
            outcome = "failed"
            raise
        finally:
            owned.close()
            self._observe(result, ApplicationEnded(self._clock.wall(), outcome, reason))
        return result

    def _ask_again(self, result: LocalRun, lost: Sequence[Asked]) -> None:
        """Ask the next driver, before its first window, for the changes that waited when this one died."""
        result.changes = [asked for asked in result.changes if asked not in lost]
        for number, asked in enumerate(lost):
            if isinstance(asked.change.what, EditPlan):
                # negative windows: due at once, and in the order in which they were asked for
                self._edits[number - len(lost)] = asked.change.what.edits

    def _planned_again(self, result: LocalRun, owned: Checkpoint) -> Plan:
        """The plan of a driver that follows another one; observers get it if it differs."""
        plan = self._planner.settled(owned.last())
        if plan is result.plan:
            return plan
        result.plan = plan = succeed(result.plan, plan)
        self._observe(result, self._event_of(owned, plan))
        return plan

    def _opened(
        self, result: LocalRun, owned: Checkpoint, plan: Plan
    ) -> tuple[ApplicationRun, LocalExecutor]:
        """A run on the checkpoint, whose collecting sinks continue, and the executor of its containers."""
        clock, seed = self._clock, self._interleave
        executor = LocalExecutor(
            plan, self._storage, clock, owned.run_id, self._container_clock, seed, self._injector
        )
        committer = None if seed is None else CommitLater(Random(seed))  # noqa: S311  no secret
        observe = partial(self._observe, result)
        run = ApplicationRun(
            plan,
            owned,
            executor,
            clock,
            self._context(owned, plan),
            observe,
            committer=committer,
            planner=self._planner,
        )
        run.on_plan(partial(self._replanned, result, owned, run))
        result.take_over(run.publishers)
        return run, executor

    def _context(self, owned: Checkpoint, plan: Plan) -> Callable[[str], PublisherContext]:
        """The environment of publishers, by operator."""

        def publisher_context(operator: str) -> PublisherContext:
            return PublisherContext(
                application=plan.logical.application,
                operator=operator,
                run_id=owned.run_id,
                clock=self._clock,
                console=self._console,
                staging=f"{self._storage.uri}/staging",
                spark=_no_spark,
                epoch=owned.epoch,
                check_owner=owned.check_owner,
                committed=owned.committed,
            )

        return publisher_context

    def _replanned(self, result: LocalRun, owned: Checkpoint, run: ApplicationRun, plan: Plan) -> RunEvent:
        """The event of a plan that has changed; the sinks that it adds are kept."""
        result.plan = plan
        result.take_over(run.publishers)
        return self._event_of(owned, plan)

    def _event_of(self, owned: Checkpoint, plan: Plan) -> RunEvent:
        """The event of a plan."""
        info = run_info("in process", self._storage.uri, self._planner.shown)
        return planned_event(plan, at=self._clock.wall(), application_id=owned.run_id, info=info)

    def _observe(self, result: LocalRun, event: RunEvent) -> None:
        if isinstance(event, StateWarning):
            self._console.print(event.text, style="yellow", markup=False, soft_wrap=True)
        result.watch.observe(event)


def _drive(
    run: ApplicationRun,
    executor: LocalExecutor,
    end: int | None,
    injector: FaultInjector | None,
    edits: dict[int, tuple[Edit, ...]],
    result: LocalRun,
) -> None:
    """Run windows until the application has ended, or up to the window before `end`.

    Changes are asked for before their windows, and planned then. Raises DriverGoneError where a fault ends
    the driver.
    """
    first = run.next_window
    deciders = _deciders(run, result)
    while not run.ended and not run.stopping and (end is None or run.next_window < end):
        master = run.master
        due = sorted(one for one in edits if one <= master.next_window)
        result.changes += [run.changes.ask(EditPlan(edits.pop(one)), "test") for one in due]
        # before the changes are taken, so that what is decided by a window comes right after it
        if deciders:
            deciders.planned(run.plan.logical)
            deciders.look(result.watch.application_figures(keys=run.keys.load))
        run.take_changes(wait=True)
        if run.may_begin and (end is None or master.next_window < end):
            if master.next_window > first:
                if master.idle:
                    executor.wait_for_inputs(run.plan.logical.window_seconds)
                run.wait_until_due(run.plan.logical.window_seconds)
            run.begin(master.next_window)
            result.take_over(run.publishers)  # where outputs are opened anew
            if injector is not None:
                injector.driver_turn(master.next_window - 1)
        elif run.held_back is not None and not master.under_way:
            run.wait_until_due(run.plan.logical.window_seconds)
        elif not (master.can_begin and run.commit_held()):
            run.turn(0)
    if deciders:
        deciders.follow(result.watch.application_figures(keys=run.keys.load))


def _deciders(run: ApplicationRun, result: LocalRun) -> Deciders:
    """The listeners and policies of an application: they are asked after each commit, in its thread."""

    def ask(edits: tuple[Edit, ...], note: str, who: str) -> Asked:
        return run.changes.ask(EditPlan(edits, note), who)

    logical = run.plan.logical
    deciders = Deciders(logical.listeners, logical.policies, ask, result.watch.observe)
    if deciders:
        result.watch.keep_figures()
    return deciders


def _planned(
    app: Application,
    properties: Mapping[str, object],
    attributes: Mapping[str, object],
    by_lists: Replace | None,
    kept: Sequence[Edit],
    edits: Sequence[Edit],
    *,
    capture: bool,
) -> Plan:
    """The plan of an application. `capture`: with taps, and with outputs that publish nothing."""
    replacing = None if by_lists is None else partial(replace_operators, by_lists)
    if not capture:
        return plan_application(app, properties, attributes, replacing, edits=edits, kept=kept)

    def tapping(draft: Draft, app: Application) -> Application:
        return tap(draft, app if replacing is None else replacing(draft, app))

    try:
        return silence(plan_application(app, properties, attributes, tapping, edits=edits, kept=kept))
    except ValidationError:
        plan_application(
            app, properties, attributes, replacing, edits=edits, kept=kept
        )  # raises it without a word about taps
        raise


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


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
    """A function that replaces each named operator by a ListInput.

    It raises RidgelineError for unknown names. `name`: of the application.
    """

    def replaced(operators: Mapping[str, Operator]) -> Mapping[str, Operator]:
        unknown = sorted(set(inputs) - set(operators))
        if unknown:
            what = f"`inputs` names `{unknown[0]}`, which is not an operator of `{name}`"
            msg = f"{what}; there are {sorted(operators)}"
            raise RidgelineError(msg)
        found = {}
        for one, tuples in inputs.items():
            found[one] = _played_by_list(one, operators[one], tuples)
        return found

    return replaced


def _played_by_list(name: str, operator: Any, tuples: Iterable[object]) -> ListInput:
    """A list in the place of an input operator with one output port, with the times that it declares.

    Raises RidgelineError for an operator that a list cannot replace.
    """
    outputs = operator_type(type(operator)).outputs if isinstance(operator, InputOperator) else {}
    schema = port_schema(operator, next(iter(outputs))) if len(outputs) == 1 else None
    if schema is None:
        rule = "a list can replace an input operator with one output port that has a schema"
        msg = f"`inputs` names `{name}`, which is a `{type(operator).__name__}`; {rule}; leave it out"
        raise RidgelineError(msg)
    port = next(iter(outputs))
    return ListInput(
        schema.type, tuples, operator.timestamp_of(port), operator.lateness_of(port), operator.idle_seconds()
    )


def _refuse_spark_sources(plan: Plan) -> None:
    for operator in plan.logical.operators:
        if isinstance(operator.operator, SparkSource):
            remedy = f'give its tuples: `run_local(app, inputs={{"{operator.name}": [...]}})`'
            msg = f"`{operator.name}` reads through Spark, which is not there in process; {remedy}"
            raise RidgelineError(msg)

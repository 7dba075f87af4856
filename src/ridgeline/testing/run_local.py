"""Run an application in this process: plan, containers, STRAM and commits as on Spark, without Spark."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Unpack

from rich.console import Console

from ridgeline.api.application import Application
from ridgeline.api.clock import Clock
from ridgeline.api.errors import CheckpointError, RidgelineError, ValidationError
from ridgeline.api.operator import InputOperator, SparkSource, operator_type, port_schema
from ridgeline.api.publisher import PublisherContext
from ridgeline.api.support.files import is_local
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.checkpoint.resuming import ResumeOptions, refuse_others
from ridgeline.engine.driver.checkpoint.rewinding import rewound
from ridgeline.engine.driver.outputs import publisher_contexts
from ridgeline.engine.driver.run.changes import APPLIED, Asked
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.files.storage import DriverStorage, LocalStorage, MemoryStorage
from ridgeline.measure.events import (
    ApplicationEnded,
    RunEvent,
    StateWarning,
)
from ridgeline.observe.identity import run_info
from ridgeline.observe.judging import Judge
from ridgeline.observe.plan_topology import planned_event
from ridgeline.plan.change.succession import succeed
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.plan.graph import Graph
from ridgeline.plan.planner import plan_application
from ridgeline.plan.validation import Rewrite
from ridgeline.policies.deciding import Deciders
from ridgeline.regions.planning import WHOLE, Scope, resume_of
from ridgeline.stram.changes import EditPlan
from ridgeline.testing.captured import silence, tap
from ridgeline.testing.clock import SteppingClock
from ridgeline.testing.faults import DriverGoneError, FaultInjector, Faults
from ridgeline.testing.list_input import ListInput
from ridgeline.testing.local_executor import CommitsLater, ContainerClock, LocalExecutor
from ridgeline.testing.local_regions import drive, run_regions
from ridgeline.testing.local_run import LocalRun


def _refuse_spark(checkpoint: Checkpoint, _plan: Plan, window: Manifest) -> None:
    """Raise CheckpointError for a rewind in process of a run with Spark sources."""
    if window.offsets is not None:
        what = f"cannot rewind `{checkpoint.storage.uri}` to window {window.window_id} in process"
        raise CheckpointError(f"{what}: its Spark sources have a log of their own; rewind it on Spark")


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
    until: Callable[[LocalRun], bool] | None = None,
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
    begin with them, or a later one that may. `run.changes` says what came of them. `until` is asked about the
    run before each window; once it returns True, none begins. It is not for applications with regions.
    The application's promises are judged by `clock`, from the second window on: see `run.promises()`. Their
    hooks are not called.
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
    refuse_others("run_local", resume)
    clock = clock or SteppingClock()
    storage = (
        _local(os.fspath(checkpoint))
        if isinstance(checkpoint, (str, os.PathLike))
        else checkpoint or MemoryStorage()
    )
    given = dict(properties or {})

    def planner_of(planned: Application, scope: Scope = WHOLE) -> Planner:
        own = {name: value for name, value in given.items() if name in scope}
        lists = {name: tuples for name, tuples in (inputs or {}).items() if name in scope}
        by_lists = _by_lists(app.name, lists)

        def plan(values: Mapping[str, object], kept: Sequence[Edit], edits: Sequence[Edit]) -> Plan:
            properties = {**properties_of_others(values, lists), **own}
            make = partial(plan_application, planned, properties, attributes or {}, edits=edits, kept=kept)
            return _captured(make, by_lists) if capture else make(by_lists)

        return Planner(plan, own, resume=resume_of(resume, scope))

    shown = console or Console()

    def run_of(
        planner: Planner,
        plan: Plan,
        storage: DriverStorage,
        edits: dict[int, tuple[Edit, ...]],
        windows: int | None,
    ) -> InProcessRun:
        _refuse_spark_sources(plan)
        say = partial(_say, shown)
        injector = (
            None
            if faults is None
            else FaultInjector(faults, plan, say, changes=bool(edits or plan.logical.region))
        )
        surroundings = clock, shown, injector, container_clock, interleave
        return InProcessRun(app.name, planner, storage, *surroundings, edits, windows, capture=capture)

    edits = {window: tuple(some) for window, some in (changes or {}).items()}
    planner = planner_of(app)
    plan = planner.first(storage, app.name)
    if plan.logical.regions:
        if until is not None:
            raise RidgelineError("`until` cannot be given for an application with regions; give `windows`")
        return run_regions(app, plan, planner_of, storage, clock, run_of, edits, windows)
    run = run_of(planner, plan, storage, edits, windows)
    run.until = until
    drive([run], clock)
    return run.result


@dataclass(eq=False)
class InProcessRun:
    """One run in process: of one driver, or of several that follow each other."""

    application: str
    planner: Planner
    storage: DriverStorage
    clock: Clock
    console: Console
    injector: FaultInjector | None
    container_clock: ContainerClock | None
    interleave: int | None
    edits: dict[int, tuple[Edit, ...]]
    """By the window that is to begin with them."""
    windows: int | None
    capture: bool
    judge: Judge | None = None
    current: ApplicationRun | None = None
    """The run of the driver that is there now."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set: it ends after the windows under way."""
    result: LocalRun = field(init=False)
    until: Callable[[LocalRun], bool] | None = None
    """Asked before each window; once it returns True, it ends after those under way."""
    rested: bool = False
    """Whether inputs that wait for their tuples were waited for before the next window."""

    def __post_init__(self) -> None:
        """Have the steps of it, see `_run`."""
        self.awake = threading.Event()
        """Set when an input that waited for its tuples has some."""
        self.steps = self._run()

    @property
    def idle(self) -> bool:
        """True if all inputs wait for their tuples, and were not waited for."""
        return not self.rested and (self.current is None or self.current.master.idle)

    def _run(self) -> Generator[float, None, None]:
        """Run windows until the end, a step at a time; `result` has them. Raises what the application does.

        Yields for how many seconds there is nothing to do: who takes the steps moves the clock.
        """
        owned = Checkpoint(self.storage, self.application)
        try:
            check = partial(_refuse_spark, owned)
            plan = self.planner.settled(owned.last())
            plan = rewound(owned, plan, self.planner, self.clock, self._context(owned), check)
        except BaseException:
            owned.close()
            raise
        result = self.result = LocalRun(plan, self.clock)
        if self.capture:
            result.will_capture()
        end: int | None = None
        outcome, reason = "failed", ""
        try:
            self._begin(result, owned, plan)
            while outcome == "failed":
                run = self._opened(result, owned, plan)
                if self.windows is not None and end is None:
                    end = run.next_window + self.windows
                orderly = False
                try:
                    self.current = run
                    yield from self._drive(run, result, end)
                    orderly = True
                    outcome = "finished" if run.master.ended else "stopped"
                except DriverGoneError:
                    pass
                finally:
                    waiting = [] if orderly else [one for one in result.changes if not one.done.is_set()]
                    run.close(orderly=orderly)
                    self._ask_again(result, [one for one in waiting if one.state != APPLIED])
                    result.keep(run)
                if not orderly:
                    owned = Checkpoint(self.storage, self.application)
                    plan = self._planned_again(result, owned)
        except Exception as error:
            reason = str(error)
            outcome = "failed"
            raise
        finally:
            owned.close()
            self._observe(result, ApplicationEnded(self.clock.wall(), outcome, reason))

    def _begin(self, result: LocalRun, owned: Checkpoint, plan: Plan) -> None:
        """Report the plan, and the promises that are judged from now on."""
        self._observe(result, self._event_of(owned, plan))
        if promises := plan.logical.promises:
            self.judge = Judge(promises, result.watch, result.watch.observe, self.clock)
            self.judge.begin()

    def _ask_again(self, result: LocalRun, lost: Sequence[Asked]) -> None:
        """Ask the next driver, before its first window, for the changes that waited when this one died."""
        result.changes = [asked for asked in result.changes if asked not in lost]
        for number, asked in enumerate(lost):
            if isinstance(asked.what, EditPlan):
                # negative windows: due at once, and in the order in which they were asked for
                self.edits[number - len(lost)] = asked.what.edits

    def _planned_again(self, result: LocalRun, owned: Checkpoint) -> Plan:
        """The plan of a driver that follows another one; observers get it if it differs."""
        plan = self.planner.settled(owned.last())
        if plan is not result.plan:
            result.plan = plan = succeed(result.plan, plan)
            self._observe(result, self._event_of(owned, plan))
        return plan

    def _opened(self, result: LocalRun, owned: Checkpoint, plan: Plan) -> ApplicationRun:
        """A run on the checkpoint, whose collecting sinks continue."""
        clock, seed = self.clock, self.interleave
        executor = LocalExecutor(
            plan, self.storage, clock, owned.run_id, self.container_clock, seed, self.injector, self.awake
        )
        run = ApplicationRun(
            plan,
            owned,
            executor,
            clock,
            self._context(owned),
            partial(self._observe, result),
            commits=None if seed is None else CommitsLater(Random(seed)),  # noqa: S311  no secret
            planner=self.planner,
        )

        def replanned(following: Plan) -> RunEvent:
            result.plan = following
            result.take_over(run.publishers)
            return self._event_of(owned, following)

        run.on_plan(replanned)
        result.take_over(run.publishers)
        return run

    def _context(self, owned: Checkpoint) -> Callable[[str], PublisherContext]:
        """The surroundings of publishers, by operator."""
        return publisher_contexts(self.application, owned, self.clock, self.console, _no_spark)

    def _event_of(self, owned: Checkpoint, plan: Plan) -> RunEvent:
        """The event of a plan."""
        info = run_info("in process", self.storage.uri, self.planner.shown)
        return planned_event(plan, at=self.clock.wall(), application_id=owned.run_id, info=info)

    def _observe(self, result: LocalRun, event: RunEvent) -> None:
        if isinstance(event, StateWarning):
            self.console.print(event.text, style="yellow", markup=False, soft_wrap=True)
        result.watch.observe(event)
        if self.judge is not None:
            self.judge.apply(self.clock.monotonic(), event)

    def _drive(self, run: ApplicationRun, result: LocalRun, end: int | None) -> Iterator[float]:
        """Run the windows of one driver, until the application has ended, or up to the limits.

        `end`: the first window that does not run. Changes are asked for before their windows, and planned
        then. Yields as `_run`. Raises DriverGoneError where a fault ends the driver.
        """
        first, deciders = run.next_window, _deciders(run, result)
        while not run.master.ended and not run.stopping and (end is None or run.next_window < end):
            if self.until is not None and self.until(result):
                self.stop.set()
            if self.stop.is_set():
                if not run.master.under_way:
                    break
                if not run.commit_held():
                    run.turn(0)
                continue
            self._take_changes(run, result, deciders)
            master, may_begin = run.master, run.may_begin
            if may_begin and (end is None or master.next_window < end):
                if master.next_window > first:
                    yield from self._wait(run)
                if run.may_begin and not self.stop.is_set():  # attempts may have failed meanwhile
                    self._begin_window(run, result)
            elif run.outputs.full is not None and not master.under_way:
                run.idle()
                yield run.plan.logical.window_seconds
            elif not (master.can_begin and run.commit_held()):
                run.turn(0)
            yield 0.0
        if deciders:
            deciders.follow(result.watch.application_figures(keys=run.keys.load))

    def _take_changes(self, run: ApplicationRun, result: LocalRun, deciders: Deciders) -> None:
        """Ask for the changes that are due, and plan what was asked for."""
        due = sorted(one for one in self.edits if one <= run.master.next_window)
        result.changes += [run.changes.ask(EditPlan(self.edits.pop(one)), "test") for one in due]
        # before the changes are taken, so that what is decided by a window comes right after it
        if deciders:
            deciders.planned(run.plan.logical)
            deciders.look(result.watch.application_figures(keys=run.keys.load))
        run.take_changes(wait=True)

    def _wait(self, run: ApplicationRun) -> Iterator[float]:
        """Wait for the width of a window; outputs publish meanwhile."""
        due = self.clock.monotonic() + run.plan.logical.window_seconds
        while (left := due - self.clock.monotonic()) > 0 and not self.stop.is_set():
            yield left
            if self.clock.monotonic() < due:
                run.turn(0)
                run.idle()

    def _begin_window(self, run: ApplicationRun, result: LocalRun) -> None:
        """Begin the next window."""
        self.rested = False
        run.begin(run.master.next_window)
        result.take_over(run.publishers)  # where outputs are opened anew
        if self.injector is not None:
            self.injector.driver_turn(run.master.next_window - 1)


def _deciders(run: ApplicationRun, result: LocalRun) -> Deciders:
    """The listeners and policies of an application: they are asked after each commit, in its thread."""

    def ask(edits: tuple[Edit, ...], note: str, who: str) -> Asked:
        return run.changes.ask(EditPlan(edits, note), who)

    logical = run.plan.logical
    deciders = Deciders(logical.listeners, logical.policies, ask, result.watch.observe, strict=True)
    if deciders:
        result.watch.keep_figures()
    return deciders


def _captured(make: Callable[[Rewrite], Plan], by_lists: Rewrite) -> Plan:
    """The plan that `make` gives, with taps on all streams, and with outputs that publish nothing."""
    try:
        return silence(make(lambda graph: tap(by_lists(graph))))
    except ValidationError:
        make(by_lists)  # raises it without a word about taps
        raise


def properties_of_others(values: Mapping[str, object], replaced: Collection[str]) -> dict[str, object]:
    """Values by `operator.property`, without those of operators that a list replaces: it has none."""
    owners = tuple(f"{name}." for name in replaced)
    return {name: value for name, value in values.items() if not name.startswith(owners)}


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _local(uri: str) -> DriverStorage:
    if not is_local(uri):
        raise CheckpointError(
            f"a run in process keeps its checkpoint on a local disk or in memory; found `{uri}`; "
            "give a path, or use `ridgeline run`"
        )
    return LocalStorage(uri)


def _no_spark() -> Any:
    raise RidgelineError("there is no Spark in process; run this application with `ridgeline run`")


def _by_lists(name: str, inputs: Mapping[str, Iterable[object]]) -> Rewrite:
    """A function that replaces each named operator by a ListInput.

    It raises RidgelineError for unknown names. `name`: of the application.
    """

    def replaced(graph: Graph) -> Graph:
        unknown = sorted(inputs.keys() - graph.nodes)
        if unknown:
            what = f"`inputs` names `{unknown[0]}`, which is not an operator of `{name}`"
            raise RidgelineError(f"{what}; there are {sorted(graph.nodes)}")
        for one, tuples in inputs.items():
            before = graph.nodes[one].operator
            played = _played_by_list(one, before, tuples)
            ports = dict(zip(*(operator_type(type(of)).outputs for of in (before, played)), strict=True))
            graph, _ = graph.replaced(one, played, ports)
        return graph

    return replaced


def _played_by_list(name: str, operator: Any, tuples: Iterable[object]) -> ListInput:
    """A list in the place of an input operator with one output port, with the times that it declares.

    Raises RidgelineError for an operator that a list cannot replace.
    """
    outputs = operator_type(type(operator)).outputs if isinstance(operator, InputOperator) else {}
    schema = port_schema(operator, next(iter(outputs))) if len(outputs) == 1 else None
    if schema is None:
        rule = "a list can replace an input operator with one output port that has a schema"
        raise RidgelineError(
            f"`inputs` names `{name}`, which is a `{type(operator).__name__}`; {rule}; leave it out"
        )
    port = next(iter(outputs))
    return ListInput(
        schema.type, tuples, operator.timestamp_of(port), operator.lateness_of(port), operator.idle_seconds()
    )


def _refuse_spark_sources(plan: Plan) -> None:
    for operator in plan.logical.operators:
        if isinstance(operator.operator, SparkSource):
            remedy = f'give its tuples: `run_local(app, inputs={{"{operator.name}": [...]}})`'
            raise RidgelineError(
                f"`{operator.name}` reads through Spark, which is not there in process; {remedy}"
            )

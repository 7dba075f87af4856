"""A small application for simulations: sources with a position, sums by key, an output that hands over.

`Containers` hosts the engine's own containers of it. Its operators note in the ledger what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Operator,
    OutputPort,
    Publisher,
    State,
)
from ridgeline.api.attributes import RecordingLevel
from ridgeline.api.errors import Failure, OperatorError, RidgelineError
from ridgeline.engine.container.container import Container
from ridgeline.engine.exchange.block import Message
from ridgeline.engine.files.storage import Storage
from ridgeline.engine.slot.messages import Host, Prepare
from ridgeline.engine.state import state_files
from ridgeline.plan.container_spec import ContainerSpec, container_specs
from ridgeline.plan.execution import Plan
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import StateVersion, WindowReport, WindowRequest
from support.simulation.light import KEYS, LightContainer, value_of
from support.simulation.output_files import FOLDER, SimulatedFileOutput, SimulatedOutputFiles
from support.simulation.process import Process, WaitingClock

if TYPE_CHECKING:
    from support.simulation.world import World

_PLANNED = "as planned"
MOST = 6
"""So many tuples a source emits at most in a window."""


class Number(NamedTuple):
    """A tuple: a number, and the key that it counts for."""

    key: int
    value: int


class Emitting(InputOperator):
    """Emits what `row` makes of its positions; an attempt that is made again emits others."""

    position = State(0)

    def begin_window(self, window_id: int) -> None:
        self.life.begun(self.context.name, self.context.operator_id, self.position)

    def emit_tuples(self) -> None:
        begin = self.position
        end = self.life.end_of(begin)
        for place in range(begin, end):
            self.out.emit(self.row(place))
        if end != begin:
            self.position = end
        if end == self.life.total:
            self.finish()
        self.life.may_fail()

    def row(self, place: int) -> Any:
        """The tuple of a position."""
        raise NotImplementedError


class Source(Emitting):
    """Emits numbers."""

    out = OutputPort(Number)

    def row(self, place: int) -> Number:
        number = place * self.context.partitions + self.context.partition
        return Number(number % KEYS, number)


class Sums(Operator):
    """Adds up numbers by key, and passes them on."""

    numbers = InputPort(Number, key="key")
    out = OutputPort(Number)
    sums = KeyedState(int)

    def begin_window(self, window_id: int) -> None:
        self.life.begun("sums", self.context.operator_id, dict(self.sums.items()))

    @numbers.process
    def take(self, number: Number) -> None:
        self.sums[number.key] = self.sums.get(number.key, 0) + number.value + 1
        self.out.emit(number)
        self.life.may_fail()

    def committed(self, window_id: int) -> None:
        self.life.committed(window_id)


class Output(Operator):
    """Hands numbers over."""

    numbers = InputPort(Number, key="key")

    @numbers.process
    def take(self, number: Number) -> None:
        self.context.hand_over(number.value)
        self.life.may_fail()

    def publisher(self) -> Publisher:
        """One whose world is set when it is opened."""
        return Published()


class Tap(Operator):
    """Comes by a change; adds up all numbers that it sees. With `fails`, no window of it comes to its end."""

    numbers = InputPort(Number)
    fails: bool = False
    seen = State(0)

    def begin_window(self, window_id: int) -> None:
        self.life.begun("tap", self.context.operator_id, self.seen)
        if self.fails:
            raise RuntimeError(_PLANNED)

    @numbers.process
    def take(self, number: Number) -> None:
        self.seen += number.value + 1
        self.life.may_fail()


class Published(Publisher):
    """Publishes to the ledger of the driver's world; keeps what waits in the manifest."""

    groups_windows = True

    def __init__(self, *, in_order: bool = False) -> None:
        """`in_order`: as it came; else sorted."""
        self._in_order = in_order

    def open(self, context: Any, state: Any) -> None:
        self._driver = context.console
        self._check_owner = context.check_owner
        self._staged: list[Any] = state or []

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        staged = [*self._staged, *values]
        self._staged = staged if self._in_order else sorted(staged)
        return self._staged

    def publish(self, window_id: int) -> None:
        self._driver.point("publish")
        self._check_owner()
        self._driver.publish(window_id, self._staged)
        self._staged = []


class Layout(NamedTuple):
    """A plan, its container specs, and the numbers that each of its sources has to emit."""

    plan: Plan
    specs: Mapping[int, ContainerSpec]
    sources: Mapping[int, int]
    """The number of each source, by physical id."""
    sums: Mapping[int, int]


def application(  # noqa: PLR0917  `World` has them as a tuple
    sources: int,
    partitions: int,
    in_flight: int,
    interval: int,
    kept: int,
    speculates: bool = False,
    attempts: int = 1000,
    files: str = "",
    roll_seconds: float = 0.0,
) -> Application:
    """`sources` operators that feed one `Sums` of so many partitions, which feeds one output.

    `files`: the format of the files that it writes; "": it hands numbers over.
    """
    app = Application(
        "app",
        snapshot_interval=interval,
        windows_in_flight=in_flight,
        window_work="1h",  # the sums of a window are known: nothing of it may come later
        windows_kept=kept,
        metrics_recording_level=RecordingLevel.OFF,
        speculation=0.9 if speculates else None,
    )
    sums = app.add_operator("sums", Sums(), partitions=partitions, recovery_attempts=attempts)
    writer: Any = Output()
    if files:
        writer = SimulatedFileOutput(path=FOLDER, format=files, roll_seconds=roll_seconds)
    output = app.add_operator("output", writer, recovery_attempts=attempts)
    source = app.add_operator("source", Source(), partitions=sources, recovery_attempts=attempts)
    app.add_stream("numbers", source.out, sums.numbers)
    app.add_stream("sums", sums.out, output.input if files else output.numbers)
    return app


@cache
def layout(*shape: Any) -> Layout:
    """Of `application`, before any change."""
    plan = plan_application(application(*shape))
    specs = {spec.id: spec for spec in container_specs(plan)}
    partitions_of: dict[str, dict[int, int]] = {"source": {}, "sums": {}, "output": {}}
    for operator in plan.physical.operators:
        if not operator.unifier:
            partitions_of[operator.name][operator.id] = operator.partition
    return Layout(plan, specs, partitions_of["source"], partitions_of["sums"])


class Life:
    """What the operators of a slot know of the world."""

    def __init__(self, process: Process, world: World) -> None:
        self.total = world.ledger.total
        """How many numbers each source emits."""
        self.files = SimulatedOutputFiles(FOLDER, process) if world.case.files else None
        self.request: WindowRequest
        """Of the window that runs."""
        self.fail_after = 0
        """After so many more callbacks one raises; 0 for never."""
        self._luck = world.luck
        self._process = process
        self._ledger = world.ledger

    def end_of(self, begin: int) -> int:
        """The position of a source after a window, given that before."""
        return min(begin + self._luck.randint(0, MOST), self.total)

    def begun(self, name: str, operator: int, value: Any) -> None:
        """An operator begins a window with this state."""
        if self.request.states is not None:
            self._ledger.restored(name, self.request.states.get(operator, ()), value)

    def may_fail(self) -> None:
        """Raise if that is planned."""
        if self.fail_after:
            self.fail_after -= 1
            if not self.fail_after:
                raise RuntimeError(f"{_PLANNED} {self._luck.random()}")

    def committed(self, window_id: int) -> None:
        self._process.point("committed")
        self._ledger.told_committed(window_id)


class Containers:
    """The containers of a slot, as `Containers`."""

    uri = "simulated"

    def __init__(self, process: Process, storage: Storage, world: World, tag: str) -> None:
        self.specs: dict[int, ContainerSpec] = {}
        self.life = Life(process, world)
        self._process = process
        self._world = world
        self._storage = storage
        self._tag = tag
        self._plan = ""
        """The file of the plan that is hosted."""
        self._containers: dict[int, Container | LightContainer] = {}

    def prepare(self, message: Prepare) -> None:
        """Read a plan that may follow."""
        self._process.check()
        self._storage.read(message.plan.name)

    def host(self, message: Host) -> None:
        self._process.check()
        self._storage.read(message.plan.name)
        specs = self._world.specs[message.plan.name]
        self.specs = {number: specs[number] for number in message.containers}
        for number in self._containers.keys() - self.specs.keys():
            self._containers.pop(number).close()
        if self._plan not in {"", message.plan.name}:
            for number, container in self._containers.items():
                assert isinstance(container, Container), "light ones know one plan"
                container.change(self.specs[number])
                self._give_life(container)
        self._plan = message.plan.name
        for number in self.specs.keys() - self._containers.keys():
            self._containers[number] = self._made(self.specs[number], message.run_id)

    def _made(self, spec: ContainerSpec, run_id: str) -> Container | LightContainer:
        if not self._world.case.real:
            return LightContainer(spec, self._storage, run_id, self._world.layout, self.life)
        container = Container(spec, self._storage, WaitingClock(self._process), run_id, "simulated")
        self._give_life(container)
        return container

    def _give_life(self, container: Container) -> None:
        for runtime in container._operators.values():
            runtime.operator.life = self.life

    def run(
        self,
        container: int,
        request: WindowRequest,
        messages: Sequence[Message],
        task_began: float,
        place: object,
        rows: object = None,
    ) -> tuple[Mapping[int, Message], WindowReport]:
        """Run an attempt. What is neither planned nor of the disk is a violation."""
        self._process.point("run")
        ledger, one = self._world.ledger, self._containers[container]
        self.life.request = request
        large = self._world.luck.random() < ledger.large
        state_files.SMALL_BYTES = 0 if large else 1 << 15
        try:
            if isinstance(one, LightContainer):
                outgoing, report = one.run(request, messages, self._tag)
            else:
                outgoing, report = one.run(request, messages, (), self._tag)
        except Exception as error:
            if not (_is_planned(error) or self._world.excuses(self._process, error)):
                what = f"container {container} in attempt {request.attempt} at window {request.window_id}"
                ledger.violate(f"{what}: {error!r}")
            raise
        self._process.point("ran")
        for operator in report.operators:
            if operator.change:
                light = isinstance(one, LightContainer)
                own = one if light else one._operators[operator.window.operator]
                ledger.changed(own.spec.name, operator.change, value_of(own.cells))
        return outgoing, report

    def committed(self, container: int, window_id: int, states: Mapping[int, StateVersion] | None) -> None:
        one = self._containers[container]
        if isinstance(one, LightContainer):
            one.committed(window_id)
        else:
            one.committed(window_id, states)

    def close(self) -> Sequence[Failure]:
        failures = []
        for one in self._containers.values():
            try:
                one.close()
            except OperatorError as error:
                failures.append(error.failure)
        self._containers = {}
        return failures


def _is_planned(error: Exception) -> bool:
    return isinstance(error, OperatorError) and _PLANNED in error.failure.error


def cannot_write(error: Exception) -> bool:
    """True if the world's disk has refused what an output was to write. It refuses nothing by itself."""
    text = str(error)
    return isinstance(error, RidgelineError) and "` cannot write to `" in text and "simulated" in text

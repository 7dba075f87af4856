"""A small application for simulations: sources with a position, sums by key, an output that hands over.

The operators are plans only. `Models` runs their containers, with the engine's own cells and state files.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

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
from ridgeline.api.errors import Failure, OperatorError, StateError
from ridgeline.api.operator import operator_type
from ridgeline.engine.exchange.block import Block, Message
from ridgeline.engine.state import state_files
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.storage import Storage
from ridgeline.engine.state.versions import restore
from ridgeline.engine.worker.messages import Host
from ridgeline.measure.events import ContainerWindow
from ridgeline.plan.container_spec import ContainerSpec, container_specs
from ridgeline.plan.execution import Plan
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import OperatorReport, StateVersion, WindowReport, WindowRequest
from support.simulation.process import Process

if TYPE_CHECKING:
    from support.simulation.ledger import Ledger

KEYS = 5
MOST = 6
"""So many tuples a source emits at most in a window."""


class Number(NamedTuple):
    """A tuple: which source, and the how manieth of it."""

    key: int


class Source(InputOperator):
    """Emits numbers from its position on."""

    out = OutputPort(Number)
    position = State(0)

    def emit_tuples(self) -> None:
        """Containers of a simulation do not call it."""


class Sums(Operator):
    """Adds up numbers by key, and passes them on."""

    numbers = InputPort(Number, key="key")
    out = OutputPort(Number)
    sums = KeyedState(int)

    @numbers.process
    def take(self, number: Number) -> None:
        """As above."""

    def committed(self, window_id: int) -> None:
        """So the engine calls it."""


class Output(Operator):
    """Hands numbers over."""

    numbers = InputPort(Number, key="key")

    @numbers.process
    def take(self, number: Number) -> None:
        """As above."""

    def publisher(self) -> Publisher:
        """One whose world is set when it is opened."""
        return _Published()


class _Published(Publisher):
    """Publishes to the world's ledger; keeps what waits in the manifest."""

    def open(self, context: Any, state: Any) -> None:
        self._world = context.console
        self._check_owner = context.check_owner
        self._staged: dict[int, Any] = {}
        if state is not None:
            self._staged[state[0]] = state[1]

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        self._staged = {window_id: sorted(values)}
        return [window_id, sorted(values)]

    def publish(self, window_id: int) -> None:
        self._world.point("publish")
        self._check_owner()
        self._world.publish(window_id, self._staged[window_id])


class Layout(NamedTuple):
    """A plan, its container specs, and the numbers that each of its sources has to emit."""

    plan: Plan
    specs: Mapping[int, ContainerSpec]
    sources: Mapping[int, int]
    """The number of each source, by physical id."""
    sums: Mapping[int, int]


@cache
def layout(sources: int, partitions: int, in_flight: int, interval: int, kept: int) -> Layout:
    """`sources` operators that feed one `Sums` of so many partitions, which feeds one output."""
    app = Application("app", snapshot_interval=interval, windows_in_flight=in_flight, windows_kept=kept)
    sums = app.add_operator("sums", Sums(), partitions=partitions, recovery_attempts=1000)
    output = app.add_operator("output", Output(), recovery_attempts=1000)
    source = app.add_operator("source", Source(), partitions=sources, recovery_attempts=1000)
    app.add_stream("numbers", source.out, sums.numbers)
    app.add_stream("sums", sums.out, output.numbers)
    plan = plan_application(app)
    specs = {spec.id: spec for spec in container_specs(plan)}
    ids: dict[str, list[int]] = {"source": [], "sums": [], "output": []}
    for operator in plan.physical.operators:
        if not operator.unifier:
            ids[operator.name].append(operator.id)
    inputs, adders = ({id: number for number, id in enumerate(ids[name])} for name in ("source", "sums"))
    return Layout(plan, specs, inputs, adders)


class _Container:
    """A container: its cells, and the version that they have."""

    def __init__(self, spec: ContainerSpec) -> None:
        self.spec = spec
        self.operator = spec.operators[-1]
        assert all(one.unifier for one in spec.operators[:-1]), "a container has one operator of ours"
        declared = operator_type(type(self.operator.operator)).states
        self.cells: dict[str, Any] = {name: one.cell() for name, one in declared.items()}
        self.held: StateVersion | None = ()
        self.window = -1
        self.finished = False


class Models:
    """The containers of a slot, as `Hosting`."""

    uri = "simulated"

    def __init__(
        self,
        process: Process,
        storage: Storage,
        layout: Layout,
        ledger: Ledger,
        luck: random.Random,
        tag: str,
    ) -> None:
        self.specs: dict[int, ContainerSpec] = {}
        self._process = process
        self._layout = layout
        self._ledger = ledger
        self._luck = luck
        self._tag = tag
        self._files: SegmentFiles | None = None
        self._storage = storage
        self._containers: dict[int, _Container] = {}
        self.fail_next = 0
        """So many of the next windows of containers raise."""

    def host(self, message: Host) -> None:
        """Host these."""
        self._process.check()
        self._files = self._files or SegmentFiles(self._storage, message.run_id)
        self.specs = {number: self._layout.specs[number] for number in message.containers}
        self._containers = {
            number: self._containers.get(number) or _Container(spec) for number, spec in self.specs.items()
        }

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
        try:
            return self._run(self._containers[container], request, messages)
        except (OperatorError, StateError, OSError):
            raise
        except Exception as error:  # noqa: BLE001  a violation
            what = f"container {container} in attempt {request.attempt} at window {request.window_id}"
            self._ledger.violate(f"{what}: {error!r}")

    def _run(
        self, one: _Container, request: WindowRequest, messages: Sequence[Message]
    ) -> tuple[Mapping[int, Message], WindowReport]:
        self._go_to(one, request)
        if self.fail_next:
            self.fail_next -= 1
            text = f"as planned {self._luck.random()}"
            raise OperatorError(
                Failure("app", one.operator.title, 0, request.window_id, "process", text, raised=True)
            )
        one.window, held, one.held = -1, one.held, None  # until all is done
        for cell in one.cells.values():
            cell.begin(request.window_id)
        report = OperatorReport.begun(request, one.operator.id)
        numbers = [
            number for message in messages for block in message.blocks for number in _unpack(block, request)
        ]
        if one.operator.id in self._layout.sources:
            numbers = self._emit(one, request, report)
        elif one.operator.id in self._layout.sums:
            sums = one.cells["sums"]
            for number in numbers:
                key = number % KEYS
                sums[key] = sums.get(key, 0) + number + 1
        else:
            report.handed_over = numbers
        result = self._report(one, request, report, held)
        one.window = request.window_id
        return self._outgoing(one, request, numbers), result

    def _go_to(self, one: _Container, request: WindowRequest) -> None:
        """Bring a container to the state that a request names, and see whether it is that."""
        if request.states is None:
            assert one.window == request.window_id - 1, (
                f"container {one.spec.id} holds window {one.window} and is to run {request.window_id}"
            )
            return
        assert self._files is not None
        assert request.states.keys() <= {o.id for s in self.specs.values() for o in s.operators}
        wanted = request.states.get(one.operator.id, ())
        held, one.held = one.held, None
        restore(self._files, one.operator, one.cells, wanted, held, request.epoch)
        one.held = wanted
        one.window = request.window_id - 1
        one.finished = one.operator.id in request.finished
        self._ledger.restored(one.operator.id, wanted, _value(one.cells))

    def _emit(self, one: _Container, request: WindowRequest, report: OperatorReport) -> list[int]:
        """Emit some numbers; an attempt that is made again emits others."""
        source, position = self._layout.sources[one.operator.id], one.cells["position"]
        begin = position.get()
        end = min(begin + self._luck.randint(0, MOST), self._ledger.total)
        if end != begin:
            position.set(end)
        report.window.finished = not one.finished and end == self._ledger.total
        one.finished |= end == self._ledger.total
        return [number * len(self._layout.sources) + source for number in range(begin, end)]

    def _report(
        self, one: _Container, request: WindowRequest, report: OperatorReport, held: StateVersion | None
    ) -> WindowReport:
        """Say what changed: in the report itself, or in a file."""
        tag = f"{self._tag}-{one.spec.id}"
        window = ContainerWindow(
            0.0, request.window_id, request.attempt, one.spec.id, "simulated", 1, tag, 0, 0, 0, 0, 0, 0
        )
        result = WindowReport(window, {}, [report])
        changes = {name: change for name, cell in one.cells.items() if (change := cell.changes()) is not None}
        if changes:
            name = state_files.file_name(
                request.window_id, one.spec.id, request.epoch, request.attempt, self._tag
            )
            data, sizes = state_files.encode(name, {one.operator.state_key: changes})
            if self._luck.random() < self._ledger.large:
                state_files.write(self._storage, name, data)
            else:
                result.small_change = name, data
            report.change = name
            report.window.state_bytes = sizes[one.operator.state_key]
            held = (*state_files.segments_of(held or ()), name)
            self._ledger.changed(name, _value(one.cells))
        one.held = held
        return result

    def _outgoing(self, one: _Container, request: WindowRequest, numbers: list[int]) -> dict[int, Message]:
        """Messages for the consumers, by key."""
        abroad = [route for route in one.spec.routes if route.container != one.spec.id]
        routes = sorted(abroad, key=lambda route: route.sink)
        outgoing: dict[int, Message] = {}
        for index, route in enumerate(routes):
            part = [number for number in numbers if number % KEYS % len(routes) == index]
            if part:
                payload = pa.py_buffer(pickle.dumps((request.window_id, request.attempt, part)))
                block = Block(route.sink, route.sink_port, 0, payload)
                outgoing[route.container] = Message(one.spec.id, self._tag, [block])
        return outgoing

    def committed(self, container: int, window_id: int) -> None:
        """A callback."""
        self._process.point("committed")
        self._ledger.told_committed(window_id)

    def close(self) -> Sequence[Failure]:
        """Nothing fails."""
        return ()


def _unpack(block: Block, request: WindowRequest) -> list[int]:
    payload: Any = block.payload
    window_id, attempt, numbers = pickle.loads(memoryview(payload))
    assert (window_id, attempt) == (request.window_id, request.attempt), "a block of another attempt"
    return list(numbers)


def _value(cells: Mapping[str, Any]) -> Any:
    """What is in a container's cells: a position, or sums."""
    if "position" in cells:
        return cells["position"].get()
    return dict(cells["sums"].items()) if "sums" in cells else None

"""A container of the simulated application that takes a third of the time of a real one.

Cells, state files and restoring are the engine's own; operators' callbacks and Arrow are left out.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ridgeline.api.errors import Failure, OperatorError
from ridgeline.api.operator import operator_type
from ridgeline.connect.window_output import write_failure
from ridgeline.engine.exchange.block import Block, Message
from ridgeline.engine.files.storage import Storage
from ridgeline.engine.state import state_files
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.versions import restore
from ridgeline.measure.events import ContainerWindow
from ridgeline.plan.container_spec import ContainerSpec
from ridgeline.plan.protocol import OperatorReport, StateVersion, WindowReport, WindowRequest
from support.simulation.output_files import FOLDER, write_segment

if TYPE_CHECKING:
    from support.simulation.model import Layout, Life

KEYS = 5


class LightContainer:
    """As the engine's `Container`, for one of the application's operators."""

    def __init__(
        self, spec: ContainerSpec, storage: Storage, run_id: str, layout: Layout, life: Life
    ) -> None:
        assert all(one.unifier for one in spec.operators[:-1]), "a container has one operator of ours"
        self._spec = spec
        self._storage = storage
        self._run_id = run_id
        self._files = SegmentFiles(storage, run_id)
        self._layout = layout
        self._life = life
        self.spec = self._operator = spec.operators[-1]
        declared = operator_type(type(self._operator.operator)).states
        self.cells: dict[str, Any] = {name: one.cell() for name, one in declared.items()}
        self._held: StateVersion | None = ()
        self._window = -1
        self._finished = False

    def run(
        self, request: WindowRequest, messages: Sequence[Message], tag: str
    ) -> tuple[Mapping[int, Message], WindowReport]:
        self._go_to(request)
        try:
            self._life.may_fail()
        except RuntimeError as error:
            where = self._operator.title
            raise OperatorError(
                Failure("app", where, 0, request.window_id, "process", str(error), raised=True)
            ) from None
        self._window, held, self._held = -1, self._held, None  # until all is done
        for cell in self.cells.values():
            cell.begin(request.window_id)
        report = OperatorReport.begun(request, self._operator.id)
        numbers = [
            number for message in messages for block in message.blocks for number in _unpack(block, request)
        ]
        if self._operator.id in self._layout.sources:
            numbers = self._emit(request, report)
        elif self._operator.id in self._layout.sums:
            sums = self.cells["sums"]
            for number in numbers:
                sums[number % KEYS] = sums.get(number % KEYS, 0) + number + 1
        elif self._life.files is None:
            report.handed_over = numbers
        elif numbers:
            report.handed_over = [self._write(request, numbers, tag)]
        result = self._report(request, report, held, tag)
        self._window = request.window_id
        return self._outgoing(request, numbers, tag), result

    def _write(self, request: WindowRequest, numbers: list[int], tag: str) -> object:
        """Write a segment; what it is."""
        assert self._life.files is not None
        attempt = f"e{request.epoch}r{request.attempt}{tag}"
        try:
            return write_segment(self._life.files, self._run_id, request.window_id, attempt, numbers)
        except OSError as error:
            text = str(write_failure("output", FOLDER, error))
            raise OperatorError(
                Failure("app", self._operator.title, 0, request.window_id, "end_window", text, raised=True)
            ) from None

    def _go_to(self, request: WindowRequest) -> None:
        """Bring the container to the state that a request names, and see whether it is that."""
        if request.states is None:
            what = f"container {self._spec.id} holds window {self._window}, is to run {request.window_id}"
            assert self._window == request.window_id - 1, what
            return
        wanted = request.states.get(self._operator.id, ())
        held, self._held = self._held, None
        restore(self._files, self._operator, self.cells, wanted, held, request.epoch)
        self._held = wanted
        self._finished = self._operator.id in request.finished
        if self.cells:
            self._life.begun(self._operator.name, self._operator.id, value_of(self.cells))

    def _emit(self, request: WindowRequest, report: OperatorReport) -> list[int]:
        count, position = len(self._layout.sources), self.cells["position"]
        source, begin = self._layout.sources[self._operator.id], position.get()
        end = self._life.end_of(begin)
        if end != begin:
            position.set(end)
        report.window.finished = not self._finished and end == self._life.total
        self._finished |= end == self._life.total
        return [number * count + source for number in range(begin, end)]

    def _report(
        self, request: WindowRequest, report: OperatorReport, held: StateVersion | None, tag: str
    ) -> WindowReport:
        """Say what changed: in the report itself, or in a file."""
        window = ContainerWindow(
            0.0, request.window_id, request.attempt, self._spec.id, "simulated", 1, tag, 0, 0, 0, 0, 0, 0
        )
        result = WindowReport(window, [report])
        changes = {
            name: change for name, cell in self.cells.items() if (change := cell.changes()) is not None
        }
        if changes:
            name = state_files.file_name(
                request.window_id, self._spec.id, request.epoch, request.attempt, f"{self._run_id}-{tag}"
            )
            data, sizes = state_files.encode(name, {self._operator.state_key: changes})
            if len(data) > state_files.SMALL_BYTES:
                state_files.write(self._storage, name, data)
            else:
                result.small_change = name, data
            report.change = name
            report.window.state_bytes = sizes[self._operator.state_key]
            held = (*state_files.segments_of(held or ()), name)
        self._held = held
        return result

    def _outgoing(self, request: WindowRequest, numbers: list[int], tag: str) -> dict[int, Message]:
        """Messages for the consumers, by key."""
        abroad = [route for route in self._spec.routes if route.container != self._spec.id]
        routes = sorted(abroad, key=lambda route: route.sink)
        outgoing: dict[int, Message] = {}
        for index, route in enumerate(routes):
            part = [number for number in numbers if number % KEYS % len(routes) == index]
            if part:
                payload = pa.py_buffer(pickle.dumps((request.window_id, request.attempt, part)))
                block = Block(route.sink, route.sink_port, 0, payload)
                outgoing[route.container] = Message(self._spec.id, [block])
        return outgoing

    def committed(self, window_id: int) -> None:
        self._life.committed(window_id)

    def close(self) -> None:
        """Nothing fails."""


def _unpack(block: Block, request: WindowRequest) -> list[int]:
    payload: Any = block.payload
    window_id, attempt, numbers = pickle.loads(memoryview(payload))
    assert (window_id, attempt) == (request.window_id, request.attempt), "a block of another attempt"
    return list(numbers)


def value_of(cells: Mapping[str, Any]) -> Any:
    """What is in the cells of an operator: a position, sums, what it has seen, or rows that wait."""
    if "waiting" in cells:
        return len(cells["waiting"])
    single = next((cells[name] for name in ("position", "seen") if name in cells), None)
    if single is not None:
        return single.get()
    return dict(cells["sums"].items()) if "sums" in cells else None

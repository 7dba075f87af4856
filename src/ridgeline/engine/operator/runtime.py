"""One physical operator in a container: its life, and its turn in each window."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from ridgeline.api.attributes import RecordingLevel
from ridgeline.api.clock import Timeline
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import StateError
from ridgeline.api.operator import makes_watermark
from ridgeline.engine.exchange.outgoing import Emitted, Outgoing
from ridgeline.engine.operator.ages import RecordAges
from ridgeline.engine.operator.application_window import ends_with
from ridgeline.engine.operator.controls import ControlTuples
from ridgeline.engine.operator.delivery import Delivery, decoded, delivered
from ridgeline.engine.operator.input import InputTuples, times_of
from ridgeline.engine.operator.instance import Inspect, Instance
from ridgeline.engine.operator.part import Turn
from ridgeline.engine.operator.parts import Parts
from ridgeline.engine.operator.signals import Entering, Signals
from ridgeline.engine.operator.skipping import SkippingDelivery, Skips
from ridgeline.engine.operator.watermarks import Watermark
from ridgeline.engine.process.garbage import collect_after
from ridgeline.measure.events import AgeSample, SourceTaken
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import OperatorReport, WindowRequest

Steps = Generator[None, None, tuple[OperatorReport, dict[str, list[Tuples]]]]


class OperatorRuntime:
    """Runs one operator.

    Not thread-safe; one window after the other, each of which may be repeated from the state before.

    `level`: at OFF no tuple gets a time. `inspect` makes what looks at the operator after each window, for
    runners that have the time. `signals`: those of its container. `keeps_time`: it has a watermark.
    """

    def __init__(
        self,
        spec: PhysicalOperator,
        context: OperatorContext,
        level: RecordingLevel = RecordingLevel.INFO,
        inspect: Inspect | None = None,
        signals: Signals | None = None,
        *,
        keeps_time: bool = False,
    ) -> None:
        self.instance = Instance(spec, context, level, inspect, signals, keeps_time=keeps_time)
        self.context = context
        self.operator = self.instance.operator
        self.cells = self.instance.cells
        self.outputs = self.instance.outputs
        self.running = self.instance.running
        self._parts = Parts(self.instance)
        self._ages = self._parts.find(RecordAges)
        self._input = self._parts.find(InputTuples)
        self._delivery = Delivery(self.instance)
        self._set_up = self._ready = False

    @property
    def spec(self) -> PhysicalOperator:
        """The operator in the plan."""
        return self.instance.spec

    @property
    def arranges(self) -> bool:
        """True if it needs all tuples of a window before it processes the first."""
        return bool(self._parts.arrange)

    def connect(self, producers: Sequence[int], entering: Iterable[Entering]) -> None:
        """These operators and streams come in from now on: those whose watermarks count, and all streams."""
        if (watermark := self._parts.find(Watermark)) is not None:
            watermark.connect(producers)
        if (controls := self._parts.find(ControlTuples)) is not None:
            controls.connect(entering)

    # Life cycle ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """`setup` and `activate`, once; again after `stop`. Raises OperatorError."""
        if not self._ready:
            self.stop()  # `setup` came to its end, `activate` did not
            self.instance.connect()
            for start in self._parts.start:
                start()
            self.instance.call("setup", self.operator.setup, self.context)
            self._set_up = True
            self.instance.call("activate", self.operator.activate)
            self.instance.settle()
            self._ready = True

    def stop(self) -> None:
        """`deactivate` and `teardown`, as far as it was started; each whatever the other one does.

        Raises OperatorError or CallbackInterrupt: the first that failed.
        """
        ready, set_up = self._ready, self._set_up
        self._ready = self._set_up = self.instance.failed = False
        if self._input is not None:
            self._input.forget()
        call = self.instance.call
        steps: list[Callable[[], object]] = []
        if ready:
            steps += [self.instance.refuse_strays, partial(call, "deactivate", self.operator.deactivate)]
        if set_up:
            steps.append(partial(call, "teardown", self.operator.teardown))
        errors = []
        for step in steps:
            try:
                step()
            except BaseException as error:  # noqa: BLE001  raised below
                errors.append(error)
        if errors:
            raise errors[0]

    def retain(self, spec: PhysicalOperator, properties: Mapping[str, Any]) -> bool:
        """Serve as another operator, whose instance would differ in these properties only: they are set.

        True if it must be stopped for them: it may have used the old ones in `setup` or `activate`.
        """
        self.instance.spec, self.context.keys = spec, spec.keys
        if self._input is not None:
            self._input.forget()
        for name, value in properties.items():
            setattr(self.operator, name, copy.deepcopy(value))
        if properties and self._ready:
            self.instance.settle()
        return bool(properties) and any(map(self.instance.overrides, ("setup", "activate")))

    def committed(self, window_id: int, present: int | None = None) -> None:
        """Call `checkpointed` and `committed` of the operator, as far as it has them.

        Its cells must be as after the window `present`: that window, or a later one. Raises OperatorError.
        """
        self.start()
        self.context.window_id = window_id
        present = window_id if present is None else present
        for name in ("checkpointed", "committed"):
            if self.instance.overrides(name):
                self.instance.call(name, self._committed, getattr(self.operator, name), window_id, present)

    def _committed(self, callback: Callable[[int], None], window_id: int, present: int) -> None:
        """Call what comes after a commit. Raises StateError if it changes state, which would be lost."""
        self.instance.begin_cells(present)
        try:
            callback(window_id)
        finally:
            self.instance.undeclared.forget(window_id)
        changed = [name for name, cell in self.cells.items() if cell.changes() is not None]
        if changed:
            msg = f"`{changed[0]}` was changed after the window's commit, so the change would be lost; "
            msg += "change state in the window"
            raise StateError(msg)
        self.instance.inspect()

    # One window ---------------------------------------------------------------------------------------------

    def run(
        self,
        request: WindowRequest,
        inputs: Mapping[str, Sequence[Tuples]],
        batches: Iterable[pa.RecordBatch],
        timeline: Timeline | None = None,
        skips: Skips | None = None,
    ) -> tuple[OperatorReport, dict[str, list[Tuples]]]:
        """Run the operator's part of a window: all of `steps`. Returns what they do."""
        steps = self.steps(request, inputs, batches, timeline, skips)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: tuple[OperatorReport, dict[str, list[Tuples]]] = end.value
                return found

    def steps(
        self,
        request: WindowRequest,
        inputs: Mapping[str, Iterable[Tuples]],
        batches: Iterable[pa.RecordBatch] = (),
        timeline: Timeline | None = None,
        skips: Skips | None = None,
    ) -> Steps:
        """Run the operator's part of a window; its cells must be at the window before.

        Yields after `begin_window` and after each sequence of tuples. What `hand_on` returns then is handed
        over already. Returns its report and what else it emitted by port. Inputs whose tuples are still to
        come announce each run by `running.arrived`.

        `timeline`: the clock by which the ages of its records are taken, see `ages`. `skips`: of an operator
        that leaves tuples out. Raises OperatorError naming the tuple that failed, ContainerAbortError if a
        test asked for it.
        """
        instance, parts, context = self.instance, self._parts, self.context
        context.window_id = request.window_id
        context.engine.window_time = request.time
        context.offsets = request.offsets.get(context.name)
        turn = self._begin(request, batches, timeline)
        window = turn.report.window
        window.tuples_in = {port: sum(map(len, runs)) for port, runs in delivered(inputs).items()}
        # Its tuples become objects that live until the end of the window: there is no garbage among them.
        collect_after(sum(n for port, n in window.tuples_in.items() if not instance.handlers[port][0]))
        context.engine.take("handed_over")  # what a failed attempt left
        instance.handed_on.clear()
        try:
            for begin in parts.begin:
                begin(turn)
            for arrange in parts.arrange:
                inputs = arrange(turn, delivered(inputs))
            self.running.begin(delivered(inputs))
            for point in self.outputs.values():
                point.discard()
                instance.call("timestamp_of", point.open)
            turn.inheriting = [point for point in self.outputs.values() if point.inherits]
            for before_tuples in parts.before_tuples:
                before_tuples(turn)
            yield
            yield from self._deliver(turn, inputs, skips)
            for after_tuples in parts.after_tuples:
                after_tuples(turn)
            for end in parts.end:
                end(turn)
            self.running.end()
            streamed = self.running.streamed
            window.tuples_in = {port: n + streamed.get(port, 0) for port, n in window.tuples_in.items()}
            window.tuples_out = {name: point.pending for name, point in self.outputs.items()}
            emitted = {name: instance.call("emit", point.drain) for name, point in self.outputs.items()}
        finally:
            self.running.end()
            for point in self.outputs.values():
                point.discard()
            instance.undeclared.forget(request.window_id)
        turn.report.handed_over = context.engine.take("handed_over")
        for report in parts.report:
            report(turn, emitted)
        instance.handed_on.clear()
        self.running.report(window)
        return turn.report, emitted

    def _begin(
        self,
        request: WindowRequest,
        batches: Iterable[pa.RecordBatch] = (),
        timeline: Timeline | None = None,
    ) -> Turn:
        """Begin an attempt: what it changes in state counts from now on."""
        application_window = self.instance.begin_cells(request.window_id)
        ends = ends_with(self.instance.window_count, request)
        report = OperatorReport.begun(request, self.spec.id)
        timeline = timeline or Timeline(self.context.clock)
        return Turn(request, application_window, ends, report, timeline, batches)

    def _deliver(
        self, turn: Turn, inputs: Mapping[str, Iterable[Tuples]], skips: Skips | None
    ) -> Generator[None, None, None]:
        """Process the tuples of all ports; yields after each run of them. Raises OperatorError."""
        instance, processed = self.instance, self._parts.processed
        delivery = self._delivery if skips is None else SkippingDelivery(instance, skips, turn.left_out)
        for port, runs in inputs.items():
            schema, (by_batch, handler) = self.spec.inputs[port], instance.handlers[port]
            deliver = delivery.deliver_batch if by_batch else delivery.deliver
            callback = f"{'process_batch' if by_batch else 'process'} of port {port}"
            for number, run in enumerate(runs):
                turn.came = turn.came or len(run) > 0
                tuples: Tuples = instance.call(callback, decoded, run, schema, by_batch)
                deliver((port, number), handler, tuples, turn.inheriting)
                for note in processed:
                    note(turn, tuples)
                yield
        delivery.check()

    def hand_on(self, port: str) -> list[Tuples]:
        """The sequences of tuples that it has emitted at a port so far, without those handed on before."""
        parts = self.outputs[port].take()
        if makes_watermark(self.operator):
            self.instance.handed_on += times_of(parts)
        return parts

    def route(self, outgoing: Outgoing, emitted: Mapping[str, Sequence[Tuples]], delivered: Emitted) -> None:
        """Route what the window just run emitted.

        Raises OperatorError for a tuple without a key, or that cannot be encoded.
        """
        start = self.context.window_id - self.context.passed_over + self.spec.partition
        self.instance.call("emit", outgoing.route, self.spec.id, emitted, delivered, start)

    def lose(self, request: WindowRequest) -> OperatorReport:
        """The window of an operator that may lose it is lost; its cells must be at the window before."""
        turn = self._begin(request)
        for void in self._parts.void:
            void(turn)
        return turn.report

    def ages(self, ended: float) -> list[AgeSample]:
        """The ages of the records of the window just run, whose output was routed then."""
        return [] if self._ages is None else self._ages.ages(ended)

    def taken(self) -> SourceTaken | None:
        """The work that an input operator had done by the end of its last window, and what remains by now.

        None while a window runs. From any thread.
        """
        return None if self._input is None else self._input.taken()

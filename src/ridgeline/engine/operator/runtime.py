"""One physical operator in a container: its callbacks, window by window."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import length_hint
from typing import Any

import pyarrow as pa

from ridgeline.api.attributes import OnError, ProcessingMode, RecordingLevel
from ridgeline.api.clock import Timeline
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.context import OperatorContext
from ridgeline.api.dead_letter import NAME as DEAD_LETTERS
from ridgeline.api.errors import (
    CallbackInterrupt,
    ContainerAbortError,
    Failure,
    OperatorError,
    StateError,
    described,
    shorten,
)
from ridgeline.api.operator import (
    InputOperator,
    Operator,
    SparkSource,
    is_stateless,
    operator_type,
    state_cells,
)
from ridgeline.api.points import OutputPoint
from ridgeline.api.ports import InputPort, Order
from ridgeline.api.push_input import PushInput
from ridgeline.api.state import METRICS, PLATFORM, WATERMARK, Change
from ridgeline.api.times import Processing, Span, joined_spans
from ridgeline.engine.exchange.outgoing import Emitted, Outgoing
from ridgeline.engine.operator.ages import AgeMeter, places
from ridgeline.engine.operator.asking import ask
from ridgeline.engine.operator.controls import ControlTuples
from ridgeline.engine.operator.error_tuples import rejected_tuples
from ridgeline.engine.operator.failures import InputLostError
from ridgeline.engine.operator.gathering import Gathered, gathering_of
from ridgeline.engine.operator.inputs import decoded, inheriting_times, nothing_timed, there
from ridgeline.engine.operator.inspecting import Inspect, Inspection
from ridgeline.engine.operator.listeners import before_checkpoint, is_idle, overrides
from ridgeline.engine.operator.metrics import OwnMetrics
from ridgeline.engine.operator.one_by_one import one_by_one
from ridgeline.engine.operator.progress import Handler, Running
from ridgeline.engine.operator.skipping import Delivery, Skips, write_letters
from ridgeline.engine.operator.sliding import Sliding
from ridgeline.engine.operator.time_order import in_time_order
from ridgeline.engine.operator.timers import Ends, Timing, begin_states, let_time_pass
from ridgeline.engine.operator.undeclared import Undeclared
from ridgeline.engine.operator.watermarks import Watermark
from ridgeline.engine.process.garbage import collect_after
from ridgeline.measure.events import AgeSample, OperatorWindow, SourceProgress, SourceTaken
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import OperatorReport, WindowRequest

_NO_EXIT = "; an operator cannot end its worker: raise an exception, or call `finish()` in an input operator"
_QUICK_SECONDS = 20e-6  # a tuple; below, output is not attributed to single tuples: it would cost 1 %
_SPANS_KEPT = 256  # windows: more than can be in flight


class OperatorRuntime:
    """Runs one operator.

    Not thread-safe; one window after the other, each of which may be repeated from the state before.

    `level`: at OFF no tuple gets a time. `inspect` makes what looks at the operator after each window, for
    runners that have the time.
    """

    def __init__(
        self,
        spec: PhysicalOperator,
        context: OperatorContext,
        level: RecordingLevel = RecordingLevel.INFO,
        inspect: Inspect | None = None,
        watermark: Watermark | None = None,
        ends: Ends | None = None,
    ) -> None:
        self.spec = spec
        self.context = context
        self.operator = copy.deepcopy(spec.operator)
        self.operator.context = context
        self.cells = state_cells(self.operator)
        self.timing = Timing(spec.id, self.operator, context, ends or Ends({}), self.cells)
        self.watermark = watermark
        self.controls: ControlTuples = ControlTuples(spec.id, self.operator, (), {})
        if watermark is not None:
            self.cells[WATERMARK] = watermark.cell
        self.window_count = spec.window_count
        self._gathering = gathering_of(self.operator, spec, self.cells)
        slides = spec.slides and not spec.unifier
        self._sliding = Sliding(spec, self.operator, self.cells) if slides else None
        declared = operator_type(type(self.operator))
        self._metrics = OwnMetrics(self.operator, self.window_count)
        if self._metrics.cell is not None:
            self.cells[METRICS] = self._metrics.cell
        self._handles_idle = overrides(self.operator, "handle_idle_time") and not (
            spec.unifier or isinstance(self.operator, PushInput)  # unifiers may wait for the window's end
        )
        self._before_checkpoint = overrides(self.operator, "before_checkpoint")
        ports = dict.fromkeys((*declared.outputs, *spec.outputs))  # perhaps that of dead letters too
        self.outputs: dict[str, OutputPoint] = {name: getattr(self.operator, name) for name in ports}
        self.handlers = {
            name: self._handler(port) for name, port in declared.inputs.items() if name in spec.inputs
        }
        self._by_time = [name for name in self.handlers if declared.inputs[name].order == Order.BY_TIME]
        self._undeclared = Undeclared(self.operator)
        self._quick: set[str] = set()
        """Ports whose tuples take so little that nobody needs to know what each has emitted."""
        self._idle = False
        """An input that had nothing to emit in the window."""
        self._set_up = self._ready = False
        self.failed = False
        """Whether a callback has raised since it was started."""
        self._inspect = inspect
        self._inspection: Inspection | None = None
        self.running = Running(spec.id, self.operator, self.outputs, context.clock)
        context.on_expected = self.running.expect
        self._taken: SourceTaken | None = None
        """What an input operator has taken by the end of its last window; None while one runs."""
        source = isinstance(self.operator, InputOperator)
        self._meter = AgeMeter(
            places(level, source=source, leaf=not spec.outputs, stateful=not is_stateless(self.operator))
        )
        self._timed_outputs = {
            name
            for name in self.outputs
            if (level is not RecordingLevel.OFF or watermark is not None) and (source or name in spec.outputs)
        }
        self._spans: dict[int, Span | None] = {}
        """The application window's times so far, after each of the last windows: they may run again."""

    def _handler(self, port: InputPort) -> tuple[bool, Handler]:
        name = port.process_batch_name or port.process_name
        if name is None:
            return True, self._pass_on  # a unifier that declares no method passes its tuples on
        return port.process_batch_name is not None, getattr(self.operator, name)

    def _pass_on(self, batch: pa.RecordBatch) -> None:
        next(iter(self.outputs.values())).emit_batch(batch)

    # Life cycle ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """`setup` and `activate`, once; again after `stop`. Raises OperatorError."""
        if not self._ready:
            self.stop()  # `setup` came to its end, `activate` did not
            for name, point in self.outputs.items():
                if name in self.spec.outputs:
                    point.port_schema = self.spec.outputs[name]
                point.connected = name in self.spec.outputs
                point.timed = name in self._timed_outputs
            self._metrics.start()
            self._call("setup", self.operator.setup, self.context)
            self._set_up = True
            self._call("activate", self.operator.activate)
            self._undeclared.keep()
            if self._inspection is not None:
                self._inspection.begin_again()
            elif self._inspect is not None:
                self._inspection = self._inspect(self)
            self._ready = True

    def stop(self) -> None:
        """`deactivate` and `teardown`, as far as it was started; each whatever the other one does.

        Raises OperatorError or CallbackInterrupt: the first that failed.
        """
        ready, set_up = self._ready, self._set_up
        self._ready = self._set_up = self.failed = False
        self._taken = None
        steps: list[Callable[[], object]] = []
        if ready:
            steps += [self._refuse_strays, partial(self._call, "deactivate", self.operator.deactivate)]
        if set_up:
            steps.append(partial(self._call, "teardown", self.operator.teardown))
        errors = []
        for step in steps:
            try:
                step()
            except BaseException as error:  # noqa: BLE001  raised below
                errors.append(error)
        if errors:
            raise errors[0]

    def go_on(self, spec: PhysicalOperator, properties: Mapping[str, Any]) -> bool:
        """Serve as another operator, whose instance would differ in these properties only: they are set.

        True if it must be stopped for them: it may have used the old ones in `setup` or `activate`.
        """
        self.spec, self.context.keys = spec, spec.keys
        self._taken = None
        for name, value in properties.items():
            setattr(self.operator, name, copy.deepcopy(value))
        if properties and self._ready:
            self._undeclared.keep()
            if self._inspection is not None:
                self._inspection.begin_again()
        return bool(properties) and any(overrides(self.operator, name) for name in ("setup", "activate"))

    @property
    def holds_connections(self) -> bool:
        """True if it has more than `setup`: after a failure it must let go of what it holds."""
        kind = type(self.operator)
        return (
            isinstance(self.operator, PushInput)
            or kind.activate is not Operator.activate
            or kind.deactivate is not Operator.deactivate
            or kind.teardown is not Operator.teardown
        )

    def committed(self, window_id: int, present: int | None = None) -> None:
        """Call `checkpointed` and `committed` of the operator, as far as it has them.

        Its cells must be as after the window `present`: that window, or a later one. Raises OperatorError.
        """
        self.start()
        self.context.window_id = window_id
        present = window_id if present is None else present
        for name in ("checkpointed", "committed"):
            if overrides(self.operator, name):
                self._call(name, self._committed, getattr(self.operator, name), window_id, present)

    def _committed(self, callback: Callable[[int], None], window_id: int, present: int) -> None:
        """Call what comes after a commit. Raises StateError if it changes state, which would be lost."""
        for cell in self.cells.values():
            cell.begin(present - present % self.window_count)
        try:
            callback(window_id)
        finally:
            self._undeclared.forget(window_id)
        changed = [name for name, cell in self.cells.items() if cell.changes() is not None]
        if changed:
            msg = f"`{changed[0]}` was changed after the window's commit, so the change would be lost; "
            msg += "change state in the window"
            raise StateError(msg)
        if self._inspection is not None:
            self._inspection.check()

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
    ) -> Generator[None, None, tuple[OperatorReport, dict[str, list[Tuples]]]]:
        """Run the operator's part of a window; its cells must be at the window before.

        Yields after `begin_window` and after each run of tuples. What its ports `take` then is handed over
        already. Returns its report and what else it emitted by port. Inputs whose tuples are still to come
        announce each run by `arrived`.

        `timeline`: the clock by which the ages of its records are taken, see `ages`. `skips`: of an operator
        that leaves tuples out. Raises OperatorError naming the tuple that failed, ContainerAbortError if a
        test asked for it.
        """
        operator, context, window_id = self.operator, self.context, request.window_id
        report = OperatorReport.begun(request, self.spec.id)
        window = report.window
        window.tuples_in = {port: sum(map(len, parts)) for port, parts in there(inputs).items()}
        collect_after(sum(count for port, count in window.tuples_in.items() if not self.handlers[port][0]))
        context.window_id = window_id
        application_window = window_id - window_id % self.window_count
        begin_states(self, request, application_window)
        ends = self._ends(request)
        if self._gathering is not None or self._by_time:
            inputs, ends = self._arranged(request, there(inputs), ends=ends)
        self.running.begin(there(inputs))
        self._begin_taking(request)
        self._idle = False
        vars(operator)["_finished"] = self.spec.id in request.finished
        context.take_handed_over()  # what a failed attempt left
        context.take_left_out()
        timeline = timeline or Timeline(context.clock)
        self._meter.begin(timeline)
        try:
            for point in self.outputs.values():
                point.discard()
                self._call("timestamp_of", point.open)
            delivery = None if skips is None else Delivery(self, skips)
            span = yield from self._window(request, application_window, inputs, batches, delivery, ends=ends)
            report.metrics = self._end_window(ends=ends)
            read = timeline.now() if isinstance(operator, InputOperator) else 0.0
            self.running.end()
            self._refuse_strays()
            if self._inspection is not None:
                self._call("end of window", self._inspection.check)
            unread = self._call("emit", write_letters, self)
            self._count(window)
            emitted = {name: self._call("emit", point.drain) for name, point in self.outputs.items()}
            self._spans[window_id] = span
        finally:
            self.running.end()
            for point in self.outputs.values():
                point.discard()
            self._undeclared.forget(window_id)
        self._count_errors(window, emitted, unread if delivery is None else delivery.left_out)
        if vars(operator).get("_finished"):
            window.finished = True
            self.timing.finished()
        report.idle = self._idle
        report.handed_over = context.take_handed_over()
        if isinstance(operator, InputOperator):
            self._report_source(operator, report, emitted, read)
        self.running.report(window)
        return report, emitted

    def _count_errors(
        self, window: OperatorWindow, emitted: Mapping[str, Sequence[Tuples]], left_out: Sequence[str]
    ) -> None:
        """Note the tuples that went to error ports, and those that were left out."""
        window.errors, window.late, rejected = rejected_tuples(emitted, self.outputs, self.spec)
        window.errors += len(left_out)
        most = max(1, self.spec.attributes["error_tuples_kept"]) if left_out else 0
        window.error_tuples = tuple(rejected + list(left_out[: max(0, most - len(rejected))]))

    def _end_window(self, *, ends: bool) -> Mapping[str, float]:
        """What follows the callbacks that may emit; returns the metrics if the application window ends."""
        found: Mapping[str, float] = {}
        if ends:
            found = self._metrics.read(self._timed, self.outputs.values())
            self.timing.end_states()
            self._metrics.end()
        else:
            self._metrics.keep()
        if self._before_checkpoint:
            self._timed("before_checkpoint", before_checkpoint, self)
        self.timing.end()
        return found

    def _report_source(
        self, source: InputOperator, report: OperatorReport, emitted: Mapping[str, list[Tuples]], read: float
    ) -> None:
        """Note the ages of what an input operator has emitted by then, its watermark and its progress."""
        ports = [name for name in emitted if not self.outputs[name].port.error and name != DEAD_LETTERS]
        parts = [part for name in ports for part in emitted[name]]
        self._meter.emitted(parts, read)
        if self.watermark is not None:
            self.watermark.emitted(source, parts, self.context, finished=report.window.finished)
        if (work := self._call("progress", source.progress)) is not None:
            consumed, remaining = work
            report.source = SourceProgress(
                0.0,
                report.window.window_id,
                self.spec.id,
                consumed,
                remaining,
                source.progress_unit,
                paced=bool(self._call("is_paced", source.is_paced)),
                before=self.running.before,
            )
            said = report.source
            self._taken = SourceTaken(
                0.0,
                said.window_id,
                report.window.attempt,
                said.operator,
                None,
                None,
                said.unit,
                0.0,
                said.paced,
                said.before,
            )

    def _begin_taking(self, request: WindowRequest) -> None:
        """A window begins: an input operator takes from now on."""
        self._taken = None
        work = None if request.states is None else self.running.work()
        self.running.before = work[0] if work is not None else None

    def taken(self) -> SourceTaken | None:
        """What an input operator has taken by the end of its last window, and what remains by now.

        None while a window runs. From any thread.
        """
        said = self._taken
        if said is None or (work := self.running.work()) is None or self._taken is not said:
            return None
        return replace(said, consumed=work[0], remaining=work[1])

    def route(self, outgoing: Outgoing, emitted: Mapping[str, Sequence[Tuples]], delivered: Emitted) -> None:
        """Route what the window just run emitted.

        Raises OperatorError for a tuple without a key, or that cannot be encoded.
        """
        start = self.context.window_id + self.spec.partition
        self._call("emit", outgoing.route, self.spec.id, emitted, delivered, start)

    def changes(self) -> dict[str, Change]:
        """What the window just run changed in declared state.

        Raises OperatorError for state that is not as declared.
        """
        found = {name: self._call(f"end of state {name}", cell.changes) for name, cell in self.cells.items()}
        return {name: change for name, change in found.items() if change is not None}

    def ages(self, ended: float) -> list[AgeSample]:
        """The ages of the records of the window just run, whose output was routed then."""
        return self._meter.ages(ended)

    def _ends(self, request: WindowRequest) -> bool:
        """True if the application window ends with this streaming window."""
        return request.final or (request.window_id + 1) % self.window_count == 0

    def lose(self, request: WindowRequest) -> OperatorReport:
        """The window of an operator that may lose it is lost; its cells must be at the window before."""
        for cell in self.cells.values():
            cell.begin(request.window_id - request.window_id % self.window_count)
        if ends := self._ends(request):
            self.timing.end_states()
        if self.watermark is not None:
            self.watermark.lost(self.context, ends=ends)
        self.timing.pass_by()
        return OperatorReport.begun(request, self.spec.id)

    def arrived(self, port: str, tuples: Tuples) -> None:
        """A run of tuples has come for a port whose inputs come one by one: it is processed next."""
        self.running.arrived(port, tuples)

    @property
    def takes_batches(self) -> bool:
        """True if it takes all its tuples as batches, in each streaming window, and never leaves any out."""
        return (
            bool(self.handlers)
            and all(by_batch for by_batch, _ in self.handlers.values())
            and self._gathering is None
            and not self._by_time
            and not self.skips_tuples
            and self.spec.attributes["processing_mode"] is not ProcessingMode.AT_MOST_ONCE
        )

    def _arranged(
        self, request: WindowRequest, inputs: Mapping[str, Sequence[Tuples]], *, ends: bool
    ) -> Gathered:
        """What the operator gets now, ports with `Order.BY_TIME` sorted. Raises OperatorError."""
        if self._gathering is not None:
            inputs, ends = self._gathering.gather(inputs, request, ends=ends)
        found = dict(inputs)
        for port in self._by_time:
            entered = port, self.spec.inputs[port], found[port]
            found[port] = self._call(f"order of port {port}", in_time_order, *entered)
        return Gathered(found, ends)

    def _count(self, window: OperatorWindow) -> None:
        """Note what came in the window and what was emitted, also what was handed over meanwhile."""
        self._call("emit_control", self.controls.emitted, self.outputs)
        streamed = self.running.streamed
        window.tuples_in = {port: count + streamed.get(port, 0) for port, count in window.tuples_in.items()}
        window.queue = sum(window.tuples_in.values())
        window.tuples_out = {name: point.pending for name, point in self.outputs.items()}

    def _window(
        self,
        request: WindowRequest,
        application_window: int,
        inputs: Mapping[str, Iterable[Tuples]],
        batches: Iterable[pa.RecordBatch],
        delivery: Delivery | None,
        *,
        ends: bool,
    ) -> Generator[None, None, Span | None]:
        """The callbacks of a window; yields as `steps`. `ends`: with `end_window`.

        Returns the newest and the oldest time of the tuples of the application window, if that matters.
        """
        operator, window_id, gathers = self.operator, request.window_id, self._gathering is not None
        self._metrics.begin()
        span = self._spans.get(window_id - 1) if window_id != application_window else None
        self._spans[window_id] = span  # stays if the window is lost
        if len(self._spans) > _SPANS_KEPT:
            del self._spans[next(iter(self._spans))]
        if ends if gathers else window_id == application_window:
            self._timed("begin_window", operator.begin_window, application_window)
        self.controls.begin(self._timed)
        if isinstance(operator, SparkSource):
            self._timed("emit_batch", operator.emit_rows, batches)
        elif isinstance(operator, InputOperator) and self.spec.id not in request.finished:
            self._idle = ask(operator, self.outputs.values(), self._timed, request.ends)
        inheriting = [point for point in self.outputs.values() if point.inherits]
        spanning = inheriting if type(operator).end_window is not Operator.end_window else []
        came = False
        yield
        for port, parts in inputs.items():
            schema, (by_batch, handler) = self.spec.inputs[port], self.handlers[port]
            deliver, callback = (
                (self.deliver_batch, "process_batch") if by_batch else (self._deliver, "process")
            )
            for number, part in enumerate(parts):
                came = came or len(part) > 0
                tuples: Tuples = self._call(f"{callback} of port {port}", decoded, part, schema, by_batch)
                if delivery is None:
                    deliver(port, handler, tuples, inheriting)
                elif by_batch:
                    delivery.deliver_batch((port, number), handler, tuples, inheriting)
                else:
                    delivery.deliver((port, number), handler, tuples, inheriting)
                self._meter.processed(tuples)
                if spanning and (times := tuples.times) is not None:
                    span = joined_spans(span, times.span())
                yield
        if delivery is not None:
            delivery.check()
        self._handle_idle_time(request, came=came)
        self.controls.deliver(self._timed, at_end=True)
        let_time_pass(self, inheriting, ends=ends, gathers=gathers)
        if ends and (self._sliding is None or self._call("merge", self._sliding.end, request)):
            with inheriting_times(
                spanning, Processing(partial(span.of_each, 1) if span is not None else nothing_timed)
            ):
                self.running.ending()
                self._timed("end_window", operator.end_window)
        return span

    def _handle_idle_time(self, request: WindowRequest, *, came: bool) -> None:
        """Call `handle_idle_time` if there is nothing to do (a `PushInput`: `ask`). `came`: tuples did."""
        if self._handles_idle and is_idle(self, came=came, finished=self.spec.id in request.finished):
            left = request.ends - self.context.clock.monotonic()
            self.context.idle_seconds = max(0.0, min(left, self.context.window_seconds))
            self._timed("handle_idle_time", self.operator.handle_idle_time)

    def _deliver(
        self, port: str, handler: Handler, tuples: Tuples, inheriting: Iterable[OutputPoint]
    ) -> None:
        """Call a `process` method for each tuple. Raises OperatorError naming the tuple that failed."""
        rows = tuples.rows
        iterator = iter(rows)
        remaining: Callable[[], int] = iterator.__length_hint__  # type: ignore[attr-defined]  # a list's iterator
        processing = Processing(lambda: tuples.times, len(rows), remaining)
        points = inheriting if tuples.timed else ()
        outputs = [point.begin(processing) for point in points]
        watched = handler if port in self._quick else self.running.marking(handler)
        before = self.running.compute_seconds
        with self.running.part(port, len(rows), iterator):
            try:
                lengths = one_by_one(watched, iterator, outputs)
            except BaseException as error:
                callback = f"process of port {port}"
                raise self.failure(
                    callback, error, shorten(rows[len(rows) - length_hint(iterator) - 1])
                ) from error
        (
            self._quick.add
            if self.running.compute_seconds - before < _QUICK_SECONDS * len(rows)
            else self._quick.discard
        )(port)
        for point, after in zip(points, lengths, strict=True):
            point.end(after)

    def deliver_batch(
        self, port: str, handler: Handler, tuples: Tuples, inheriting: Iterable[OutputPoint]
    ) -> None:
        """Hand a run of tuples to a `process_batch` method. Raises OperatorError."""
        batch = tuples.batch
        processing = Processing(lambda: tuples.times, len(tuples))
        if self.watermark is not None:
            self.context.record_times = processing.times
        with inheriting_times(inheriting, processing), self.running.part(port, len(tuples), None):
            try:
                handler(batch)
            except BaseException as error:
                first = shorten(tuples.rows[0]) if len(tuples) else "none"
                text = (
                    first if len(tuples) == 1 else f"one of a batch of {len(tuples)}, the first being {first}"
                )
                callback = f"process_batch of port {port}"
                raise self.failure(callback, error, text) from error

    @property
    def skips_tuples(self) -> bool:
        """True if tuples on which it fails are left out."""
        return (
            self.spec.attributes["on_error"] is OnError.SKIP and not self.spec.unifier and bool(self.handlers)
        )

    def set_in_window(self) -> list[str]:
        """The attributes that the window has set."""
        return self._undeclared.set_in_window()

    @property
    def is_clean(self) -> bool:
        """True if a tuple leaves traces only in the output: no state, and nothing was set in the window."""
        return not self.cells.keys() - PLATFORM and not self._undeclared.set_in_window()

    def _refuse_strays(self) -> None:
        """Refuse what a thread of the operator emitted between windows. Raises OperatorError."""
        for point in self.outputs.values():
            self._call("emit", point.refuse_strays)

    def _timed(self, callback: str, function: Callable[..., object], *arguments: object) -> Any:
        with self.running.callback():
            return self._call(callback, function, *arguments)

    def _call(self, callback: str, function: Callable[..., object], *arguments: object) -> Any:
        try:
            return function(*arguments)
        except BaseException as error:
            raise self.failure(callback, error) from error

    def failure(self, callback: str, error: BaseException, value: str = "") -> BaseException:
        """What to raise for what a callback has raised."""
        self.failed = True
        if isinstance(error, (ContainerAbortError, InputLostError)):
            return error
        failure = Failure(
            application=self.context.application,
            operator=self.spec.title if self.spec.unifier else self.spec.name,
            partition=self.spec.partition,
            window_id=self.context.window_id,
            callback=callback,
            error=described(error) + (_NO_EXIT if isinstance(error, SystemExit) else ""),
            tuple=value,
            traceback="".join(traceback.format_exception(error)),
            raised=True,
        )
        return (
            OperatorError(failure)
            if isinstance(error, (Exception, SystemExit))
            else CallbackInterrupt(failure)
        )

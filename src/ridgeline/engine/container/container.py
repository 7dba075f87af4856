"""A container: the operators that one task runs together, window-at-a-time in topological order.

It does not know who runs it. The whole contract: `run` a window on these messages, messages out and a report;
`committed`; `close`.
"""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

import pyarrow as pa

from ridgeline.api.attributes import ProcessingMode
from ridgeline.api.clock import Clock, Timeline
from ridgeline.api.columns.combined import Combined, PackedCombined
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import Failure, OperatorError, StateError
from ridgeline.api.operator import SparkSource
from ridgeline.engine.container.chain import Chain, Chains, Ran, Relay
from ridgeline.engine.container.feed import FedRows, count_reading
from ridgeline.engine.container.samples import last_tuples
from ridgeline.engine.container.states import ContainerStates
from ridgeline.engine.exchange import block, coded
from ridgeline.engine.exchange.block import Block, Message, Payload
from ridgeline.engine.exchange.outgoing import Emitted, Outgoing, Routes
from ridgeline.engine.exchange.shared_blocks import LostBlockError, SharedPlace, SharedReader
from ridgeline.engine.files.storage import Storage
from ridgeline.engine.operator.instance import Inspect
from ridgeline.engine.operator.runtime import OperatorRuntime
from ridgeline.engine.operator.signals import EndedOperators, Entering, Signals
from ridgeline.engine.operator.skipping import Skips
from ridgeline.engine.process.worker_output import CurrentOperator, enter_operator, leave_operator
from ridgeline.engine.state import state_files
from ridgeline.measure.events import ContainerHeartbeat, ContainerWindow, SourceTaken
from ridgeline.plan.change.succession import can_retain, changed_properties
from ridgeline.plan.container_spec import ContainerSpec, overrides_committed
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import OperatorReport, StateVersion, WindowReport, WindowRequest

# Opens the messages that a container gets from others in one window.


def receive(spec: ContainerSpec, messages: Sequence[Message], window_id: int) -> Emitted:
    """The tuples of all blocks by input port, in the order of producers, not of arrival.

    The messages of one producer are in their order: they come on one connection.
    Raises OperatorError for a block that is lost, damaged, or that its codec cannot decode.
    """
    delivered: Emitted = {}
    reader = SharedReader()
    for message in sorted(messages, key=attrgetter("producer")):
        for sent in message.blocks:
            if isinstance(sent.payload, Tuples):
                tuples = sent.payload
            elif isinstance(sent.payload, PackedCombined):
                schema = spec.incoming[message.producer, sent.stream].schema
                tuples = Combined.of_packed(schema, sent.payload)
            else:
                tuples = _opened(spec, message.producer, sent, sent.payload, reader, window_id)
            delivered.setdefault((sent.sink, sent.port), []).append(tuples)
    return delivered


def _opened(
    spec: ContainerSpec, producer: int, sent: Block, payload: Payload, reader: SharedReader, window_id: int
) -> Tuples:
    """The tuples of a block that comes from another process. Raises OperatorError."""
    schema, encoding, where = spec.incoming[producer, sent.stream]
    try:
        data, times = reader.open(payload), reader.open_times(sent.times)
        if encoding is not None:
            return coded.decode(data, encoding, times)
        return block.decode(schema, data, times)
    except (LostBlockError, pa.ArrowException) as error:
        text = f"a block of container {producer} for {where} is lost or damaged: {error}"
        text = f"{text} in window {window_id}; the window is run again"
        raise _failed(spec, sent.sink, text, window_id) from error
    except coded.DecodeError as error:
        trace = "".join(traceback.format_exception(error))
        raise _failed(spec, sent.sink, f"{where}: {error}", window_id, trace) from error


def _failed(spec: ContainerSpec, sink: int, text: str, window_id: int, trace: str = "") -> OperatorError:
    """The error of an operator that did not get what was sent; `trace`: of its codec, which failed."""
    operator = next(found for found in spec.operators if found.id == sink)
    name = operator.title if operator.unifier else operator.name
    who = spec.application, name, operator.partition, window_id
    return OperatorError(Failure(*who, "receive", text, traceback=trace, raised=bool(trace)))


_HOST = socket.gethostname()


class Container:
    """The operators of one spec.

    Not thread-safe. State in memory is a cache. `run` brings it to the version that the request names, or
    continues with what the window before has left.
    """

    def __init__(
        self,
        spec: ContainerSpec,
        storage: Storage,
        clock: Clock,
        run_id: str,
        host: str = _HOST,
        inspect: Inspect | None = None,
    ) -> None:
        self._host = host
        self._storage = storage
        self._run_id = run_id
        self._clock = clock
        self._inspect = inspect
        self._states = ContainerStates(storage, run_id)
        self._held: int | None = None
        """The window after which all operators' cells are, None after a failure."""
        self._finished: frozenset[int] = frozenset()
        """The inputs that have finished up to this window."""
        self._failed = False
        """Whether the last attempt has failed here."""
        self._teardown_errors: list[BaseException] = []
        """Errors of `deactivate` and `teardown` after failures."""
        self._operators: dict[int, OperatorRuntime] = {}
        self._turns: dict[int, CurrentOperator] = {}
        self._signals = Signals(ends=EndedOperators(spec.ends))
        """Those of the window that runs, of own operators and of those that send to them."""
        self._now: tuple[int, int, float] | None = None
        self.on_turn: Callable[[WindowRequest, int], None] | None = None
        """Called with the operator in turn (physical id) before its callbacks; quick, and raises nothing."""
        self.on_wake: Callable[[], None] | None = None
        """Called when an input says that it has something to emit, by any thread."""
        self.near: Collection[int] = ()
        """The containers that get tuples as they are, since they live in the same process."""
        self._assemble(spec, {})

    def _assemble(self, spec: ContainerSpec, stays: Mapping[int, OperatorRuntime]) -> None:
        """Have the operators of a spec: those that stay, and new ones."""
        self.spec = spec
        self._routes = Routes(spec)
        self._operators = {one.id: stays.get(one.id) or self._make(one) for one in spec.operators}
        for operator, runtime in self._operators.items():
            entering = map(Entering._make, spec.entering.get(operator, ()))
            runtime.connect(spec.watermarks.get(operator, ()), entering)
        self._chains = Chains(spec, self._operators)

    def _make(self, operator: PhysicalOperator) -> OperatorRuntime:
        """An operator that is not set up yet, without its state."""
        spec = self.spec
        context = OperatorContext(
            application=spec.application,
            name=operator.name,
            operator_id=operator.id,
            partition=operator.partition,
            partitions=operator.partitions,
            clock=self._clock,
            run_id=self._run_id,
            staging=f"{self._storage.uri}/staging",
            window_seconds=spec.window_seconds,
            attributes=operator.attributes,
            port_attributes=operator.ports,
            keys=operator.keys,
        )
        context.passed_over = spec.passed_over
        context.engine.on_wake = self._wake
        runtime = OperatorRuntime(
            operator,
            context,
            spec.recording_level,
            self._inspect,
            self._signals,
            keeps_time=operator.id in spec.watermarks,
        )
        name = operator.title.removesuffix(f"[{operator.partition}]")
        self._turns[operator.id] = CurrentOperator(name, context)
        self._states.add(operator.id)
        return runtime

    def change(self, spec: ContainerSpec) -> list[BaseException]:
        """Be the container of another spec, after a change of the plan; no window runs.

        Retained operators keep instance, connections and state. Others are torn down, or made again. The
        next request must name the states. Returns what `deactivate` and `teardown` have raised.
        """
        if self._failed:
            self._reset_after_failure()
        retained = retained_operators(self.spec, spec)
        errors = self._stop(one for name, one in self._operators.items() if name not in retained)
        stays = {operator: self._operators[operator] for operator in retained}
        for operator in self._operators.keys() - retained.keys():
            self._turns.pop(operator, None)
            self._states.remove(operator)
        self._held = None
        self._signals.clear()
        self._signals.ends.follow(spec.ends)
        self._assemble(spec, stays)
        for operator, properties in retained.items():
            if stays[operator].retain(next(one for one in spec.operators if one.id == operator), properties):
                errors += self._stop([stays[operator]])
        return errors

    def _wake(self) -> None:
        if self.on_wake is not None:
            self.on_wake()

    def run(
        self,
        request: WindowRequest,
        messages: Sequence[Message],
        batches: Iterable[pa.RecordBatch],
        tag: str,
        place: SharedPlace | None = None,
    ) -> tuple[dict[int, Message], WindowReport]:
        """Run a window: messages for the containers that get anything, by their ids, and the report.

        The caller has the end of the window from all producers and sends it to all consumers. So messages
        with nothing in them are left out, those that come and those that go.

        `tag` is unique to the process that runs it. `place` is where blocks may lie by reference. Raises
        OperatorError for a failing callback or a block that is lost. Raises StateError or OSError for state
        that cannot be read or written, or that is not held though the request has none. After an error
        nothing of the attempt counts, and the next request must name the states.
        """
        request = self._continued(request)
        own_tag = f"w{request.window_id}e{request.epoch}r{request.attempt}{tag}"
        outgoing = Outgoing(self._routes, own_tag, place, self.near, request.key_bits)
        try:
            report = self._run(request, messages, batches, outgoing, tag)
            report.keys = outgoing.key_counts()
        except BaseException:
            self._failed = True
            outgoing.discard()
            raise
        finally:
            self._now = None
            leave_operator()
        self._held = request.window_id
        if finished := {one.window.operator for one in report.operators if one.window.finished}:
            self._finished |= finished
        return outgoing.messages(*self._signals.of(self._routes.read_by_others)), report

    def _continued(self, request: WindowRequest) -> WindowRequest:
        """Check that it can continue from here; returns the request with all inputs that have finished.

        Raises StateError, and OperatorError of the `teardown` of an input.
        """
        held, self._held = self._held, None  # until the window has ended well
        if request.states is not None:
            self._finished = request.finished
            if self._failed or (held is not None and held >= request.window_id):
                self._reset_after_failure()
            return request
        if held != request.window_id - 1:
            found = "no state" if held is None else f"the state after window {held}"
            what = f"container {self.spec.id} holds {found}; it was to go on with window {request.window_id}"
            raise StateError(f"{what}; the window is run again from the last commit")
        self._finished |= request.finished
        return request if self._finished == request.finished else replace(request, finished=self._finished)

    def _run(
        self,
        request: WindowRequest,
        messages: Sequence[Message],
        batches: Iterable[pa.RecordBatch],
        outgoing: Outgoing,
        tag: str,
    ) -> WindowReport:
        """Run all operators of an attempt in topological order, write their state, and fill the report in."""
        timeline = Timeline(self._clock)
        began = timeline.now()
        window = ContainerWindow(
            at=0.0,
            window_id=request.window_id,
            attempt=request.attempt,
            container=self.spec.id,
            host=self._host,
            pid=os.getpid(),
            task=tag,
            task_began=began,
            began=began,
        )
        report = WindowReport(window)
        self._now = (request.window_id, request.attempt, began)
        self._states.epoch = request.epoch
        for runtime in self._operators.values():
            runtime.running.wait()
        before = {
            runtime.spec.id: self._states.restore(self.spec, runtime, request.states)
            for runtime in self._operators.values()
        }
        window.restored = timeline.now()
        delivered = receive(self.spec, messages, request.window_id)
        self._signals.clear()
        for message in messages:
            self._signals.add(message.marks, message.ended, message.controls)
        changes: dict[int, state_files.CellChanges] = {}
        for runtime in self._operators.values():
            runtime.context.container_attempt = f"e{request.epoch}r{request.attempt}{tag}"
            runtime.context.attempt = request.attempt
        ended = window.restored
        for chain, relayed in self._chains.turns(request, delivered):
            if relayed:
                turns: Iterable[Ran] = self._relayed(chain, request, delivered, timeline)
            else:
                turns = self._in_turn(chain, request, batches, delivered, timeline)
            for runtime, ran in zip(chain.operators, turns, strict=True):
                own = ran.report.window
                if not own.dropped:
                    self._route(runtime, request, ran, delivered, outgoing)
                routed = timeline.now()
                self._states.note_changes(runtime, ran.report, changes)
                written = timeline.now()
                own.container, own.host = window.container, window.host
                own.began, own.ended = ended if ran.began is None else ran.began, written - ran.later
                own.wait_seconds = max(0.0, own.began - window.restored)
                own.transfer_seconds = max(0.0, own.ended - own.began - own.compute_seconds)
                own.state_seconds = written - routed
                if isinstance(batches, FedRows) and isinstance(runtime.operator, SparkSource):
                    count_reading(batches, own, window)
                if not own.dropped:
                    own.ages = tuple(runtime.ages(own.ended))
                ended = own.ended
                report.operators.append(ran.report)
        window.ran = timeline.now()
        self._states.write(self.spec, self._operators, request, tag, changes, report)
        window.written = timeline.now()
        for operator_report in report.operators:
            if operator_report.change:
                own = operator_report.window
                own.state_written, own.write_seconds = window.written, window.written - window.ran
            self._states.follow(before[operator_report.window.operator], operator_report, request)
        window.bytes_out = outgoing.size_bytes
        return report

    def heartbeat(self) -> ContainerHeartbeat | None:
        """Its progress now, None if it runs no window.

        May be called from any thread at any moment; `at` and `sent` are its clock.
        """
        running = self._now
        if running is None:
            return None
        window_id, attempt, began = running
        operators = tuple(runtime.running.figures() for runtime in self._operators.values())
        now = self._clock.wall()
        return ContainerHeartbeat(
            now, self.spec.id, self._host, os.getpid(), now, window_id, attempt, began, operators
        )

    def taken(self) -> Iterator[SourceTaken]:
        """How far its input operators are, which know that and are in no window. From any thread."""
        for runtime in list(self._operators.values()):
            if (said := runtime.taken()) is not None:
                yield said

    def committed(self, window_id: int, states: Mapping[int, StateVersion] | None) -> None:
        """Call `committed` of the operators that override it.

        `states`: the versions after the window, which are restored first. None: later windows may have run,
        and state stays as the last of them left it. Raises OperatorError.
        """
        present = window_id if self._held is None or states is not None else self._held
        for runtime in self._operators.values():
            if overrides_committed(runtime.spec):
                version = self._states.versions[runtime.spec.id]
                if states is not None:
                    version = states.get(runtime.spec.id, ())
                    self._held = None
                    self._states.restore(self.spec, runtime, states)
                enter_operator(self._turns[runtime.spec.id])
                try:
                    runtime.committed(window_id, present)
                finally:
                    leave_operator()
                self._states.versions[runtime.spec.id] = version

    def close(self) -> None:
        """`deactivate` and `teardown` all operators.

        The first OperatorError is raised after all have been torn down, also one of an earlier `teardown`.
        """
        errors, self._teardown_errors = self._teardown_errors, []
        errors += self._stop(self._operators.values())
        if errors:
            raise errors[0]

    def _reset_after_failure(self) -> None:
        """Reset operators that hold connections, and the one that failed.

        Their messages belong to attempts that are void. `setup` follows once the state is
        restored. Errors in it are reported at the end: nothing is lost by them.
        """
        self._failed = False
        self._teardown_errors += self._stop(
            runtime
            for runtime in self._operators.values()
            if runtime.instance.failed or runtime.instance.holds_connections
        )
        del self._teardown_errors[1:]  # the first is what is reported

    def _stop(self, runtimes: Iterable[OperatorRuntime]) -> list[BaseException]:
        """`deactivate` and `teardown` some operators, whatever some raise; returns what they did."""
        errors: list[BaseException] = []
        for runtime in runtimes:
            enter_operator(self._turns[runtime.spec.id])
            try:
                runtime.stop()
            except BaseException as error:  # noqa: BLE001  the caller's
                errors.append(error)
            finally:
                leave_operator()
        return errors

    # Tuples -------------------------------------------------------------------------------------------------

    def _begin_turn(self, request: WindowRequest, runtime: OperatorRuntime) -> None:
        """An operator's callbacks are about to run."""
        if self.on_turn is not None:
            self.on_turn(request, runtime.spec.id)
        enter_operator(self._turns[runtime.spec.id])

    def _in_turn(
        self,
        chain: Chain,
        request: WindowRequest,
        batches: Iterable[pa.RecordBatch],
        delivered: Emitted,
        timeline: Timeline,
    ) -> Iterator[Ran]:
        """Run operators one after the other, each when what the one before has emitted is routed."""
        for runtime in chain.operators:
            self._begin_turn(request, runtime)
            began = timeline.now()
            yield Ran(*self._run_operator(runtime, request, batches, delivered, timeline), began)

    def _relayed(
        self, chain: Chain, request: WindowRequest, delivered: Emitted, timeline: Timeline
    ) -> list[Ran]:
        """Run operators together, each batch through all of them before the next. Raises OperatorError."""
        relay = Relay(chain, timeline, partial(self._begin_turn, request))
        for runtime in chain.operators:
            self._begin_turn(request, runtime)
            runtime.start()
        return relay.run(request, _taken(chain.operators[0], delivered))

    def _run_operator(
        self,
        runtime: OperatorRuntime,
        request: WindowRequest,
        batches: Iterable[pa.RecordBatch],
        delivered: Emitted,
        timeline: Timeline,
    ) -> tuple[OperatorReport, dict[str, list[Tuples]]]:
        """Run one operator. One with AT_MOST_ONCE that fails loses its window only.

        One that keeps no state loses a window that is made again: it may have been through it before.
        """
        inputs, ran = _taken(runtime, delivered), None
        dropped = f"window {request.window_id} is made again"
        try:
            runtime.start()
            if not request.attempt or runtime.spec.attributes["keep_state"]:
                ran = self._run_callbacks(runtime, request, inputs, batches, timeline)
        except OperatorError as error:
            if runtime.spec.attributes["processing_mode"] is not ProcessingMode.AT_MOST_ONCE:
                raise
            if runtime.cells and request.states is None:
                raise  # it cannot go back; the next attempt can
            dropped = str(error.failure)
        if ran is not None:
            report, emitted = ran
        else:
            self._start_over(runtime, request)
            report, emitted = runtime.lose(request), {}
            report.window.tuples_in = {port: sum(map(len, parts)) for port, parts in inputs.items()}
            report.window.dropped = dropped
        return report, emitted

    def _route(
        self,
        runtime: OperatorRuntime,
        request: WindowRequest,
        ran: Ran,
        delivered: Emitted,
        outgoing: Outgoing,
    ) -> None:
        """Route what an operator has emitted."""
        if request.samples:
            asked = {
                port: count
                for (operator, port), count in request.samples.items()
                if operator == runtime.spec.id
            }
            ran.report.samples = {
                port: last_tuples(ran.emitted.get(port, ()), count) for port, count in asked.items()
            }
        runtime.route(outgoing, ran.emitted, delivered)

    def _run_callbacks(
        self,
        runtime: OperatorRuntime,
        request: WindowRequest,
        inputs: Mapping[str, Sequence[Tuples]],
        batches: Iterable[pa.RecordBatch],
        timeline: Timeline,
    ) -> tuple[OperatorReport, dict[str, list[Tuples]]]:
        """Run one operator; one that leaves out tuples on which it fails again and again, until none is left.

        Raises OperatorError.
        """
        skips = Skips() if runtime.instance.skips_tuples else None
        while True:
            try:
                return runtime.run(request, inputs, batches, timeline, skips)
            except OperatorError:
                if skips is None or not skips.run_again():
                    raise
                if runtime.cells and request.states is None:
                    raise  # it cannot go back; the next attempt can
                self._start_over(runtime, request)

    def _start_over(self, runtime: OperatorRuntime, request: WindowRequest) -> None:
        """Bring an operator's state back to the window before."""
        self._states.versions[runtime.spec.id] = None
        self._states.restore(self.spec, runtime, request.states)


def _taken(runtime: OperatorRuntime, delivered: Emitted) -> dict[str, list[Tuples]]:
    """The input of an operator, by port; nothing else holds it any more."""
    return {port: delivered.pop((runtime.spec.id, port), []) for port in runtime.spec.inputs}


def retained_operators(old: ContainerSpec, new: ContainerSpec) -> dict[int, Mapping[str, Any]]:
    """The operators whose instances serve the new spec as well, each with the properties to set on it.

    An operator that gets a watermark, or loses it, is made again: its state has another shape.
    So are all where the run was rewound in between.
    """
    before = {one.id: one for one in old.operators}
    alike = [(one.recording_level, one.window_seconds, one.passed_over) for one in (old, new)]
    if alike[0] != alike[1]:
        return {}
    return {
        one.id: changed_properties(before[one.id], one)
        for one in new.operators
        if one.id in before
        and can_retain(before[one.id], one)
        and (one.id in old.watermarks) == (one.id in new.watermarks)
    }

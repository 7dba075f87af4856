"""One operator as it lives in a container: its object, what it has, and how its callbacks are called."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa

from ridgeline.api.attributes import OnError, RecordingLevel
from ridgeline.api.cells.cell import StateCell
from ridgeline.api.cells.per_instance import OWN
from ridgeline.api.columns.combined import Combined
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import (
    CallbackInterrupt,
    ContainerAbortError,
    Failure,
    OperatorError,
    described,
    shorten,
)
from ridgeline.api.operator import HIDDEN, InputOperator, Operator, operator_type, port_schema, state_cells
from ridgeline.api.points import OutputPoint
from ridgeline.api.ports import InputPort
from ridgeline.api.push_input import PushInput
from ridgeline.api.state import PLATFORM, Change
from ridgeline.api.times import Times
from ridgeline.engine.operator.failures import InputLostError
from ridgeline.engine.operator.progress import Handler, Running
from ridgeline.engine.operator.signals import Signals
from ridgeline.plan.physical import PhysicalOperator

# The attributes of an operator that it does not declare: what a window sets is dropped at its end.


def is_hidden(name: str) -> bool:
    """True for what the platform keeps on an operator."""
    return name in HIDDEN or name.startswith(OWN)


class Undeclared:
    """The undeclared attributes of an operator, and which of them are kept."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._kept: dict[str, object] = {}

    def keep(self) -> None:
        """What there is now, made by `__init__`, `setup` and `activate`, is there in each window."""
        self._kept = {name: value for name, value in vars(self._operator).items() if not is_hidden(name)}

    def set_in_window(self) -> list[str]:
        """The attributes that the window has set."""
        values: Mapping[str, object] = vars(self._operator)
        return [
            name
            for name, value in values.items()
            if not is_hidden(name) and self._kept.get(name, values) is not value
        ]

    def forget(self, window_id: int) -> None:
        """Remove attributes that the window set without declaring them, also those of `__init__` or `setup`.

        Properties and metrics, which the class has values for, get back the value that they had.
        """
        values = vars(self._operator)
        for name in self.set_in_window():
            del values[name]
            if name in self._kept and hasattr(type(self._operator), name):
                values[name] = self._kept[name]
                continue
            self._kept.pop(name, None)
            values.setdefault("_forgotten", {})[name] = window_id


_CONNECTING = "activate", "deactivate", "teardown"
_NO_EXIT = "; an operator cannot end its worker: raise an exception, or call `finish()` in an input operator"


class Inspection(Protocol):
    """Looks at an operator after its callbacks."""

    def check(self) -> None:
        """Raise RidgelineError for what a crash would lose or a replay would not repeat."""

    def begin_again(self) -> None:
        """The operator has been torn down and set up again."""


Inspect = Callable[["Instance"], Inspection]
"""Makes what looks at an operator after each window, for runners that have the time."""


class Instance:
    """The object of one physical operator, with its states and ports. Not thread-safe, but for `running`.

    `keeps_time`: it has a watermark. `signals`: those of its container. At level OFF no tuple gets a time.
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
        self.spec = spec
        self.context = context
        self.level = level
        self.signals = Signals() if signals is None else signals
        self.keeps_time = keeps_time
        self.window_count = spec.window_count
        """Streaming windows of an application window, or of a slide."""
        self.operator: Operator = copy.deepcopy(spec.operator)
        self.operator.context = context
        self.cells: dict[str, StateCell] = state_cells(self.operator)
        """Those that it declares; parts of its turn add their own."""
        declared = operator_type(type(self.operator))
        ports = dict.fromkeys((*declared.outputs, *spec.outputs))  # perhaps that of dead letters too
        self.outputs: dict[str, OutputPoint] = {name: getattr(self.operator, name) for name in ports}
        self.handlers = {
            name: self._handler(port) for name, port in declared.inputs.items() if name in spec.inputs
        }
        """By input port: whether it takes batches, and the method."""
        self.running = Running(spec.id, self.operator, self.outputs, context.clock)
        context.engine.on_expected = self.running.expect
        self.undeclared = Undeclared(self.operator)
        self.handed_on: list[Times] = []
        """The times of what was handed on before the window's end, of an operator that makes a watermark."""
        self.failed = False
        """Whether a callback has raised since it was started."""
        self._inspect = inspect
        self._inspection: Inspection | None = None

    def _handler(self, port: InputPort) -> tuple[bool, Handler]:
        name = port.process_batch_name or port.process_name
        if name is None:
            return True, self._pass_on  # a unifier that declares no method passes its tuples on
        return port.process_batch_name is not None, getattr(self.operator, name)

    def _pass_on(self, batch: pa.RecordBatch | Combined) -> None:
        point = next(iter(self.outputs.values()))
        if isinstance(batch, Combined):
            point.pass_on(batch)
        else:
            point.emit_batch(batch)

    @property
    def skips_tuples(self) -> bool:
        """True if tuples on which it fails are left out."""
        return (
            self.spec.attributes["on_error"] is OnError.SKIP and not self.spec.unifier and bool(self.handlers)
        )

    @property
    def is_clean(self) -> bool:
        """True if a tuple leaves traces only in the output: no state, and nothing was set in the window."""
        return not self.cells.keys() - PLATFORM and not self.undeclared.set_in_window()

    @property
    def holds_connections(self) -> bool:
        """True if it has more than `setup`: after a failure it must let go of what it holds."""
        return isinstance(self.operator, PushInput) or any(map(self.overrides, _CONNECTING))

    def overrides(self, callback: str) -> bool:
        """True if the operator's class has a callback of its own."""
        return getattr(type(self.operator), callback) is not getattr(Operator, callback)

    # Its callbacks ------------------------------------------------------------------------------------------

    def timed(self, callback: str, function: Callable[..., object], *arguments: object) -> Any:
        """Call what counts as time of the operator's. Raises as `call`."""
        with self.running.callback():
            return self.call(callback, function, *arguments)

    def call(self, callback: str, function: Callable[..., object], *arguments: object) -> Any:
        """Call what is named so in errors. Raises what `failure` makes of an error."""
        try:
            return function(*arguments)
        except BaseException as error:
            raise self.failure(callback, error) from error

    def failure(self, callback: str, error: BaseException, value: str = "") -> BaseException:
        """The error to raise for an error of a callback; `value`: the tuple on which it failed, as text."""
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

    def batch_failure(self, port: str, tuples: Tuples, error: BaseException) -> BaseException:
        """As `failure`, of a batch: it names the tuple, or the first of several."""
        first = shorten(tuples.rows[0]) if len(tuples) else "none"
        text = first if len(tuples) == 1 else f"one of a batch of {len(tuples)}, the first being {first}"
        return self.failure(f"process_batch of port {port}", error, text)

    def connect(self) -> None:
        """It is about to be set up: its ports get their schemas, outputs who reads them and needs times."""
        for name in self.handlers:
            getattr(self.operator, name).port_schema = self.spec.inputs[name]
        source = isinstance(self.operator, InputOperator)
        takes_times = self.level is not RecordingLevel.OFF or self.keeps_time
        for name, point in self.outputs.items():
            point.connected = name in self.spec.outputs
            point.port_schema = (
                self.spec.outputs[name] if point.connected else _unread(self.operator, name, self.spec.inputs)
            )
            point.timed = takes_times and (source or point.connected)

    # What it holds between callbacks ------------------------------------------------------------------------

    def begin_cells(self, window_id: int) -> int:
        """Begin to note changes of state, for this window; returns its application window.

        Cells know it without the numbers that rewinds have left out.
        """
        application_window = window_id - window_id % self.window_count
        for cell in self.cells.values():
            cell.begin(application_window - self.context.passed_over)
        return application_window

    def changes(self) -> dict[str, Change]:
        """The changes of declared state since `begin_cells`.

        Raises OperatorError for state that is not as declared.
        """
        found = {name: self.call(f"end of state {name}", cell.changes) for name, cell in self.cells.items()}
        return {name: change for name, change in found.items() if change is not None}

    def settle(self) -> None:
        """Keep the attributes that `setup` and `activate` have made: they are there in each window."""
        self.undeclared.keep()
        if self._inspection is not None:
            self._inspection.begin_again()
        elif self._inspect is not None:
            self._inspection = self._inspect(self)

    def inspect(self) -> None:
        """Raise RidgelineError for what a crash would lose or a replay would not repeat."""
        if self._inspection is not None:
            self._inspection.check()

    def refuse_strays(self) -> None:
        """Refuse what a thread of the operator emitted between windows. Raises OperatorError."""
        for point in self.outputs.values():
            self.call("emit", point.refuse_strays)


def _unread(operator: Operator, name: str, inputs: Mapping[str, Schema]) -> Schema | None:
    """The schema of an output port that no stream reads, which the operator may ask for all the same.

    As the plan resolves it for those that are read; None if nothing says it.
    """
    if port_schema(operator, name) is not None:
        return None  # the declared one
    made = operator.derived_schema(name, inputs)
    if made is not None:
        return Schema(made)
    taken = [one for one in operator_type(type(operator)).inputs if port_schema(operator, one) is None]
    return next((inputs[one] for one in taken if one in inputs), None)

"""Requests for changes of a running application of this process, and the wait until they are made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import pyarrow as pa

from ridgeline.api.attributes import Locality, LocalityName, OperatorAttributes
from ridgeline.api.errors import ChangeError
from ridgeline.api.operator import Operator
from ridgeline.api.partitioner import Partitioner
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.engine.driver.run.changes import QUEUED, REFUSED, WITHDRAWN
from ridgeline.plan.change.edit_texts import edits_text
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveSink,
    RemoveStream,
    RenameOperator,
    Repartition,
    ReplaceOperator,
    SetAttribute,
    SetProperty,
    edit_of,
)
from ridgeline.plan.spec.values import ValueFaultError, write_partitioner
from ridgeline.plan.spec.writer import spec_of_operator
from ridgeline.regions.joined_changes import AnyAsked
from ridgeline.stram import changes as kinds

if TYPE_CHECKING:
    from ridgeline.plan.change.difference import PlanDifference
    from ridgeline.regions.joined_run import AnyRun


Op = TypeVar("Op", bound=Operator)
Source = OutputPoint[Any] | str
Sink = InputPoint[Any] | str


class PlanChange:
    """Edits that are collected, to be made together.

    Ports are those of operators that were added here, `audit.payments`, or texts, `"audit.payments"`, for
    operators that run.

    Example:
        >>> from ridgeline.operators import ConsoleOutput
        >>> change = PlanChange()
        >>> console = change.add_operator("console", ConsoleOutput())
        >>> change.add_sink("balances", console.input)
        >>> change
        <add the operator `console`, `ridgeline.operators.ConsoleOutput`; add the sink `console.input` to the
         stream `balances`>
    """

    def __init__(self) -> None:
        self.edits: list[Edit] = []
        self._names: dict[int, str] = {}
        self._added: list[Operator] = []

    def add_operator(self, name: str, operator: Op, **attributes: Unpack[OperatorAttributes]) -> Op:
        """Add an operator, with attributes such as `partitions=2`. Returns it, for its ports."""
        self.edits.append(AddOperator(name, spec_of_operator(name, operator, attributes)))
        return self._known(name, operator)

    def replace_operator(self, name: str, operator: Op, **attributes: Unpack[OperatorAttributes]) -> Op:
        """Put another operator in the place of one: its streams stay, so does its state if that fits."""
        self.edits.append(ReplaceOperator(name, spec_of_operator(name, operator, attributes)))
        return self._known(name, operator)

    def remove_operator(self, name: str) -> None:
        """Remove an operator, with its state, and the ends of streams at it."""
        self.edits.append(RemoveOperator(name))

    def rename_operator(self, name: str, new: str) -> None:
        """Give an operator another name; it keeps its state."""
        self.edits.append(RenameOperator(name, new))

    def add_stream(
        self, name: str, source: Source, *sinks: Sink, locality: Locality | LocalityName | None = None
    ) -> None:
        """Join an output port to input ports."""
        ends = tuple(map(self._end, sinks))
        if not ends:
            raise ChangeError(f"the stream `{name}` has no sink; give at least one input port")
        self.edits.append(AddStream(name, self._end(source), ends, _name_of(locality)))

    def remove_stream(self, name: str) -> None:
        """Remove a stream."""
        self.edits.append(RemoveStream(name))

    def add_sink(self, stream: str, sink: Sink, locality: Locality | LocalityName | None = None) -> None:
        """Let an input port read a stream from now on."""
        self.edits.append(AddSink(stream, self._end(sink), _name_of(locality)))

    def remove_sink(self, stream: str, sink: Sink) -> None:
        """Let an input port read a stream no more."""
        self.edits.append(RemoveSink(stream, self._end(sink)))

    def set_property(self, operator: str, name: str, value: object) -> None:
        """Give an operator's property a value, in all partitions."""
        self.edits.append(SetProperty(operator, name, value))

    def set_attribute(
        self, operator: str, name: str, value: object, *, port: str = "", unifier: bool = False
    ) -> None:
        """Give an attribute a value: of an operator, of one of its ports, or of the unifiers of a port.

        `operator` "": of the application.
        """
        value = getattr(value, "name", value) if isinstance(value, Locality) else value
        self.edits.append(SetAttribute(operator, name, value, port, unifier))

    def repartition(
        self,
        operator: str,
        partitions: int | None = None,
        partitioner: Partitioner | Mapping[str, Any] | None = None,
    ) -> None:
        """Give an operator another number of partitions, or another partitioner, or both."""
        self.edits.append(repartition(operator, partitions, partitioner))

    def _known(self, name: str, operator: Op) -> Op:
        self._names[id(operator)] = name
        self._added.append(operator)  # its id stays its own
        return operator

    def _end(self, port: object) -> str:
        """A port as `operator.port`. Raises ChangeError."""
        if isinstance(port, str):
            return port
        if not isinstance(port, (InputPoint, OutputPoint)):
            raise ChangeError(f"{port!r} is no port; give one of an operator, `audit.payments`, or its text")
        name = self._names.get(id(port.operator))
        if name is None:
            kind = type(port.operator).__name__
            raise ChangeError(
                f"the port `{port.name}` is of a `{kind}` that this change does not add; "
                f'for an operator that runs give a text: "name.{port.name}"'
            )
        return f"{name}.{port.name}"

    def __repr__(self) -> str:
        return f"<{edits_text(self.edits) or 'no edits'}>"


def repartition(
    operator: str, partitions: int | None, partitioner: Partitioner | Mapping[str, Any] | None
) -> Repartition:
    """The edit for another number of partitions, or another partitioner. Raises ChangeError."""
    if partitions is None and partitioner is None:
        raise ChangeError(f"`{operator}` would stay as it is; give a number of partitions, or a partitioner")
    if not isinstance(partitioner, Partitioner):
        return Repartition(operator, partitions, partitioner)
    try:
        return Repartition(operator, partitions, write_partitioner(partitioner))
    except ValueFaultError as error:
        raise ChangeError(f"the partitioner of `{operator}`: {error.what}; {error.remedy}") from None


def _name_of(locality: Locality | LocalityName | None) -> str | None:
    return locality.name if isinstance(locality, Locality) else locality


PATIENCE_SECONDS = 60.0
"""Seconds that a call waits for its change by default."""
_POLL_SECONDS = 0.1
_WHO = "Python"
_COLUMNS = {
    "id": pa.int64(),
    "what": pa.string(),
    "state": pa.string(),
    "window": pa.int64(),
    "who": pa.string(),
    "note": pa.string(),
    "reason": pa.string(),
    "at": pa.timestamp("us", "UTC"),
}
AnyEdit = Edit | Mapping[str, Any]


class Asking(TypedDict, total=False):
    """How a change is asked for.

    `note`: why; `changes()` shows it. `timeout`: seconds to wait; default: 60.
    """

    note: str
    timeout: float


class ChangeClient:
    """The half of a handle that changes what runs.

    Each call returns once its change is committed, and raises ChangeError if it is refused: then nothing of
    it is applied. A call that waits longer than `timeout` seconds raises TimeoutError; its change stays in
    the queue.
    """

    def _running(self) -> AnyRun:
        """The run. Raises ChangeError if it runs no more."""
        raise NotImplementedError

    def _alive(self) -> bool:
        raise NotImplementedError

    def _failure(self) -> BaseException | None:
        """Why the run has failed, if it has."""
        raise NotImplementedError

    def set_property(self, operator: str, name: str, value: object, **asking: Unpack[Asking]) -> None:
        """Give an operator's property a value, in all partitions from one window on. They keep all else.

        Args:
            operator: Its name.
            name: Of the property; `options.topic` for an entry of one.
            value: A value of the property's type, or a text as `-D` takes it.
            **asking: `note` and `timeout`, as of `Asking`.

        Raises:
            ChangeError: If it is refused; the reason is its text.
            TimeoutError: If it waits still.
        """
        self.change(SetProperty(operator, name, value), **asking)

    def set_attribute(
        self,
        operator: str,
        name: str,
        value: object,
        *,
        port: str = "",
        unifier: bool = False,
        **asking: Unpack[Asking],
    ) -> None:
        """Give an attribute a value: of an operator, of its `port`, or of the unifiers of that port.

        `operator` "": of the application. Raises as `set_property`.
        """
        self.change(SetAttribute(operator, name, value, port, unifier), **asking)

    def repartition(
        self,
        operator: str,
        partitions: int | None = None,
        partitioner: Partitioner | Mapping[str, Any] | None = None,
        **asking: Unpack[Asking],
    ) -> None:
        """Give an operator another number of partitions, or another partitioner; its state moves by key.

        Raises as `set_property`.
        """
        self.change(repartition(operator, partitions, partitioner), **asking)

    @contextlib.contextmanager
    def plan_change(self, note: str = "", *, timeout: float = PATIENCE_SECONDS) -> Iterator[PlanChange]:
        """Collect edits in the block, and make them at its end, all at one window boundary.

        Nothing is changed if the block raises. Raises as `set_property`.

        Example:
            with handle.plan_change(note="an audit") as plan:
                audit = plan.add_operator("audit", Audit())
                plan.add_sink("payments", audit.payments)
        """
        collected = PlanChange()
        yield collected
        if collected.edits:
            self.change(collected.edits, note=note, timeout=timeout)

    def change(
        self, *edits: AnyEdit | Iterable[AnyEdit], note: str = "", timeout: float = PATIENCE_SECONDS
    ) -> int:
        """Make edits (`ridgeline.plan.edits`, or mappings as REST takes them), all together.

        Returns the first window that has them. Raises as `set_property`.
        """
        asked = self._ask(kinds.EditPlan(_edits(edits), note), timeout)
        return -1 if asked.window is None else asked.window

    def dry_run(self, *edits: AnyEdit | Iterable[AnyEdit]) -> PlanDifference:
        """The difference that edits would make, without making it: `print(handle.dry_run(edit))`.

        Raises ValidationError with all faults, ChangeError.
        """
        return self._running().preview(_edits(edits))

    def changes(self) -> pa.Table:
        """The last 1,000 changes that were asked for in this run, the newest last.

        `state`: QUEUED, APPLIED, REFUSED, WITHDRAWN. `window`: the first one that has it, or that a queued
        one waits for.
        """
        rows = [{**row, "at": int(row["at"] * 1_000_000)} for row in self._rows()]
        return pa.table(
            {
                name: pa.array([row[name] for row in rows], pa.int64() if name == "at" else kind).cast(kind)
                for name, kind in _COLUMNS.items()
            }
        )

    def pause(self, note: str = "", *, timeout: float = PATIENCE_SECONDS) -> None:
        """Begin no further window, until `resume`. Those under way are committed."""
        self._ask(kinds.Pause(note), timeout)

    def resume(self, note: str = "", *, timeout: float = PATIENCE_SECONDS) -> None:
        """Begin windows again."""
        self._ask(kinds.Resume(note), timeout)

    def kill(self, note: str = "", *, timeout: float = PATIENCE_SECONDS) -> None:
        """End the application at once: the windows under way are void. `stop` ends it after them."""
        self._ask(kinds.Kill(note), timeout)

    def _rows(self) -> Sequence[dict[str, Any]]:
        raise NotImplementedError

    def _ask(self, what: kinds.What, timeout: float) -> AnyAsked:
        """Ask for a change and wait for it. Raises ChangeError, TimeoutError."""
        run = self._running()
        name = run.plan.logical.application
        asked = run.changes.ask(what, _WHO)
        if not _waited(asked, timeout, self._alive):
            where = "" if asked.window is None else f" for window {asked.window}"
            raise TimeoutError(
                f"`{what}` still waits{where} after {timeout:g} s; `changes()` says what comes of it"
            )
        if asked.state == REFUSED and (failure := self._failure()) is not None:
            raise ChangeError(f"`{what}` is not made, since `{name}` has failed: {failure}") from failure
        if asked.state == REFUSED:
            raise ChangeError(asked.reason)
        if asked.state == WITHDRAWN:
            raise ChangeError(f"`{what}` was withdrawn before it was made")
        if asked.state == QUEUED:
            raise ChangeError(f"`{name}` runs no more: `{what}` is not made")
        return asked


def _waited(asked: AnyAsked, timeout: float, alive: Callable[[], bool]) -> bool:
    """Wait for a change; False if it waits still after `timeout`. Ends with the application."""
    left = timeout
    while not asked.done.wait(min(left, _POLL_SECONDS)):
        left -= _POLL_SECONDS
        if not alive():
            return True
        if left <= 0:
            return asked.done.is_set()
    return True


def _edits(given: Iterable[AnyEdit | Iterable[AnyEdit]]) -> tuple[Edit, ...]:
    """Edits from what callers give: edits, mappings, or lists of them. Raises ChangeError."""
    found: list[Edit] = []
    for one in given:
        if isinstance(one, Mapping):
            found.append(edit_of(one))
        elif isinstance(one, Edit):
            found.append(one)
        else:
            found += _edits(one)
    return tuple(found)

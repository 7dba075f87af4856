"""Let the inputs of a plan emit what was recorded, and its outputs hand over what they get.

Operators keep their class, with its ports, properties and states. Only their callbacks are others, so nothing
is read from outside, and nothing is written there.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ridgeline.api.errors import RidgelineError
from ridgeline.api.operator import InputOperator, Operator, operator_type
from ridgeline.api.points import OutputPoint
from ridgeline.api.support.control import Control
from ridgeline.api.support.loops import DelayHead, DelayTail
from ridgeline.engine.container.exact_recording import Share
from ridgeline.plan.execution import Plan
from ridgeline.testing.shadow.moved_classes import moved, moved_batch

_CALLBACKS = (
    "setup",
    "activate",
    "begin_window",
    "end_window",
    "end_of_input",
    "handle_idle_time",
    "before_checkpoint",
    "checkpointed",
    "committed",
    "deactivate",
    "teardown",
    "publisher",
)
_AFTER = ("checkpointed", "committed", "publisher")
"""The callbacks of operators in the middle that reach outside once a window is committed."""
Got = dict[tuple[str, str], list[pa.RecordBatch]]
"""Batches by output operator and port."""


class Stage:
    """The surroundings of a run that is fed: where inputs find their tuples, and outputs leave theirs.

    `read`: returns the recorded parts of a window by operator. `names`: names of inputs in the recording by
    those in the plan, where they differ. `modules`: as of `moved`.
    """

    def __init__(
        self,
        read: Callable[[int], Mapping[str, Sequence[tuple[int, Share]]]],
        names: Mapping[str, str],
        modules: Mapping[str, str] | None = None,
    ) -> None:
        self._read = read
        self._names = names
        self.modules = modules or {}
        self._window = -1
        self._shares: Mapping[str, Sequence[tuple[int, Share]]] = {}
        self._got: dict[int, dict[tuple[str, int], tuple[int, dict[str, list[Any]]]]] = defaultdict(dict)

    def shares(self, window: int) -> Mapping[str, Sequence[tuple[int, Share]]]:
        """The recorded parts of a window."""
        if window != self._window:
            self._shares, self._window = self._read(window), window
        return self._shares

    def emit(self, operator: Any) -> None:
        """Have an input emit what its equal has emitted in this window. Raises RidgelineError."""
        context = operator.context
        name = self._names.get(context.name, context.name)
        shares = self.shares(context.window_id).get(name)
        if shares is None:
            msg = f"the application that runs has no input `{context.name}`, so nothing can be fed to it; "
            raise RidgelineError(msg + "give `--rename OLD=NEW` if it has another name")
        marks = [share.mark for _, share in shares if share.mark is not None]
        if len(marks) == len(shares):
            context.engine.marks_read = marks
        origin = ~int.from_bytes(hashlib.blake2b(name.encode(), digest_size=6).digest())
        for partition, share in shares:
            if partition % context.partitions != context.partition:
                continue
            for port, batches in share.ports.items():
                point = getattr(operator, port, None)
                if not isinstance(point, OutputPoint):
                    msg = f"the input `{context.name}` has no port `{port}` any more, so it cannot be fed"
                    raise RidgelineError(msg)
                for batch in batches:
                    opened = batch.opened()
                    times = opened.time_column or opened.times
                    point.emit_timed(moved_batch(opened.batch, self.modules), times)
                for control in share.controls.get(port, ()):
                    number = control.number + (partition << 20)
                    value = moved(control.value, self.modules)
                    point.pass_on_control(Control(origin, number, control.at_end, value))
        if all(share.finished for _, share in shares):
            operator.finish()

    def take(self, operator: Any, port: str, value: Any) -> None:
        """Keep what an output got: a tuple, or a batch. A new attempt at a window begins from nothing."""
        context = operator.context
        window, key = self._got[context.window_id], (context.name, context.partition)
        attempt, ports = window.get(key, (-1, {}))
        if attempt != context.container_attempt:
            ports = {}
            window[key] = context.container_attempt, ports
        ports.setdefault(port, []).append((getattr(operator, port).schema, value))

    def got(self, window: int) -> Got:
        """The batches that outputs got in a window, which are forgotten with this call."""
        found: Got = defaultdict(list)
        for (name, _partition), (_attempt, ports) in self._got.pop(window, {}).items():
            for port, values in ports.items():
                found[name, port] += _batches(values)
        return found


def _batches(values: Iterable[tuple[Any, Any]]) -> list[pa.RecordBatch]:
    """Tuples and batches of one port as batches, in order."""
    found: list[pa.RecordBatch] = []
    rows: list[Any] = []
    schema: Any = None
    for schema, value in values:
        if isinstance(value, pa.RecordBatch):
            if rows:
                found.append(schema.encode(rows))
                rows = []
            found.append(value)
        else:
            rows.append(value)
    if rows:
        found.append(schema.encode(rows))
    return found


def stand_in(plan: Plan, stage: Stage) -> Plan:
    """The plan with inputs that are fed and outputs that only hand over, without listeners and policies.

    Operators of the plan are changed in place.
    """
    kinds: dict[tuple[type, bool], type] = {}
    connected = {one.name: bool(one.outputs) for one in plan.logical.operators}
    pairs = [(one.name, one.operator) for one in plan.logical.operators]
    pairs += [(one.name, one.operator) for one in plan.physical.operators if not one.unifier]
    for name, operator in pairs:
        kind = type(operator)
        if isinstance(operator, (DelayHead, DelayTail)) or issubclass(kind, StandIn):
            continue
        key = kind, connected[name]
        if key not in kinds:
            kinds[key] = _made(kind, stage, is_output=not connected[name])
        operator.__class__ = kinds[key]
    logical = replace(plan.logical, listeners={}, policies=(), promises=())
    return replace(plan, logical=logical)


class StandIn:
    """Marks the classes that stand in for others."""


def _made(kind: Any, stage: Stage, *, is_output: bool) -> type[Operator]:
    """A class in the place of another one."""
    body: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    if issubclass(kind, InputOperator):
        body |= {name: getattr(InputOperator, name) for name in (*_CALLBACKS, "enumerator", "progress")}
        body |= {"is_paced": InputOperator.is_paced, **_feeding(stage)}
    elif is_output:
        body |= {name: getattr(Operator, name) for name in _CALLBACKS}
        for port in operator_type(kind).inputs.values():
            body |= dict.fromkeys(port.methods, _pass)
            taking = _taking(stage, port.name)
            body |= {name: taking for name in (port.process_name, port.process_batch_name) if name}
    else:
        changed = [name for name in _AFTER if getattr(kind, name) is not getattr(Operator, name)]
        if not changed:
            unchanged: type[Operator] = kind
            return unchanged
        body |= {name: getattr(Operator, name) for name in changed}
    return type(kind.__name__, (StandIn, kind), body)


def _feeding(stage: Stage) -> dict[str, Any]:
    """The methods of an input that emits what was recorded, once in each attempt."""

    def emit_tuples(self: Any) -> None:
        attempt = self.context.window_id, self.context.container_attempt
        if vars(self.context).get("_fed") == attempt:
            return
        self.context._fed = attempt  # noqa: SLF001  a mark of ours
        stage.emit(self)

    def emit_rows(self: Any, _batches: object) -> None:
        stage.emit(self)

    return {"emit_tuples": emit_tuples, "emit_rows": emit_rows}


def _taking(stage: Stage, port: str) -> Callable[[Any, Any], None]:
    def take(self: Any, value: Any) -> None:
        stage.take(self, port, value)

    return take


def _pass(_self: Operator, *_values: object) -> None:
    """Take what comes."""

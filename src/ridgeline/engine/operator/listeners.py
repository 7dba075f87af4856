"""Callbacks that an operator need not have: when it is idle, and before its state is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ridgeline.api.errors import RidgelineError
from ridgeline.api.operator import InputOperator, Operator

if TYPE_CHECKING:
    from ridgeline.engine.operator.runtime import OperatorRuntime


def overrides(operator: Operator, callback: str) -> bool:
    """True if an operator's class has a callback of its own."""
    return getattr(type(operator), callback) is not getattr(Operator, callback)


def before_checkpoint(runtime: OperatorRuntime) -> None:
    """Call `before_checkpoint`. Raises RidgelineError if it emits."""
    points = runtime.outputs.values()
    before = [point.pending for point in points]
    runtime.operator.before_checkpoint(runtime.context.window_id)
    if before != [point.pending for point in points]:
        msg = "`before_checkpoint` has emitted, when the window had ended; emit in `end_window`"
        raise RidgelineError(msg)


def is_idle(runtime: OperatorRuntime, *, came: bool, finished: bool) -> bool:
    """True if an operator has nothing to do in a window. `came`: tuples did; `finished`: before it."""
    operator = runtime.operator
    if isinstance(operator, InputOperator):
        done = finished or vars(operator)["_finished"]
        return not done and not any(point.pending for point in runtime.outputs.values())
    return not came

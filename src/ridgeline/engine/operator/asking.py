"""Asking an input operator for its tuples: once a window, or again and again one that waits for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ridgeline.api.operator import InputOperator
from ridgeline.api.points import OutputPoint
from ridgeline.api.push_input import PushInput

Call = Callable[[str, Callable[[], object]], object]
"""Calls a callback of this name."""


def ask(operator: InputOperator, outputs: Iterable[OutputPoint], call: Call, ends: float = math.inf) -> bool:
    """Call what emits the window's tuples; True if a `PushInput` had none.

    `ends`: when the window's width is over, by the clock of the operator's context (monotonic).
    """
    if not isinstance(operator, PushInput):
        call("emit_tuples", operator.emit_tuples)
        return False
    context, outputs = operator.context, tuple(outputs)
    count = 0
    while True:
        context.awake = False  # what comes from now on wakes it again
        call("emit_tuples", operator.emit_tuples)
        before, count = count, sum(point.pending for point in outputs)
        if operator.has_finished or count == before:
            break
        if count >= operator.window_tuples or context.clock.monotonic() >= ends:
            return False
    if not count and not operator.has_finished:
        context.idle_seconds = max(0.0, min(ends - context.clock.monotonic(), context.window_seconds))
        call("handle_idle_time", operator.handle_idle_time)
        count = sum(point.pending for point in outputs)
    return not count

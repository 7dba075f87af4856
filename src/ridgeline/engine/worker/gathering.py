"""Application windows of unifiers: tuples are kept until the application window ends, then delivered at once.

What a unifier keeps from `begin_window` to `end_window` then lies within one streaming window and needs no
state of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ridgeline.api.attributes import ProcessingMode
from ridgeline.api.operator import Operator, Unifier
from ridgeline.api.tuples import Tuples
from ridgeline.plan.physical import PhysicalOperator

Inputs = Mapping[str, Sequence[Tuples]]


def gathers(operator: Operator, window_count: int) -> bool:
    """True for a unifier that works at the borders of application windows of several streaming windows."""
    kind = type(operator)
    borders = kind.begin_window is not Operator.begin_window or kind.end_window is not Operator.end_window
    return window_count > 1 and borders and isinstance(operator, Unifier)


def gather(
    unifier: Any, spec: PhysicalOperator, inputs: Inputs, application_window: int, *, ends: bool
) -> Inputs:
    """What a unifier gets in this streaming window: all tuples if its application window ends, else nothing.

    `unifier`: its state must be at the window before.
    """
    waiting = unifier._waiting  # noqa: SLF001  declared for this module
    lossy = spec.attributes["processing_mode"] is ProcessingMode.AT_MOST_ONCE
    if lossy and waiting and waiting[0][0] != application_window:
        del waiting[:]  # the end of that application window failed, so it is lost
    ((port, schema),) = spec.inputs.items()
    if not ends:
        for part in inputs[port]:
            tuples = part.read_as(schema)
            waiting.append((application_window, tuples.batch, tuples.time_column or tuples.times))
        return {port: ()}
    before = [Tuples.of_batch(schema, batch, times) for _, batch, times in waiting]
    if before:
        del waiting[:]
    return {port: [*before, *inputs[port]]}

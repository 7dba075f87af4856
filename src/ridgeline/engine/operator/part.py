"""The contract of a feature of an operator's turn in a window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from ridgeline.api.clock import Timeline
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.points import OutputPoint
from ridgeline.engine.operator.instance import Instance
from ridgeline.plan.protocol import OperatorReport, WindowRequest

Inputs: TypeAlias = Mapping[str, Sequence[Tuples]]
"""The tuples that have come, by input port."""
Emitted: TypeAlias = Mapping[str, Sequence[Tuples]]
"""The tuples that an operator has emitted, by output port."""


@dataclass(slots=True)
class Turn:
    """One attempt of an operator at a window, as far as it has come.

    `ends`: `end_window` is called in it. `batches`: what Spark has read. `timeline`: the clock by which the
    ages of records are taken.
    """

    request: WindowRequest
    application_window: int
    ends: bool
    report: OperatorReport
    timeline: Timeline
    batches: Iterable[pa.RecordBatch] = ()
    inheriting: Sequence[OutputPoint] = ()
    """The outputs whose tuples inherit times, once `begin_window` has been called."""
    came: bool = False
    """Whether tuples have come."""
    left_out: list[str] = field(default_factory=list)
    """The errors of tuples that no error port has taken, as text."""


class TurnPart:
    """One feature of an operator's turn.

    Its hooks are called in the order of `parts.PARTS`, those that it overrides: others cost nothing. What
    one raises fails the window, so callbacks go through `instance.call` or `instance.timed`, which name them.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """The part of an operator, None if the operator does not use it. It may add cells."""
        return cls(instance)

    def start(self) -> None:
        """`setup` is called next."""

    def begin(self, turn: Turn) -> None:
        """A turn begins: cells are at the window before, no callback has been called."""

    def arrange(self, turn: Turn, inputs: Inputs) -> Inputs:
        """The tuples that the operator gets now, of those that have come."""
        return inputs

    def before_tuples(self, turn: Turn) -> None:
        """Outputs are open, and no tuple has been processed."""

    def processed(self, turn: Turn, tuples: Tuples) -> None:
        """A sequence of tuples has been processed."""

    def after_tuples(self, turn: Turn) -> None:
        """All tuples of the streaming window have been processed; it may still emit."""

    def end(self, turn: Turn) -> None:
        """The callbacks of the window are done; outputs are still open."""

    def report(self, turn: Turn, emitted: Emitted) -> None:
        """The turn is over and has gone well: say in its report what came of it."""

    def void(self, turn: Turn) -> None:
        """The operator has lost the window, of which an attempt has failed; cells are at the one before."""

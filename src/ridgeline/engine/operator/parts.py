"""The features of an operator's turn, in their order. A new one is a file with a part and an entry here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeVar

from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.state import ENDED, METRICS, WATERMARK
from ridgeline.engine.operator.ages import RecordAges
from ridgeline.engine.operator.application_window import BeginWindow, EndWindow, Gathering
from ridgeline.engine.operator.controls import ControlTuples, EmittedControls
from ridgeline.engine.operator.delivery import OrderByTime
from ridgeline.engine.operator.input import InputTuples
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.listeners import BeforeCheckpoint, Checks, IdleTime
from ridgeline.engine.operator.metrics import DeclaredMetrics
from ridgeline.engine.operator.part import Emitted, Inputs, Turn, TurnPart
from ridgeline.engine.operator.skipping import LeftOut
from ridgeline.engine.operator.timers import EndOfInput, Timers, TimeToLive, WindowStates
from ridgeline.engine.operator.watermarks import Watermark
from ridgeline.engine.state.slides import SLIDES

PARTS: Sequence[type[TurnPart]] = (
    Gathering,
    OrderByTime,
    BeginWindow,
    IdleTime,
    ControlTuples,
    Watermark,
    InputTuples,
    Timers,
    EndOfInput,
    EndWindow,
    DeclaredMetrics,
    WindowStates,
    BeforeCheckpoint,
    TimeToLive,
    RecordAges,
    Checks,
    LeftOut,
    EmittedControls,
)
"""The features of a turn, in the order in which each hook calls them (see `TurnPart`).

Keys whose time to live is over go before any callback, by the watermark of the window before. After the
tuples come timers by the new watermark and by the window's time. Then `end_of_input` is called, if no tuple
can come any more, and `end_window` is last. Metrics are read before the states of the window end, and keys
that `before_checkpoint` has set live from then on. Only then is looked at what was emitted.
"""
_CELLS = ENDED, WATERMARK, SLIDES, METRICS
"""The states that parts add, in the order in which they are written."""
Part = TypeVar("Part", bound=TurnPart)


class Parts:
    """Those that an operator uses, and its hooks: each with the parts only that override it."""

    start: Sequence[Callable[[], None]]
    begin: Sequence[Callable[[Turn], None]]
    arrange: Sequence[Callable[[Turn, Inputs], Inputs]]
    before_tuples: Sequence[Callable[[Turn], None]]
    processed: Sequence[Callable[[Turn, Tuples], None]]
    after_tuples: Sequence[Callable[[Turn], None]]
    end: Sequence[Callable[[Turn], None]]
    report: Sequence[Callable[[Turn, Emitted], None]]
    void: Sequence[Callable[[Turn], None]]

    def __init__(self, instance: Instance) -> None:
        self._used = [part for kind in PARTS if (part := kind.of(instance)) is not None]
        for hook in Parts.__annotations__:
            own = attrgetter(hook)
            bound = [own(part) for part in self._used if own(type(part)) is not own(TurnPart)]
            setattr(self, hook, bound)
        for name in _CELLS:
            if name in instance.cells:
                instance.cells[name] = instance.cells.pop(name)

    def find(self, kind: type[Part]) -> Part | None:
        """The part of a kind, None if the operator does not use it."""
        return next((part for part in self._used if isinstance(part, kind)), None)

"""The protocol between STRAM and containers: a request for each window, a report as the answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from ridgeline.api.enumerator import OffsetRange
from ridgeline.api.errors import Failure
from ridgeline.api.support.pickling import pickled_by_values
from ridgeline.measure.events import ContainerWindow, OperatorWindow, SourceProgress

StateVersion = tuple[str, ...]
"""The state files of an operator, in order: segments and a snapshot (or none), then deltas, one a window.

Small deltas get another name when their window is committed, which says where in the journal they lie.
"""

STORE = "the checkpoint's store"
"""A container names it in the place of a callback if the store did not answer: no operator is to blame."""
EXCHANGE = "the exchange between slots"
"""The same where slots cannot reach each other."""


class Budget(NamedTuple):
    """How many records all partitions of an input together may read in a window.

    `measured`: a window has shown the work of a record. Else it is for inputs that ask, and nothing is held
    back. `fixed`: the seconds that a window takes however few records it has.
    """

    records: float
    measured: bool = False
    fixed: float = 0.0


def holding(reports: Iterable[WindowReport]) -> dict[int, int]:
    """By physical id, the tuples that inputs keep for the windows after the one that these report."""
    return {one.window.operator: one.holds for report in reports for one in report.operators if one.holds}


def is_of_store(failure: Failure) -> bool:
    """Whether a container has waited for too long for the checkpoint's store, or that of an output."""
    return failure.callback == STORE or (failure.cluster and bool(failure.operator))


@pickled_by_values
@dataclass(frozen=True, slots=True)
class WindowRequest:
    """One attempt at a window, the same for all containers.

    `attempt` counts from 0; `epoch` counts the drivers that have owned the checkpoint. `final`: all inputs
    finish in this window, so open application windows end. `finished`: inputs that have finished before; a
    container knows by itself which have since. `states`: the version after window `window_id - 1` of each
    state; None: containers use the states that they hold. `samples`: the output ports whose last tuples the
    report must hold, and how many. All by physical id; ports also by name. `ends`: when the window's width is
    over, by the monotonic clock of the host that runs it; set there. `time`: when the window was first begun,
    by the driver's clock, in microseconds since 1970. `key_bits`: count how tuples are spread over keys, by
    so many bits of their hashes; 0: do not. `offsets`: what the inputs that have an `Enumerator` read, by
    logical name. `budgets`: how much inputs may read, by logical name; those that are missing have no bound.
    """

    window_id: int
    attempt: int
    epoch: int
    final: bool = False
    finished: frozenset[int] = frozenset()
    states: Mapping[int, StateVersion] | None = field(default_factory=dict)
    samples: Mapping[tuple[int, str], int] = field(default_factory=dict)
    ends: float = math.inf
    time: int = 0
    key_bits: int = 0
    offsets: Mapping[str, OffsetRange] = field(default_factory=dict)
    budgets: Mapping[str, Budget] = field(default_factory=dict)


@pickled_by_values
@dataclass(frozen=True, slots=True)
class KeyCounts:
    """How the tuples that one port has sent by key in one window are spread over keys.

    `sinks`: of each operator among whose partitions they were divided, one of these or of the unifiers before
    them. `cells`: the tuples by `hash & (2 ** bits - 1)`, as `packed_cells` writes them. `sampled`: so many
    of the `tuples` were looked at one by one. `heavy`: hash, text and number of the keys that most of these
    have.
    """

    sinks: tuple[int, ...]
    bits: int
    cells: bytes
    tuples: int
    sampled: int
    heavy: tuple[tuple[int, str, int], ...]


@pickled_by_values
@dataclass(slots=True)
class OperatorReport:
    """The report of one physical operator to STRAM at the end of a window.

    `window` and `source` are what measurement gets: the container fills them in. The other
    fields are for the run: what the operator handed over, the samples, and how its state changed.
    `change` names the change, "" for none. It is added to the state's version, or begins a new one if it
    `replaces` all of the state. `idle`: an input that waits for its tuples had none. `delays`: the tail of a
    delay operator has tuples for the next window. `holds`: tuples that an input keeps for the next windows.
    `metrics`: the values of those that the operator declares, by name, if an application window has ended.
    `changed`: the states that it changed, and the names of the classes that their values have.
    """

    window: OperatorWindow
    source: SourceProgress | None = None
    change: str = ""
    replaces: bool = False
    handed_over: list[object] = field(default_factory=list)
    samples: dict[str, bytes] = field(default_factory=dict)
    idle: bool = False
    delays: bool = False
    holds: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def begun(cls, request: WindowRequest, operator: int) -> Self:
        """A report without figures. The operator's runtime and its container fill them in."""
        return cls(OperatorWindow(0.0, request.window_id, request.attempt, operator))


@pickled_by_values
@dataclass(slots=True)
class WindowReport:
    """The report of one container to STRAM at the end of a window.

    `window` is what measurement gets: the container fills it in, STRAM adds `received`. `task_attempt`:
    how often Spark had begun a task before that read for it. `small_change`: name and content of what its
    operators changed, None if nothing or if it is in a file. `keys`: the keys that its operators have sent,
    if the request asks for them. `held_seconds`: how long it waited in its slot for other reports.
    """

    window: ContainerWindow
    operators: list[OperatorReport] = field(default_factory=list)
    task_attempt: int = 0
    small_change: tuple[str, bytes] | None = None
    keys: tuple[KeyCounts, ...] = ()
    held_seconds: float = 0.0

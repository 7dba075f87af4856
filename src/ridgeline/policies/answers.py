"""What a listener or a policy answers with: changes of the operator that it listens to, or of any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ridgeline.plan.edits import Edit


@dataclass(frozen=True, slots=True)
class Repartition:
    """Give the operator so many partitions. `note`: why, for the log. `partitioner`: another one, too."""

    partitions: int
    note: str = ""
    partitioner: Any = None


@dataclass(frozen=True, slots=True)
class SetProperty:
    """Give a property of the operator a value. `note`: why, for the log."""

    property: str
    value: Any
    note: str = ""


@dataclass(frozen=True, slots=True)
class SetAttribute:
    """Give an attribute of the operator a value. `note`: why, for the log."""

    attribute: str
    value: Any
    note: str = ""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a decision is to bring: `figure` goes from `before` to `after`. `operator` "": of the application.

    `figure`: `latency_p99_seconds`, `latency_p50_seconds`, `throughput`, `utilization`, `backlog`, ... `unit`
    for the log: `s`, `tuples/s`, `%`. `within_seconds`: when it is to be seen, after the change is applied.
    """

    figure: str
    before: float
    after: float
    operator: str = ""
    unit: str = ""
    within_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Decision:
    """Changes that belong together: all at one window, or none. `note`: why, in a sentence.

    `expects` is compared with what came of it. `undo`: edits that take it back, if it did not help.
    """

    edits: tuple[Edit, ...]
    note: str
    expects: tuple[Expectation, ...] = ()
    undo: tuple[Edit, ...] = ()


Answer = Repartition | SetProperty | SetAttribute | Decision

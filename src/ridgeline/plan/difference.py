"""How a plan differs from the one that it follows: what a change does, for people and for the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ridgeline.plan.execution import Plan
from ridgeline.plan.state_moves import StateMove

_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Altered:
    """A value that differs. `where` as errors name it: `sum.limit`, `sum.port.input.partition_parallel`.

    `before` and `after`: plain values; secrets are masked.
    """

    where: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """What differs between two plans, of which the second follows the first (`succeed`).

    Logical operators and streams are named. `renamed`: new names by old ones. `replaced`: of another class.
    `repartitioned`: with the numbers of partitions. `sinks_added` and `sinks_removed`, `stream:
    operator.port`, are of streams in both plans.

    Physical operators and containers have ids. `made_anew`: another instance over the same state. `set`: the
    living instance gets other properties. `containers_changed`: with other operators, routes or attributes.

    `moves`: the states that move. `aligned`: the new plan may begin with window w if w is a multiple
    of it.
    """

    versions: tuple[int, int]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()
    repartitioned: tuple[Altered, ...] = ()
    properties: tuple[Altered, ...] = ()
    attributes: tuple[Altered, ...] = ()
    streams_added: tuple[str, ...] = ()
    streams_removed: tuple[str, ...] = ()
    sinks_added: tuple[str, ...] = ()
    sinks_removed: tuple[str, ...] = ()
    started: tuple[int, ...] = ()
    stopped: tuple[int, ...] = ()
    made_anew: tuple[int, ...] = ()
    set: tuple[int, ...] = ()
    containers_started: tuple[int, ...] = ()
    containers_stopped: tuple[int, ...] = ()
    containers_changed: tuple[int, ...] = ()
    containers_kept: tuple[int, ...] = ()
    moves: tuple[StateMove, ...] = ()
    aligned: int = 1

    def lines(self) -> list[str]:
        """The difference as lines of text, as `--dry-run` prints it."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """The difference as JSON values."""
        raise NotImplementedError


def difference(
    old: Plan,
    new: Plan,
    *,
    renamed: Mapping[str, str] = _NOTHING,
    moves: Sequence[StateMove] = (),
) -> PlanDifference:
    """How `new` differs from `old`, which it follows (`succeed`). `renamed`: new names by old ones."""
    raise NotImplementedError


def aligned_every(old: Plan, new: Plan, moves: Sequence[StateMove] = ()) -> int:
    """With which windows the new plan may begin: those whose ids are multiples of this.

    Before them the application windows of all operators that are touched are at their ends. So what they
    keep for the time of an application window is empty. Raises ChangeError if there is no such window.
    """
    raise NotImplementedError

"""Which states must move when a plan follows another one: by partition, or to another name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ridgeline.plan.execution import Plan

_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class StateMove:
    """The states of an operator's partitions become those of its partitions in the new plan.

    `operator` is the name in the new plan; `port` is that of the unifiers whose states move, "" for the
    operator itself. `sources`: the state keys (`PhysicalOperator.state_key`) of what is there, by partition.
    `targets`: the physical ids in the new plan, by partition. With one source and one target the state is
    taken over as it is.
    """

    operator: str
    port: str
    sources: tuple[str, ...]
    targets: tuple[int, ...]


def moves(
    held: Iterable[str],
    new: Plan,
    *,
    old: Plan | None = None,
    dropped: Collection[str] = (),
    renamed: Mapping[str, str] = _NOTHING,
) -> tuple[StateMove, ...]:
    """What must move so that states that are held become those of a new plan.

    `held`: the keys of the states that there are, as a manifest has them. What keeps its key is left out.
    `old`: the plan that they are of, where it is known: then partitions that are divided otherwise move too.
    `dropped`: names of operators whose state is not wanted. `renamed`: new names by old ones.

    Raises ValidationError with a fault for each state that would be lost, and for each that cannot move.
    """
    raise NotImplementedError

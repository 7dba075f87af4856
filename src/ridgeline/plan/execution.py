"""The execution plan: which operators run together in a container, and which containers in a stage."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.physical import PhysicalPlan
from ridgeline.plan.region import IDS


@dataclass(frozen=True, slots=True)
class Container:
    """The operators (physical ids, in topological order) that one task runs together.

    `id` is its own in a run, as that of an operator is. A first plan counts from 0 over all stages, in order.
    """

    id: int
    stage: int
    operators: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """All containers, stage by stage.

    A container gets blocks from containers of earlier stages only; each of stage 0 holds one input operator.
    """

    containers: tuple[Container, ...]

    @property
    def stages(self) -> list[list[Container]]:
        """The containers between two shuffles, of each stage. Regions that are joined have their own."""
        return [list(boxes) for _, boxes in groupby(self.containers, lambda box: (box.id // IDS, box.stage))]

    @property
    def homes(self) -> dict[int, int]:
        """The container of each operator, by their ids."""
        return {operator: container.id for container in self.containers for operator in container.operators}


@dataclass(frozen=True, slots=True)
class Plan:
    """The three plans of an application; `version` counts changes.

    `next_ids`: the least ids of an operator and of a container that no version before has had. `passed_over`:
    how many numbers of windows rewinds have left out so far.
    """

    logical: LogicalPlan
    physical: PhysicalPlan
    execution: ExecutionPlan
    version: int = 0
    next_ids: tuple[int, int] = (0, 0)
    passed_over: int = 0

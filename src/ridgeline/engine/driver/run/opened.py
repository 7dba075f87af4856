"""One plan that is open: what windows have of it, and no other plan knows of.

A restart, a live change, its taking back and the start after a rewind are the same. `OpenPlan` is made anew
of a plan and of what the last commit has left. Executor, inputs and outputs are warm: they stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.state_moves import Beginning
from ridgeline.engine.driver.checkpoint.state_repair import StateRepair
from ridgeline.engine.driver.execution import WindowExecutor
from ridgeline.engine.driver.inputs import Inputs
from ridgeline.engine.driver.outputs import Outputs
from ridgeline.plan.change.state_schemas import Schemas
from ridgeline.plan.change.succession import divisions
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion, WindowReport
from ridgeline.stram.compaction import Repaired
from ridgeline.stram.master import Master


@dataclass(frozen=True, slots=True)
class Warm:
    """What stays when a plan follows another one. Parts of it that both plans have stay open."""

    checkpoint: Checkpoint
    executor: WindowExecutor
    inputs: Inputs
    outputs: Outputs


class OpenPlan:
    """A plan that goes on from where the last commit has left states, inputs and outputs.

    `repairs`: state files that were broken, and what stands in for them: the master has to hear of it.
    `states`: their versions, by state key, as of the last commit; a commit says which of them change.
    """

    def __init__(
        self, plan: Plan, begin: Beginning, warm: Warm, before: Master | None = None, *, new: bool = False
    ) -> None:
        """Open it. Raises what any part of it does: the plan before has to be opened again then.

        `before`: the master of the plan that ran until now, no window of which is under way. `new`: outputs
        that cannot be opened are not waited for.
        """
        checkpoint, executor = warm.checkpoint, warm.executor
        self.plan = plan
        self.begin = begin
        self.repair = StateRepair(plan, checkpoint)
        self.repairs: Sequence[Repaired]
        self.repairs, sizes = self.repair.recover(
            {one: begin.states[one] for one in begin.moved if one in begin.states}
        )
        # Outputs first: where one cannot be opened, inputs keep what they have read and nobody has taken.
        warm.outputs.open(plan, begin.publishers, checkpoint.committed, new=new)
        warm.inputs.open(plan, begin.inputs)
        if before is not None:
            executor.change(plan)
        self.state_keys = {operator.id: operator.state_key for operator in plan.physical.operators}
        self.states: Mapping[str, StateVersion] = {
            self.state_keys[one]: version for one, version in begin.states.items()
        }
        self.divisions = divisions(plan)
        self.schemas = Schemas(plan.physical.operators, begin.schemas)
        self.master = Master(
            plan,
            epoch=checkpoint.epoch,
            committed=checkpoint.committed,
            states=begin.states,
            sizes=sizes,
            finished=begin.finished,
            capacity=executor.capacity,
            groups=warm.outputs.group_windows,
            bounded=executor.waits,
            follows=before,
        )

    def note(self, reports: Iterable[WindowReport]) -> None:
        """Note which states hold something from now on, and of what classes."""
        for report in reports:
            for one in report.operators:
                if one.changed:
                    key = self.state_keys[one.window.operator].rsplit("/", 2)[0]
                    self.schemas.note(key, one.changed)

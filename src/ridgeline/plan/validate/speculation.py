"""Check what cannot be run twice where `speculation` runs windows again that have not failed."""

from __future__ import annotations

from ridgeline.api.operator import SparkSource
from ridgeline.api.push_input import PushInput
from ridgeline.plan.draft import Draft, Faults


def check_speculation(draft: Draft, faults: Faults) -> None:
    """Refuse `speculation` beside inputs that lose tuples by it, or whose windows wait for Spark."""
    if draft.attributes.get("speculation") is None:
        return
    for operator in draft.operators:
        if isinstance(operator.operator, PushInput):
            what = (
                "with `speculation` windows begin again that have not failed: what it took for them is lost"
            )
            faults.add(operator.name, what, f"leave `speculation` out, or read by another input: {_OTHER}")
        elif isinstance(operator.operator, SparkSource):
            what = "its windows take as long as Spark reads, so `speculation` cannot tell a slot that is late"
            faults.add(operator.name, what, f"leave `speculation` out, or read by another input: {_OTHER}")


_OTHER = "one that asks its source again from a position in its state"

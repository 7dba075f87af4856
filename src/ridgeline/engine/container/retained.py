"""Which operators of a container go on when the plan changes, and what of them is set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.plan.change.succession import changed_properties, goes_on
from ridgeline.plan.container_spec import ContainerSpec


def going_on(old: ContainerSpec, new: ContainerSpec) -> dict[int, Mapping[str, Any]]:
    """The operators whose living instances serve as those of the new spec, each with what is to be set.

    One that gets a watermark, or has none any more, is made anew: its state is another one. So are all where
    the run was rewound in between.
    """
    before = {one.id: one for one in old.operators}
    alike = [(one.recording_level, one.window_seconds, one.passed_over) for one in (old, new)]
    if alike[0] != alike[1]:
        return {}
    return {
        one.id: changed_properties(before[one.id], one)
        for one in new.operators
        if one.id in before
        and goes_on(before[one.id], one)
        and (one.id in old.watermarks) == (one.id in new.watermarks)
    }

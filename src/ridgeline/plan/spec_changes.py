"""The edits that make one application of another: what `ridgeline change APP --spec FILE` asks for."""

from __future__ import annotations

from collections.abc import Mapping

from ridgeline.api.application import Application
from ridgeline.api.errors import ValidationError
from ridgeline.plan.change.kinds import find_edits
from ridgeline.plan.change.plan_pair import PlanPair
from ridgeline.plan.edits import Edit
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.validation import validate

_NOTHING: Mapping[str, object] = {}


def edits_between(
    old: LogicalPlan,
    new: Application,
    properties: Mapping[str, object] = _NOTHING,
    attributes: Mapping[str, object] = _NOTHING,
) -> tuple[Edit, ...]:
    """The edits after which the application of a plan is planned like a new one; none if they are alike.

    `properties` and `attributes` are for the new one, as of `validate`: what the run was started with. An
    operator with another name is another operator: what was renamed is removed and added. Raises
    ValidationError for faults of the new application, and for differences that no edit can make.
    """
    pair = PlanPair(old, validate(new, properties, attributes), new)
    edits = tuple(find_edits(pair))
    pair.check()
    if pair.faults:
        raise ValidationError(old.application, pair.faults)
    return edits

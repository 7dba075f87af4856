"""Properties of random edits of random applications, and of the plans that follow each other."""

from typing import Any

from hypothesis import given

from ridgeline.api import Application, ValidationError
from ridgeline.plan import Plan, plan_application
from ridgeline.plan.specification import edits_between
from support.plan.random_applications import applications, many, plan_of


def planned(app: Application, **given: Any) -> Plan | str:
    """The plan, or the text of all faults."""
    try:
        return plan_application(app, **given)
    except ValidationError as error:
        return str(error)


def picture(plan: Plan | str) -> Any:
    """A plan without what depends on the order of adding."""
    if isinstance(plan, str):
        return plan
    operators = {
        one.name: (
            type(one.operator),
            {**one.attributes, "partitioner": repr(one.attributes["partitioner"])},
            one.ports,
            one.unifier_attributes,
            one.divided,
        )
        for one in plan.logical.operators
    }
    streams = {
        one.name: (str(one.source), dict(zip(map(str, one.sinks), one.localities, strict=True)))
        for one in plan.logical.streams
    }
    return operators, streams, plan.logical.attributes


@many
@given(applications(), applications())
def test_edits_between_any_two_applications(one: Application, other: Application) -> None:
    old, new = plan_of(one), plan_of(other)
    found = edits_between(old.logical, other)
    assert picture(planned(one, edits=found)) == picture(new)

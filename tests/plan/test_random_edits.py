"""Properties of random edits of random applications, and of the plans that follow each other."""

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from ridgeline.api import Application, ValidationError
from ridgeline.plan import Plan, plan_application, validate
from ridgeline.plan.change.editing import edited
from ridgeline.plan.change.state_moves import plan_states
from ridgeline.plan.change.succession import succeed
from ridgeline.plan.edits import Repartition
from ridgeline.plan.specification import edits_between
from ridgeline.plan.transition import transition
from support.plan.random_applications import applications, many, plan_of
from support.plan.random_edits import edits


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
@given(applications(), st.data())
def test_each_state_goes_to_one_place(app: Application, data: st.DataObject) -> None:
    """Of edits that can be made: all states stay, move or end; no operator gets two."""
    old = plan_of(app)
    wanted = data.draw(edits(app))
    new = planned(app, edits=wanted)
    assume(isinstance(new, Plan))
    assert isinstance(new, Plan)
    change = transition(old, new, wanted)
    states = change.states
    held = [one.state_key for one in old.physical.operators]
    sources = [key for move in states.moves for key in move.sources]
    assert sorted([*states.stays, *sources, *states.ends]) == sorted(held)
    targets = [one for move in states.moves for one in move.targets]
    assert len({*targets, *states.stays.values()}) == len(targets) + len(states.stays)
    for key, target in states.stays.items():
        assert change.plan.physical.operator(target).state_key == key
    for move in states.moves:
        of = [change.plan.physical.operator(one) for one in move.targets]
        if len(move.sources) == 1 == len(of):
            assert move.sources[0].split("/")[1:] == [str(of[0].partition), str(of[0].partitions)]
        else:
            assert [one.partition for one in of] == list(range(of[0].partitions))
            assert {one.name for one in of} == {move.operator}
    found = change.difference
    assert set(found.stopped) == {one.id for one in old.physical.operators} - {
        one.id for one in change.plan.physical.operators
    }
    assert change.aligned == 1
    assert found.to_json()["versions"] == [0, 1]
    assert all(isinstance(line, str) for line in found.lines())


@many
@given(applications(), st.integers(1, 5), st.data())
def test_there_and_back(app: Application, count: int, data: st.DataObject) -> None:
    """A repartition that is undone leads to the plan of before; what it has not touched kept its ids."""
    old = plan_of(app)
    name = data.draw(st.sampled_from([one.name for one in old.logical.operators]))
    there = planned(app, edits=[Repartition(name, count)])
    assume(isinstance(there, Plan))
    assert isinstance(there, Plan)
    middle = succeed(old, there)
    back = succeed(middle, old)
    assert picture(back) == picture(old)
    both = {one.id for one in old.physical.operators} & {one.id for one in middle.physical.operators}
    assert both <= {one.id for one in back.physical.operators}
    touched = {one.name for one in old.physical.operators if one.id not in both}
    followers = {
        sink.operator for stream in old.logical.streams for sink in stream.sinks if sink.port == "followed"
    }
    if name not in followers and count == len(old.logical.operator(name).divided):
        assert not touched
    held = [one.state_key for one in old.physical.operators]
    assert not plan_states(held, back, old=old).moves


@many
@given(applications(), st.data())
def test_edits_between_two_applications(app: Application, data: st.DataObject) -> None:
    """The edits that are found between an application and an edited one make one of the other."""
    old = plan_of(app)
    wanted = data.draw(edits(app))
    new = planned(app, edits=wanted)
    assume(isinstance(new, Plan))
    found = edits_between(old.logical, edited(app, wanted))
    assert picture(planned(app, edits=found)) == picture(new)
    assert not edits_between(validate(app, edits=found), edited(app, wanted))


@many
@given(applications(), applications())
def test_edits_between_any_two_applications(one: Application, other: Application) -> None:
    old, new = plan_of(one), plan_of(other)
    found = edits_between(old.logical, other)
    assert picture(planned(one, edits=found)) == picture(new)

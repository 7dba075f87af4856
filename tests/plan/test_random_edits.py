"""Properties of random edits of random applications, and of the plans that follow each other."""

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from ridgeline.api import Application, ValidationError
from ridgeline.plan import Plan, plan_application, to_dict, validate
from ridgeline.plan.change.editing import edited
from ridgeline.plan.change.state_moves import plan_states
from ridgeline.plan.change.succession import following_ids, is_same, succeed
from ridgeline.plan.edits import Edit, RemoveOperator, Repartition, edit_of, edit_to_json
from ridgeline.plan.spec_changes import edits_between
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


def alone(app: Application, wanted: list[Edit], inside: Plan | str) -> Plan | str:
    """The plan of the edited application; if edits cannot be made, the text that has their faults too."""
    try:
        made = edited(app, wanted)
    except ValidationError as error:
        return inside if all(str(fault) in str(inside) for fault in error.faults) else str(error)
    return planned(made)


@many
@given(applications(), st.data())
def test_edits_of_a_plan_are_edits_of_the_application(app: Application, data: st.DataObject) -> None:
    """In both ways the same plan, or the same faults of edits; the application is left as it was."""
    before = to_dict(plan_of(app))
    wanted = data.draw(edits(app))
    assert [edit_of(edit_to_json(one)) for one in wanted] == wanted
    inside = planned(app, edits=wanted)
    kept = planned(app, kept=wanted)
    assert picture(inside) == picture(kept)
    assert picture(inside) == picture(alone(app, wanted, inside))
    assert to_dict(plan_of(app)) == before


def check_succession(old: Plan, new: Plan, planned_anew: Plan, used: set[int]) -> None:
    """What holds for a plan that follows another one. `used`: the ids that the run has had."""
    before = {one.id: one for one in old.physical.operators}
    ids = [one.id for one in new.physical.operators]
    assert len(set(ids)) == len(ids)
    for one, fresh in zip(new.physical.operators, planned_anew.physical.operators, strict=True):
        assert (one.title, one.keys, one.state_key) == (fresh.title, fresh.keys, fresh.state_key)
        assert new.physical.operator(one.id) is one
        assert is_same(before[one.id], one) if one.id in before else one.id not in used
    for earlier in old.physical.operators:
        same = [one for one in new.physical.operators if is_same(earlier, one)]
        assert [one.id for one in same] == [earlier.id] * len(same)
    names = {one.id: one.title for one in new.physical.operators}
    fresh_names = {one.id: one.title for one in planned_anew.physical.operators}
    assert [
        (one.name, names[one.source], one.source_port, names[one.sink], one.sink_port, one.route)
        for one in new.physical.streams
    ] == [
        (one.name, fresh_names[one.source], one.source_port, fresh_names[one.sink], one.sink_port, one.route)
        for one in planned_anew.physical.streams
    ]
    boxes = [box.id for box in new.execution.containers]
    assert len(set(boxes)) == len(boxes)
    assert [[names[one] for one in box.operators] for box in new.execution.containers] == [
        [fresh_names[one] for one in box.operators] for box in planned_anew.execution.containers
    ]
    homes = {one: box.id for box in old.execution.containers for one in box.operators}
    known = {box.id for box in old.execution.containers}
    for box in new.execution.containers:
        shared = {homes[one] for one in box.operators if one in homes}
        assert box.id in shared if box.id in known else box.id >= following_ids(old)[1]
    assert new.version == old.version + 1
    assert min(following_ids(new)) >= 1
    assert all(left <= right for left, right in zip(following_ids(old), new.next_ids, strict=True))


@many
@given(st.lists(applications(), min_size=2, max_size=4))
def test_plans_that_follow_each_other(apps: list[Application]) -> None:
    """What stays keeps its id, what is new gets one that no plan before has had, nothing else changes."""
    fresh = [plan_of(app) for app in apps]
    plan, used, boxes = fresh[0], set[int](), set[int]()
    for following in fresh[1:]:
        used |= {one.id for one in plan.physical.operators}
        boxes |= {box.id for box in plan.execution.containers}
        new = succeed(plan, following)
        check_succession(plan, new, following, used)
        added = {box.id for box in new.execution.containers} - {box.id for box in plan.execution.containers}
        assert not added & boxes
        plan = new
    again = succeed(plan, fresh[-1])
    assert [one.id for one in again.physical.operators] == [one.id for one in plan.physical.operators]
    assert again.execution == plan.execution


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


@many
@given(applications(), st.data())
def test_what_is_removed_is_gone(app: Application, data: st.DataObject) -> None:
    plan = plan_of(app)
    name = data.draw(st.sampled_from([one.name for one in plan.logical.operators]))
    made = edited(app, [RemoveOperator(name)])
    left = {id(added.operator) for added in made.operators}
    assert name not in {added.name for added in made.operators}
    for stream in made.streams:
        assert stream.sinks
        assert all(id(end.operator) in left for end in (stream.source, *stream.sinks))

"""Edits that others undo are not kept: what is left makes the same application."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ridgeline.api import Application, ValidationError
from ridgeline.plan import Plan, plan_application, to_dict
from ridgeline.plan.change.shorter_edits import shortened
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveSink,
    RemoveStream,
    RenameOperator,
    Repartition,
    SetAttribute,
    SetProperty,
)
from support.depth import deep
from support.plan.random_applications import applications, many
from support.plan.random_edits import CLASSES, edits


def planned(app: Application, kept: list[Edit]) -> Plan | str:
    """The plan, or the text of all faults."""
    try:
        return plan_application(app, kept=kept)
    except ValidationError as error:
        return str(error)


def undone(edit: Edit) -> list[Edit]:
    """What takes back what an edit has added."""
    match edit:
        case AddOperator(name):
            return [RemoveOperator(name)]
        case AddStream(name):
            return [RemoveStream(name)]
        case AddSink(stream, sink):
            return [RemoveSink(stream, sink)]
    return []


@st.composite
def additions(draw: st.DrawFn, number: int, streams: list[str]) -> list[Edit]:
    """Perhaps an operator, what is said of it, and how it is fed."""
    name, found = f"added{number}", list[Edit]()
    if draw(st.booleans()):
        found.append(AddOperator(name, {"class": CLASSES[0]}))
        if streams and draw(st.booleans()):
            found.append(AddSink(draw(st.sampled_from(streams)), f"{name}.keyed"))
        if draw(st.booleans()):
            found.append(AddStream(f"fed{number}", "root0.out", (f"{name}.in_turn",)))
        if draw(st.booleans()):
            found.append(Repartition(name, 2))
    return found


@settings(many, max_examples=deep(10))
@given(applications(), st.data())
def test_what_is_left_makes_the_same_plan(app: Application, data: st.DataObject) -> None:
    wanted: list[Any] = []
    streams = [stream.name for stream in app.streams]
    for number, edit in enumerate(data.draw(edits(app, most=4))):
        wanted.append(edit)
        wanted += data.draw(additions(number, streams))
        back = [one for earlier in wanted for one in undone(earlier)]
        wanted += data.draw(st.lists(st.sampled_from(back), max_size=2, unique_by=str)) if back else []
    plan = planned(app, kept=wanted)
    assume(isinstance(plan, Plan))
    left = shortened(wanted)

    assert len(left) <= len(wanted)
    other = planned(app, kept=left)
    assert isinstance(other, Plan), (wanted, left, other)
    assert to_dict(other) == to_dict(plan), (wanted, left)
    assert shortened(left) == left


QUERY = [AddOperator("q", {}), AddSink("prices", "q.first")]
OTHER = [AddOperator("r", {}), AddSink("prices", "r.first")]
CHAIN = [AddOperator("q", {}), AddStream("more", "a.out", ("q.input",))]


@pytest.mark.parametrize(
    ("whole", "left"),
    [
        ([*QUERY, RemoveOperator("q")], []),
        ([*QUERY, *OTHER, RemoveOperator("q")], OTHER),
        ([*QUERY, SetProperty("q", "x", 1), Repartition("q", 2), RemoveOperator("q")], []),
        ([*QUERY, RemoveOperator("q"), *QUERY, RemoveOperator("q")], []),
        ([Repartition("a", 2), *QUERY, RemoveOperator("q"), Repartition("a", 3)], [Repartition("a", 3)]),
    ],
)
def test_what_is_undone_goes(whole: list[Any], left: list[Any]) -> None:
    assert shortened(whole) == left


@pytest.mark.parametrize(
    "whole",
    [
        [RemoveOperator("q"), *QUERY],
        [AddSink("s", "b.input"), RemoveSink("s", "b.input")],
        [*QUERY, RenameOperator("q", "r"), RemoveOperator("r")],
        [*QUERY, AddStream("out", "a.out", ("q.second", "b.input")), RemoveOperator("q")],
        [*CHAIN, RemoveOperator("q")],
        [*CHAIN, AddSink("more", "b.input"), RemoveOperator("q")],
        [*CHAIN, RemoveOperator("q"), AddSink("more", "b.input")],
        [*QUERY, SetAttribute("a", "partitioned_as", "q"), RemoveOperator("q")],
        [*QUERY, RemoveSink("prices", "b.input"), RemoveOperator("q")],
    ],
)
def test_what_others_may_need_stays(whole: list[Any]) -> None:
    assert shortened(whole) == whole

"""Decoupled streams and regions in specifications: read, written, and read back."""

import json

import pytest

from ridgeline import ValidationError
from ridgeline.plan import plan_application
from ridgeline.plan.edits import RemoveOperator, RenameOperator, Repartition, SetProperty
from ridgeline.plan.specification import edits_between, read_specification
from ridgeline.plan.validation import validate
from ridgeline.plan.written import specification_of_plan

SPEC = {
    "application": "dice",
    "window": "200ms",
    "operators": {
        "dice": {"class": "ridgeline.operators.RandomEventGenerator"},
        "fast": {"class": "ridgeline.testing.CountSink"},
        "slow": {"class": "ridgeline.testing.CountSink"},
    },
    "streams": {
        "rolls": {
            "from": "dice.integer_data",
            "to": ["fast.input", {"port": "slow.input", "decoupled": True}],
            "keep": "2h",
        },
    },
    "regions": {"back": {"operators": ["slow"], "window": "1s", "attributes": {"windows_in_flight": 2}}},
}


LISTENER = {"class": "examples.policy.MoreWhenLate"}
ALL = {"from": "dice.integer_data", "to": ["fast.input", "slow.input"], "decoupled": True}


def spec(**changed):
    document = json.loads(json.dumps(SPEC))
    return {**document, **changed}


def regions(document):
    return validate(read_specification(document, "dice")).regions


def test_a_sink_that_is_decoupled_is_in_the_region_that_is_named():
    front, back = regions(spec())
    assert (front.name, front.operators) == ("dice", ("dice", "fast"))
    assert (back.name, back.operators) == ("back", ("slow",))
    assert (back.window, back.attributes) == ("1s", {"windows_in_flight": 2})
    (edge,) = back.reads
    assert (edge.stream, edge.keep, edge.writer_region) == ("rolls", "2h", "dice")


def test_a_stream_is_decoupled_at_all_sinks():
    found = regions(spec(streams={"rolls": ALL}, regions={}))
    assert [region.name for region in found] == ["dice", "fast", "slow"]
    assert {edge.keep for region in found for edge in region.reads} == {"1h"}


def test_edits_keep_streams_decoupled():
    app = read_specification(spec(), "dice")
    edits = [SetProperty("dice", "maximum", 6), RenameOperator("slow", "slower"), Repartition("fast", 2)]
    logical = plan_application(app, {}, {}, edits=edits).logical
    written = specification_of_plan(logical)
    assert written["streams"]["rolls"]["to"] == ["fast.input", {"port": "slower.input", "decoupled": True}]
    assert written["regions"]["back"]["operators"] == ["slower"]
    removed = plan_application(app, {}, {}, edits=[RemoveOperator("fast")]).logical
    assert specification_of_plan(removed)["streams"]["rolls"]["decoupled"] is True
    assert [region.name for region in removed.regions] == ["dice", "back"]


def test_a_plan_is_written_as_it_was_read():
    for document in (spec(), spec(streams={"rolls": ALL}, regions={})):
        logical = plan_application(read_specification(document, "dice")).logical
        written = specification_of_plan(logical)
        assert validate(read_specification(written, "dice")).regions == logical.regions
        assert written["streams"]["rolls"].get("keep") == document["streams"]["rolls"].get("keep")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"regions": {"back": {"operators": ["slwo"]}}}, "did you mean `slow`"),
        ({"regions": {"back": {"operators": ["slow"], "widow": "1s"}}}, "did you mean `window`"),
        ({"regions": {"back": {"operators": []}}}, "names no operator"),
        ({"regions": {"back": {"operators": ["slow", "fast"]}}}, "decoupled streams lie between them"),
        (
            {"regions": {"back": {"operators": ["slow"], "attributes": {"windows_in_fligth": 2}}}},
            "windows_in_flight",
        ),
        ({"regions": {"back": {}}}, "`operators` is missing"),
    ],
)
def test_faults(change, text):
    with pytest.raises(ValidationError, match=text):
        validate(read_specification(spec(**change), "dice"))


DECIDED = {
    "policies": [{"class": "ridgeline.policies.SkewPolicy"}],
    "promises": [{"kind": "latency", "operator": "slow", "p99": "2s"}],
    "operators": {**SPEC["operators"], "slow": {**SPEC["operators"]["slow"], "stats_listeners": [LISTENER]}},
}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({}, None),
        (
            {"streams": {"rolls": {**ALL, "decoupled": False}}, "regions": {}},
            "stream `rolls` is decoupled at",
        ),
        ({"streams": {"rolls": {**SPEC["streams"]["rolls"], "keep": "3h"}}}, "`keep='2h'` of stream `rolls`"),
        (
            {"regions": {"back": {"operators": ["slow"], "window": "3s"}}},
            "window and attributes of region `back` cannot be changed",
        ),
        (
            {"policies": [{**DECIDED["policies"][0], "properties": {"ratio": 3}}]},
            "policies cannot be changed",
        ),
        ({"policies": []}, "policies cannot be changed"),
        ({"promises": []}, "promises cannot be changed"),
        ({"promises": [{**DECIDED["promises"][0], "p99": "3s"}]}, "promises cannot be changed"),
        ({"operators": SPEC["operators"]}, "stats listeners cannot be changed"),
    ],
)
def test_a_difference_that_no_edit_makes_is_a_fault(change, what):
    logical = plan_application(read_specification(spec(**DECIDED), "dice")).logical
    new = read_specification(spec(**DECIDED | change), "dice")
    if what is None:
        assert edits_between(logical, new) == ()
    else:
        with pytest.raises(ValidationError, match=what):
            edits_between(logical, new)

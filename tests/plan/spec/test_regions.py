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


def test_regions_cannot_change_while_they_run():
    logical = plan_application(read_specification(spec(), "dice")).logical
    coupled = {"rolls": {"from": "dice.integer_data", "to": ["fast.input", "slow.input"]}}
    with pytest.raises(ValidationError, match=r"stream `rolls` is decoupled at `slow.input`: regions"):
        edits_between(logical, read_specification(spec(streams=coupled, regions={}), "dice"))
    other = {"back": {"operators": ["slow"], "window": "3s"}}
    with pytest.raises(ValidationError, match="window and attributes of region `back` cannot be changed"):
        edits_between(logical, read_specification(spec(regions=other), "dice"))
    assert edits_between(logical, read_specification(spec(), "dice")) == ()

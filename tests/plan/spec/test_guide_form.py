"""The forms of Apex's application guide."""

import json

import pytest

from ridgeline.api.errors import ValidationError
from ridgeline.plan import validate
from ridgeline.plan.spec.form import Form
from ridgeline.plan.spec.texts import read_document
from ridgeline.plan.specification import read_specification
from support.plan.faulty import are

HERE = "support.plan.specified"
LISTS = {
    "description": "numbers, as the guide writes them",
    "operators": [
        {
            "name": "in",
            "class": f"{HERE}.Source",
            "properties": {"count": 5},
            "attributes": {"PARTITIONS": 2},
        },
        {"name": "out", "class": f"{HERE}.Sink", "properties": {"name": "x"}},
    ],
    "streams": [
        {
            "name": "numbers",
            "source": {"operatorName": "in", "portName": "output"},
            "sinks": [
                {"operatorName": "out", "portName": "data"},
                {"operatorName": "out", "portName": "other"},
            ],
            "locality": "NODE_LOCAL",
        }
    ],
}
PROPERTIES = f"""
# input operator
apex.operator.in.classname={HERE}.Source
apex.operator.in.count=5
apex.operator.in.prop.names=["a", "b"]
apex.operator.in.attr.PARTITIONS=2
apex.attr.WINDOWS_KEPT=3

dt.operator.out.classname={HERE}.Sink
dt.operator.out.name=5

apex.stream.numbers.source=in.output
apex.stream.numbers.sinks=out.data, out.other
apex.stream.numbers.locality=NODE_LOCAL
"""


RULES = {
    "affinityRules": [
        {"operatorRegex": "in|out", "locality": "CONTAINER_LOCAL", "type": "AFFINITY"},
        {
            "operatorsList": ["in", "in"],
            "locality": "NODE_LOCAL",
            "type": "ANTI_AFFINITY",
            "relaxLocality": True,
        },
    ]
}


def read(text, form):
    return read_specification(read_document(text, form), "myApplication")


def faults(text, form):
    with pytest.raises(ValidationError) as caught:
        read(text, form)
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.guide("002", "JSON File DAG Specification")
def test_json_with_lists_of_operators_and_streams():
    plan = validate(read(json.dumps(LISTS), Form.JSON))
    assert plan.application == "myApplication"
    assert plan.operators[0].operator.count == 5
    assert plan.operators[0].attributes["partitions"] == 2
    (stream,) = plan.streams
    assert (str(stream.source), [str(sink) for sink in stream.sinks]) == (
        "in.output",
        ["out.data", "out.other"],
    )
    assert stream.locality == "NODE_LOCAL"


@pytest.mark.guide("002", "Properties File DAG Specification")
def test_properties_with_class_names_and_streams():
    plan = validate(read(PROPERTIES, Form.PROPERTIES))
    source, sink = (operator.operator for operator in plan.operators)
    assert (source.count, source.names, sink.name) == (5, ["a", "b"], "5")
    assert (plan.operators[0].attributes["partitions"], plan.attributes["windows_kept"]) == (2, 3)
    assert [str(sink) for sink in plan.streams[0].sinks] == ["out.data", "out.other"]


@pytest.mark.guide("002", "JSON File DAG Specification")
def test_faults_of_lists():
    document = {
        **LISTS,
        "operators": [*LISTS["operators"], {"name": "in", "class": "x.Y"}, {"class": "x.Y"}, 5],
        "more": 1,
    }
    document["operators"][1] = {**document["operators"][1], "clas": 5}
    text = json.dumps(document)
    assert are(
        faults(text, Form.JSON)[:5],
        [
            "`operators.2`: `in` is there twice; give each a name of its own",
            '`operators.3`: has no `name`; give it: `{"name": ...}`',
            '`operators.4`: has no `name`; give it: `{"name": ...}`',
            "`operators.out.clas`: there is no key `clas` here; did you mean `class`?",
            "`more`: there is no key `more` here; ... `window`",
        ],
    )


@pytest.mark.guide("002", "Properties File DAG Specification")
def test_faults_of_properties():
    text = (
        PROPERTIES
        + "apex.operator.out.port.data.attr.X=1\napex.container.x=1\napex.stream.numbers.sink=a.b\nother=1"
    )
    assert [fault.split("`")[1] for fault in faults(text, Form.PROPERTIES)] == [
        "apex.operator.out.port.data.attr.X",
        "apex.container.x",
        "apex.stream.numbers.sink",
        "other",
    ]


@pytest.mark.guide("002", "Specifying affinity rules from properties")
def test_affinity_rules_of_properties_and_lists():
    key = "apex.application.myApplication.attr.AFFINITY_RULES_SET"
    by_properties = f"{PROPERTIES}\n{key}={json.dumps(RULES)}"
    by_lists = json.dumps({**LISTS, "attributes": {"AFFINITY_RULES_SET": RULES}})
    for app in (read(by_properties, Form.PROPERTIES), read(by_lists, Form.JSON)):
        near, apart = app.affinity
        assert (near.type, near.pattern, near.locality) == ("AFFINITY", "in|out", "CONTAINER_LOCAL")
        assert (list(apart.operators), apart.relax) == (["in", "in"], True)


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ("{", "`affinity_rules_set`: is no set of rules"),
        ("[]", "`affinity_rules_set`: is no set of rules"),
        (json.dumps({"affinityRules": [{"kind": "AFFINITY"}]}), "there is no key `kind` here"),
        (json.dumps({"affinityRules": [{"operatorsList": ["in", "in"]}]}), "`type` is missing"),
    ],
)
def test_affinity_rules_that_are_none(rules, fault):
    found = faults(f"{PROPERTIES}\napex.attr.AFFINITY_RULES_SET={rules}", Form.PROPERTIES)
    assert any(fault in text for text in found), found


def test_attributes_of_another_application_are_refused():
    key = "apex.application.Other.attr.WINDOWS_KEPT"
    [fault] = faults(f"{PROPERTIES}\n{key}=9", Form.PROPERTIES)
    assert fault.startswith(f"`{key}`: is no attribute of application `myApplication`; write ")

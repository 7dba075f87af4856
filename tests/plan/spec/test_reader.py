"""Specifications as applications, and all that can be wrong with them."""

import pytest

from ridgeline.api.errors import ValidationError
from ridgeline.plan import validate
from ridgeline.plan.spec.form import Form
from ridgeline.plan.spec.texts import read_document
from ridgeline.plan.specification import read_specification
from support.plan.faulty import are
from support.plan.specified import Color, Source, double

HERE = "support.plan.specified"
VALID = f"""
application: numbers
window: 100ms
attributes: {{windows_kept: 3}}
operators:
  source: {{class: {HERE}.Source, properties: {{count: 5, color: blue}}, attributes: {{partitions: 2}}}}
  step: {{class: {HERE}.Step, properties: {{function: {{$import: {HERE}.double}}, limit: "7"}}}}
  sink: {{class: {HERE}.Sink, properties: {{name: a}}}}
streams:
  numbers: {{from: source.output, to: step.data, locality: NODE_LOCAL}}
  steps: {{from: step.output, to: [sink.data, {{port: sink.other}}]}}
"""


def read(text, **environment):
    return read_specification(read_document(text, Form.YAML), "file", environment)


def faults(text, **environment):
    with pytest.raises(ValidationError) as caught:
        validate(read(text, **environment))
    return [str(fault) for fault in caught.value.faults]


def changed(old, new):
    assert VALID.count(old) == 1, old
    return VALID.replace(old, new)


def test_an_application_of_operators_streams_properties_and_attributes():
    plan = validate(read(VALID))
    assert plan.application == "numbers"
    assert plan.window_seconds == 0.1
    assert plan.attributes["windows_kept"] == 3
    source, step, _ = plan.operators
    assert isinstance(source.operator, Source)
    assert (source.operator.count, source.operator.color, source.attributes["partitions"]) == (
        5,
        Color.BLUE,
        2,
    )
    assert (step.operator.function, step.operator.limit) == (double, 7)
    assert [str(sink) for sink in plan.streams[1].sinks] == ["sink.data", "sink.other"]
    assert plan.streams[0].locality == "NODE_LOCAL"


def test_values_of_the_environment():
    text = changed("{count: 5,", "{password: {$env: PASSWORD}, count: 5,")
    assert read(text, PASSWORD="geheim").operators[0].operator.password == "geheim"
    assert are(faults(text), ["`operators.source.properties.password`: ... set it: `export PASSWORD=...`"])


FAULTY = [
    ("properties: {name: a}", "ports: {dat: {}}", ["`Sink` has no port `dat`; did you mean `data`?"]),
    ("properties: {name: a}", "unifiers: {data: {}}", ["`Sink` has no output port `data`"]),
    ("window: 100ms", "windw: 100ms", ["`windw`: there is no key `windw` here; did you mean `window`?"]),
    ("application: numbers", "application: 5", ["`application`: input should be a valid string; got 5"]),
    ("  sink: {class", "  sink: 5\n  other: {class", ["`operators.sink`: input should be a valid"]),
    (f"{HERE}.Sink", "Sink", ["`Sink` is no import path; write `package.module.Name`"]),
    (f"{HERE}.Sink", "os.system;x.Y", ["`os.system;x.Y` is no import path"]),
    (f"{HERE}.Sink", f"{HERE}.Sinkk", ["has no `Sinkk`; did you mean `Sink`?"]),
    (f"{HERE}.Sink", "suport.plan.Sink", ["module `suport`, which `suport.plan.Sink` names; put it"]),
    (f"{HERE}.Sink", "os.path", ["`operators.sink.class`: `os.path` is no `Operator`; name a subclass"]),
    (
        f"{HERE}.Sink, properties: {{name: a}}",
        f"{HERE}.Picky, properties: {{low: 6}}",
        ["`low` must not be above 5"],
    ),
    (f"{HERE}.Sink, properties: {{name: a}}", f"{HERE}.Sink", ["property `name` of `Sink` is required"]),
    ("properties: {name: a}", "propertys: {name: a}", ["`propertys` here; did you mean `properties`"]),
    ("{name: a}", "5", ["`operators.sink.properties`: input should be a valid mapping; got 5"]),
    ("{name: a}", "{name: a, nam: b}", ["`Sink` has no property `nam`; did you mean `name`?"]),
    (f"$import: {HERE}.double", "$import: 5", ["`$import` takes a text; got 5"]),
    ("partitions: 2", "partitions: two", ["attribute `partitions` must be a whole number; got 'two'"]),
    ("windows_kept: 3", "partitions: 3", ["it belongs to an operator"]),
    ("numbers: {from: source", "numbers: {form: source", ["`streams.numbers.from`: ", "`from`?"]),
    ("to: step.data", "to: step.dat", ["`Step` has no input port `dat`; did you mean `data`?"]),
    ("to: step.data", "to: step", ["`step` names no port; write `operator.port`"]),
    ("to: step.data", "to: step.output", ["of `Step` is no input port; a stream leads from an output"]),
    ("from: source.output", "from: step.data", ["`data` of `Step` is no output port"]),
    ("{port: sink.other}", "{prt: sink.other}", ["`streams.steps.to.1.port`:", "no key `prt` here"]),
    ("NODE_LOCAL", "NEAR", ["there is no locality 'NEAR'"]),
]


@pytest.mark.parametrize(("old", "new", "texts"), FAULTY, ids=[new for _, new, _ in FAULTY])
def test_a_fault_says_where_it_is_and_what_to_do(old, new, texts):
    found = faults(changed(old, new))
    for text in texts:
        assert any(text in fault for fault in found), found

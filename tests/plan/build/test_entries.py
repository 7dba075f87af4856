"""One entry of a property given from outside: `-D source.options.maxOffsetsPerTrigger=1000`."""

from typing import NamedTuple

import pytest
from pydantic import BaseModel, Field, SecretStr

from ridgeline import Application, InputOperator, OutputPort, ValidationError
from ridgeline.operators import ConsoleOutput, SparkInput
from ridgeline.plan.planner import plan_application
from support.rows import in_a_row


class Retry(BaseModel):
    attempts: int = 3
    pause: float = 0.5


class Pool(BaseModel):
    size: int = 1
    retry: Retry = Retry()
    labels: dict[str, str] = {}


class Row(NamedTuple):
    key: bytes


class Source(InputOperator):
    out = OutputPort(object)

    options: dict[str, str] = Field(default={})
    limits: dict[str, int] | None = None
    lists: dict[str, list[int]] = Field(default={})
    needed: dict[str, str]
    secrets: dict[str, SecretStr] = Field(default={})
    pool: Pool = Pool()
    count: int = 0

    def emit_tuples(self):
        self.finish()


def application(**given):
    return in_a_row(
        Application("entries"), source=Source(**{"needed": {"a": "b"}, **given}), console=ConsoleOutput()
    )


def planned(app, properties):
    return plan_application(app, properties).logical.operators[0].operator


@pytest.mark.parametrize(
    ("given", "properties", "name", "value"),
    [
        ({}, {"source.options.maxOffsetsPerTrigger": "1000"}, "options", {"maxOffsetsPerTrigger": "1000"}),
        (
            {},
            {"source.options.kafka.bootstrap.servers": "a:1,b:2"},
            "options",
            {"kafka.bootstrap.servers": "a:1,b:2"},
        ),
        (
            {"options": {"x": "1", "y": "2"}},
            {"source.options.y": "3", "source.options.z": "=4"},
            "options",
            {"x": "1", "y": "3", "z": "=4"},
        ),
        ({}, {"source.options.z": "3", "source.options": '{"y": "2"}'}, "options", {"y": "2", "z": "3"}),
        ({}, {"source.limits.rows": "5"}, "limits", {"rows": 5}),
        ({}, {"source.lists.a": "[1, 2]"}, "lists", {"a": [1, 2]}),
        (
            {"pool": Pool(size=4)},
            {"source.pool.retry.attempts": "7"},
            "pool",
            Pool(size=4, retry=Retry(attempts=7)),
        ),
        ({}, {"source.pool.labels.a.b": "c"}, "pool", Pool(labels={"a.b": "c"})),
    ],
)
def test_one_entry_is_set_and_the_others_stay(given, properties, name, value):
    app = application(**given)
    assert getattr(planned(app, properties), name) == value
    assert planned(app, {}).options == given.get("options", {}), "what the author gave is not changed"


def test_options_of_a_spark_source_keep_their_text():
    app = in_a_row(
        Application("kafka"),
        source=SparkInput(schema=Row, format="kafka", options={"subscribe": "a"}),
        console=ConsoleOutput(),
    )
    properties = {
        "source.options.maxOffsetsPerTrigger": "1000",
        "source.options.startingOffsets": '{"a": {"0": 5}}',
    }
    assert planned(app, properties).options == {
        "subscribe": "a",
        "maxOffsetsPerTrigger": "1000",
        "startingOffsets": '{"a": {"0": 5}}',
    }


@pytest.mark.parametrize(
    ("name", "what", "remedy"),
    [
        ("option.a", "`Source` has no property `option`", "did you mean `options`?"),
        (
            "count.a",
            "property `count` of `Source` has no entries",
            "give it as a whole, `-D source.count=...`",
        ),
        ("pool.sice", "property `pool` of `Source` has no field `sice`", "did you mean `size`?"),
        (
            "pool.retry.attemps",
            "property `pool.retry` of `Source` has no field `attemps`",
            "did you mean `attempts`?",
        ),
        ("options.", "`options.` of `Source` names no entry", "write `-D source.options.key=value`"),
    ],
)
def test_what_cannot_be_set(name, what, remedy):
    with pytest.raises(ValidationError) as caught:
        planned(application(), {f"source.{name}": "1"})
    [fault] = caught.value.faults
    assert (fault.what, fault.remedy) == (what, remedy)


def test_a_value_that_does_not_fit_names_the_entry():
    with pytest.raises(
        ValidationError,
        match=r"property `limits.rows` of `Source` is 'many'; input should be a valid integer",
    ):
        planned(application(), {"source.limits.rows": "many"})
    with pytest.raises(
        ValidationError,
        match=r"property `pool.retry.attempts` of `Source` is 'many'; input should be a valid integer",
    ):
        planned(application(), {"source.pool.retry.attempts": "many"})


def test_a_required_property_can_be_given_entry_by_entry():
    app = in_a_row(Application("entries"), source=Source(), console=ConsoleOutput())
    assert planned(app, {"source.needed.a": "1"}).needed == {"a": "1"}


def test_a_secret_entry_is_not_shown():
    operator = planned(application(), {"source.secrets.password": "hunter2"})
    assert operator.secrets["password"].get_secret_value() == "hunter2"

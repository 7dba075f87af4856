"""Properties given from outside: one entry, `-D source.options.maxOffsetsPerTrigger=1000`; large numbers."""

from typing import NamedTuple

import pytest
from pydantic import BaseModel, Field, SecretStr

from ridgeline import Application, InputOperator, OutputPort, ValidationError
from ridgeline.operators import ConsoleOutput, RandomEventGenerator, SparkInput
from ridgeline.plan.edits import SetProperty
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


# Numbers: a count of 400 digits would make a window that never ends ----------------------------------------


def dice() -> Application:
    return in_a_row(Application("dice"), source=RandomEventGenerator(maximum=6), sink=ConsoleOutput())


@pytest.mark.parametrize("value", [10**399, "9" * 400, 2**63, -(2**63) - 1])
@pytest.mark.parametrize("name", ["count", "seed"])
def test_numbers_beyond_64_bits_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError) as raised:
        plan_application(dice(), edits=[SetProperty("source", name, value)])
    assert f"`source.{name}`" in str(raised.value)
    assert "digits" in str(raised.value) or "less than" in str(raised.value)
    assert len(str(raised.value)) < 600


def test_the_greatest_number_is_taken() -> None:
    plan = plan_application(dice(), edits=[SetProperty("source", "seed", 2**63 - 1)])
    assert plan.logical.operator("source").operator.seed == 2**63 - 1


def test_no_window_has_more_than_a_billion_tuples() -> None:
    with pytest.raises(ValidationError, match="`tuples_per_window` of `RandomEventGenerator`"):
        plan_application(dice(), edits=[SetProperty("source", "tuples_per_window", 10**18)])

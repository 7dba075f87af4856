"""Properties given from outside: one entry, `-D source.options.maxOffsetsPerTrigger=1000`; large numbers."""

import pytest
from pydantic import BaseModel, Field, SecretStr

from ridgeline import Application, InputOperator, OutputPort, ValidationError
from ridgeline.operators import ConsoleOutput, RandomEventGenerator
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
        (
            {},
            {"source.options.startingOffsets": '{"a": {"0": 5}}'},
            "options",
            {"startingOffsets": '{"a": {"0": 5}}'},
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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("option.a", "`Source` has no property `option`; did you mean `options`?"),
        ("count.a", "`count` of `Source` has no entries; give it as a whole, `-D source.count=...`"),
        ("pool.sice", "property `pool` of `Source` has no field `sice`; did you mean `size`?"),
        ("pool.retry.attemps", "`pool.retry` of `Source` has no field `attemps`; did you mean `attempts`?"),
        ("options.", "`options.` of `Source` names no entry; write `-D source.options.key=value`"),
        ("limits.rows", "`limits.rows` of `Source` is 'many'; input should be a valid integer"),
        ("pool.retry.attempts", "`pool.retry.attempts` of `Source` is 'many'; input should be a valid"),
    ],
)
def test_what_cannot_be_set(name, text):
    with pytest.raises(ValidationError) as caught:
        planned(application(), {f"source.{name}": "many"})
    [fault] = caught.value.faults
    assert text in str(fault)


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

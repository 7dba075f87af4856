import sys
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypedDict, TypeVar

import pytest
from pydantic import Field

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Operator,
    OutputPort,
    State,
    StateError,
)
from ridgeline.api.context import EngineSide
from ridgeline.api.operator import REQUIRED, SparkSource, is_stateless, operator_type
from ridgeline.api.support.properties import check_properties, property_types
from ridgeline.plan.build.property_values import property_faults
from ridgeline.testing import CollectorSink, ListInput, run_local
from support.rows import in_a_row


class Pair(NamedTuple):
    key: int
    value: float


class WithPath:
    path: str = "out"


class Base(Operator):
    pairs = InputPort(Pair)
    out = OutputPort(Pair)
    limit: int = Field(10, gt=0)
    names: list[str] = ["a"]  # noqa: RUF012
    _private: int = 3
    kind: ClassVar[str] = "base"
    total = State(0)


class Derived(WithPath, Base):
    rest = OutputPort(Any, optional=True)
    limit = 20
    factor: float
    ratio: Annotated[float, Field(le=1)] = 0.5
    sums = KeyedState(int)

    @Base.pairs.process
    def take(self, pair: Pair) -> None:
        self.out.emit(pair)


def faults(operator: Operator) -> list[tuple[str, Any, str]]:
    return check_properties(operator)[1]


@pytest.mark.guide("002", "Operator Interface")
@pytest.mark.guide("004", "Operators")
def test_ports_state_and_properties_are_inherited():
    declared = operator_type(Derived)
    assert list(declared.inputs) == ["pairs"]
    assert list(declared.outputs) == ["out", "rest"]
    assert list(declared.states) == ["total", "sums"]
    assert [name for name in declared.properties if name != "context"] == [
        "limit",
        "names",
        "path",
        "factor",
        "ratio",
    ]
    assert declared.properties["limit"] == 20
    assert declared.properties["factor"] is REQUIRED
    assert property_types(Derived)["names"] == list[str]
    assert operator_type(Derived) is declared


@pytest.mark.guide("004", "Class DefaultInputPort")
def test_a_subclass_may_process_what_its_base_declares():
    class Other(Base):
        @Base.pairs.process_batch
        def take_batch(self, batch):
            """Nothing."""

    names = [
        (port.process_name, port.process_batch_name)
        for port in (operator_type(kind).inputs["pairs"] for kind in (Base, Derived, Other))
    ]
    assert names == [(None, None), ("take", None), (None, "take_batch")]


@pytest.mark.guide("002", "Properties")
def test_properties_are_converted_as_on_a_command_line():
    values, found = check_properties(Derived(limit="5", factor="2.5", names=("x", "y")))
    assert found == []
    assert values == {"limit": 5, "names": ["x", "y"], "path": "out", "factor": 2.5, "ratio": 0.5}


@pytest.mark.guide("004", "Operator Properties")
def test_all_faults_of_properties_are_found_at_once():
    operator = Derived(limits=3, limit="many", names=["a", 2], ratio=3)
    assert faults(operator) == [
        ("limits", 3, "there is no such property; did you mean `limit`?"),
        ("limit", "many", "input should be a valid integer, unable to parse string as an integer"),
        ("names.1", 2, "input should be a valid string"),
        ("factor", REQUIRED, "is required"),
        ("ratio", 3, "input should be less than or equal to 1"),
    ]
    assert faults(Base(limit=0)) == [("limit", 0, "input should be greater than 0")]
    assert faults(Base(x=1)) == [("x", 1, "there is no such property; known are `limit`, `names`")]


def test_a_type_that_cannot_be_resolved_is_a_fault():
    class Lost(Operator):
        value: "Nowhere" = 3  # noqa: F821

    assert faults(Lost()) == [
        ("", None, "the types of its properties cannot be resolved: name 'Nowhere' is not defined")
    ]


class Place(TypedDict):
    row: int


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic checks these there")
def test_a_type_that_pydantic_checks_on_later_versions_of_python_only_is_a_fault():
    class Placed(Operator):
        place: Place
        others: list[Place] | None = None

    [(name, _, rule)] = faults(Placed(place={"row": 1}))
    assert (name, rule.partition("; ")[2]) == ("", "take that of `typing_extensions`")
    assert [what for _, what, _ in property_faults(Placed(place=3))] == [
        "properties of `Placed`: a `TypedDict` of `typing` is not checked before Python 3.12"
    ]


@pytest.mark.guide("004", "Initialization/Instantiation Time")
def test_properties_may_be_checked_together():
    class Two(Operator):
        low: int = 0
        high: int = 10

        def property_faults(self):
            return [("low", self.low, "must be below `high`")] if self.low >= self.high else []

    assert faults(Two(low="20")) == [("low", 20, "must be below `high`")]
    assert faults(Two(low="x")) == [
        ("low", "x", "input should be a valid integer, unable to parse string as an integer")
    ]


def test_a_property_that_was_not_given_is_named():
    with pytest.raises(
        AttributeError, match=r"^property `factor` of `Derived` was not given; pass `factor=\.\.\.`$"
    ):
        Derived().factor  # noqa: B018


def test_there_is_no_context_before_the_operator_runs():
    with pytest.raises(
        AttributeError, match=r"^`Base` has no context before it runs; use it from `setup` on$"
    ):
        Base().context  # noqa: B018


@pytest.mark.guide("002", "Operator State")
def test_state_that_somebody_forgot_to_declare_is_reported():
    operator = Base()
    vars(operator)["_forgotten"] = {"seen": 4}
    text = (
        "`Base.seen` was set in window 4 and is gone: "
        "what is not declared lives until the end of its window; "
        "declare it, `seen = State(...)`, `KeyedState(...)` or `ListState(...)`, to keep it"
    )
    with pytest.raises(StateError) as error:
        operator.seen  # noqa: B018
    assert str(error.value) == text
    operator.seen = 3
    assert operator.seen == 3


@pytest.mark.guide("002", "Stateless")
@pytest.mark.guide("004", "Stateless vs Stateful")
def test_operators_are_stateless_unless_they_declare_state():
    assert is_stateless(InputOperator())
    assert not is_stateless(Base())
    assert repr(Base()) == "Base()"


def test_inputs_must_say_what_they_emit():
    with pytest.raises(NotImplementedError, match="`InputOperator` must override `emit_tuples`"):
        InputOperator().emit_tuples()
    assert InputOperator().progress() is None
    assert SparkSource().emit_tuples() is None
    with pytest.raises(NotImplementedError):
        SparkSource().frame(None)
    operator = InputOperator()
    operator.finish()
    assert vars(operator)["_finished"]


T = TypeVar("T", int, str)


class Greater(Operator, Generic[T]):
    """Lets values through that are greater than a limit."""

    values = InputPort(object)
    greater = OutputPort(object)

    limit: T

    @values.process
    def take(self, value: T) -> None:
        """Emit the value if it is greater."""
        if value > self.limit:
            self.greater.emit(value)


class GreaterNumber(Greater[int]):
    """The same for numbers: a class of its own, with more."""

    step: int = 1


@pytest.mark.guide("004", "Templates")
@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        (Greater[int](limit=2), [1, 5], [5]),
        (Greater[str](limit="b"), ["a", "c"], ["c"]),
        (GreaterNumber(limit=4), [1, 5], [5]),
    ],
)
def test_a_generic_operator_is_for_several_types(operator, values, expected):
    app = in_a_row(
        Application("templates"),
        source=ListInput(object, values),
        greater=operator,
        sink=CollectorSink(object),
    )
    assert run_local(app).collected("sink") == expected


class Pass(Operator):
    data = InputPort(object)
    out = OutputPort(object)


@pytest.mark.guide("002", "Application API")
def test_an_application_keeps_what_it_is_told():
    app = Application("app", window="1s", windows_kept=3)
    first = app.add_operator("first", Pass(), partitions=2)
    second = app.add_operator("second", Pass(), nonsense=True)
    app.add_stream("s", first.out, second.data, locality="NODE_LOCAL")
    assert (app.name, app.window, app.attributes) == ("app", "1s", {"windows_kept": 3})
    assert [(added.name, added.attributes) for added in app.operators] == [
        ("first", {"partitions": 2}),
        ("second", {"nonsense": True}),
    ]
    assert app.streams[0].source is first.out
    assert app.streams[0].sinks == (second.data,)
    assert app.streams[0].locality == "NODE_LOCAL"


@pytest.mark.guide("004", "API")
def test_the_public_names_are_those_of_the_api():
    import ridgeline
    import ridgeline.api

    assert ridgeline.__all__ == ["Outputs", "Stream", *ridgeline.api.__all__]
    assert all(hasattr(ridgeline, name) for name in ridgeline.__all__)


def test_what_was_taken_of_a_context_stays_as_it_was():
    engine = EngineSide()
    before = engine.take("handed_over")
    engine.handed_over.append("later")
    assert (before, engine.take("handed_over"), engine.take("late")) == ([], ["later"], 0)

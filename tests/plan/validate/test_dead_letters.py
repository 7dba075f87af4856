"""Dead letters: what operators leave out goes to one output operator, or to several."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import Application, DeadLetter, InputPort, OnError, Operator, OutputPort, State
from ridgeline.operators import FileOutput, Map
from ridgeline.plan import find_faults, validate
from ridgeline.plan.spec.writer import specification_of
from ridgeline.plan.specification import read_specification
from ridgeline.testing import CollectorSink, ListInput, run_local


class Number(NamedTuple):
    value: int


class Count(Operator):
    """Fails on negative numbers after it has changed its state: its window runs again without them."""

    numbers = InputPort(Number, key="value")
    counted = OutputPort(Number)
    count = State(0)

    @numbers.process
    def add(self, number: Number) -> None:
        self.count += 1
        if number.value < 0:
            raise ValueError("negative; password=hunter2")
        self.counted.emit(number)


def _refuse_tens(number: Number) -> Number:
    if number.value % 10 == 0:
        raise KeyError(number.value)
    return number


def _two_stages(values: list[int], partitions: int) -> tuple[Application, Any, Any]:
    app = Application("numbers")
    source = app.add_operator("source", ListInput(Number, [(value,) for value in values]))
    first = app.add_operator("first", Map(_refuse_tens, schema=Number), partitions=partitions)
    count = app.add_operator("count", Count(), partitions=partitions)
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", source.output, first.data)
    app.add_stream("more", first.output, count.numbers)
    app.add_stream("counted", count.counted, sink.input)
    for operator in (first, count):
        app.set_attribute(operator, on_error=OnError.SKIP)
    return app, first, count


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(-12, 12), max_size=12), st.integers(1, 3))
def test_each_tuple_is_a_result_or_a_dead_letter(values: list[int], partitions: int) -> None:
    app, _, _ = _two_stages(values, partitions)
    app.dead_letters(CollectorSink(DeadLetter))
    if not values:
        app.attributes["on_error"] = "SKIP"
    run = run_local(app)
    letters = run.collected("dead_letters")
    assert sorted(run.collected("sink")) == sorted((v,) for v in values if v % 10 and v > 0)
    found = sorted((letter.operator, letter.port, letter.tuple, letter.error) for letter in letters)
    assert found == sorted(
        ("first", "data", f"Number(value={v})", f"KeyError: {v}")
        if v % 10 == 0
        else ("count", "numbers", f"Number(value={v})", "ValueError: negative; password=***")
        for v in values
        if v % 10 == 0 or v < 0
    )
    assert all("raise" in letter.traceback for letter in letters)


def test_dead_letters_that_cannot_come_are_a_fault() -> None:
    app, first, _ = _two_stages([1], 1)
    app.dead_letters(FileOutput("folder"))
    assert not find_faults(app)
    assert not find_faults(app, attributes={"first.on_error": "STOP"})
    [fault] = find_faults(app, attributes={"first.on_error": "STOP", "count.on_error": "STOP"})
    assert fault.where == "dead_letters"
    own = app.add_operator("own", CollectorSink(DeadLetter))
    app.add_stream("refused", first.dead_letters, own.input)
    assert [fault.where for fault in find_faults(app, attributes={"first.on_error": "STOP"})] == [
        "first.dead_letters"
    ]


def test_specifications_name_what_takes_dead_letters() -> None:
    document = {
        "application": "dice",
        "attributes": {"on_error": "SKIP"},
        "operators": {
            "dice": {"class": "ridgeline.operators.RandomEventGenerator"},
            "sink": {"class": "ridgeline.operators.ConsoleOutput"},
        },
        "streams": {"rolls": {"from": "dice.integer_data", "to": "sink.input"}},
        "dead_letters": {"class": "ridgeline.operators.FileOutput", "properties": {"path": "/folder"}},
    }
    app = read_specification(document, "dice")
    for one in (app, read_specification(specification_of(app), "dice")):
        streams = {stream.name: stream for stream in validate(one).streams}
        assert list(map(str, streams["sink_dead_letters"].sinks)) == ["dead_letters.input"]


def test_dead_letters_that_all_go_elsewhere_are_a_fault() -> None:
    app, first, count = _two_stages([1], 1)
    for name, operator in {"first": first, "count": count}.items():
        own = app.add_operator(f"own_{name}", CollectorSink(DeadLetter))
        app.add_stream(f"refused_{name}", operator.dead_letters, own.input)
    app.dead_letters(FileOutput("folder"))
    [fault] = find_faults(app)
    assert fault.where == "dead_letters.input"
    assert "streams take the dead letters of every operator elsewhere" in fault.what


def test_a_place_for_dead_letters_is_enough_to_leave_tuples_out() -> None:
    app, _, count = _two_stages([1, 10, -2, 3], 2)
    app.operators = [one.without("on_error") for one in app.operators]
    app.dead_letters(CollectorSink(DeadLetter))
    run = run_local(app)
    assert sorted(run.collected("sink")) == [(1,), (3,)]
    assert sorted(letter.operator for letter in run.collected("dead_letters")) == ["count", "first"]
    assert "on_error" not in app.attributes
    for said in ({"on_error": "STOP"}, {"count.on_error": "STOP"}):
        (fault,) = find_faults(app, attributes=said)
        assert fault.what == "no operator leaves tuples out, so there are no dead letters"
    app.set_attribute(count, on_error=OnError.SKIP)
    plan = validate(app)
    found = {name: plan.operator(name).attributes["on_error"] for name in ("first", "count")}
    assert found == {"first": OnError.STOP, "count": OnError.SKIP}, "where it is said, it is said for all"


def test_no_stream_is_taken_for_that_of_an_operators_dead_letters() -> None:
    app, _, _ = _two_stages([1], 1)
    app.streams[1].name = "count_dead_letters"
    app.dead_letters(CollectorSink(DeadLetter))
    found = [(one.name, str(one.source)) for one in validate(app).streams]
    assert found[1:] == [
        ("count_dead_letters", "first.output"),
        ("counted", "count.counted"),
        ("first_dead_letters", "first.dead_letters"),
        ("count_dead_letters_", "count.dead_letters"),
    ]

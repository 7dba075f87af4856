"""What runs as a specification: with options, kept edits and edits; read back, it makes no difference."""

from typing import Any, NamedTuple

import pytest

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Module,
    Operator,
    OutputPort,
    Partition,
    Partitioner,
    ValidationError,
)
from ridgeline.operators import ConsoleOutput
from ridgeline.plan.change.difference import difference
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
    ReplaceOperator,
    SetAttribute,
    SetProperty,
)
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.planner import plan_logical
from ridgeline.plan.spec.form import Form
from ridgeline.plan.spec.texts import write_document
from ridgeline.plan.specification import edits_between, read_specification
from ridgeline.plan.validation import validate
from ridgeline.plan.written import specification_of_plan
from ridgeline.settings.documents import read_file


class Number(NamedTuple):
    number: int


class Dice(InputOperator):
    rolls = OutputPort(Number)
    maximum: int = 6

    def emit_tuples(self) -> None:
        self.rolls.emit(Number(self.maximum))


class Count(Operator):
    numbers = InputPort(Number, key="number")
    counts = OutputPort(Number)
    step: int = 1
    names: dict[str, int] = {}  # noqa: RUF012  a property
    totals = KeyedState(int, default=0)

    @numbers.process
    def add(self, number: Number) -> None:
        self.counts.emit(Number(number.number * self.step))


class Twice(Count):
    factor: int = 2


class Even(Partitioner):
    """All get all."""

    def define_partitions(self, count, ports):
        return [Partition() for _ in range(count)]


class Counting(Module):
    numbers = InputPort(Number)
    counts = OutputPort(Number)
    step: int = 1

    def populate(self, app: Application) -> None:
        count = app.add_operator("count", Count(step=self.step))
        self.numbers.connect(count.numbers)
        self.counts.connect(count.counts)


def application(*, module: bool = False) -> Application:
    app = Application("dice", window="100ms")
    dice = app.add_operator("dice", Dice())
    count: Any
    count = app.add_module("count", Counting()) if module else app.add_operator("count", Count())
    sink = app.add_operator("sink", ConsoleOutput(), memory_mb=300)
    app.add_stream("rolls", dice.rolls, count.numbers)
    app.add_stream("counts", count.counts, sink.input)
    return app


def read_back(plan: LogicalPlan, form: Form, tmp_path: Any) -> Application:
    """The application of the specification, by way of a file of this form."""
    file = tmp_path / f"app.{form.value}"
    file.write_text(write_document(specification_of_plan(plan), form))
    return read_specification(read_file(file), "app")


OPTIONS: dict[str, dict[str, object]] = {
    "nothing": {},
    "property": {"properties": {"count.step": "5"}},
    "entry": {"properties": {"count.names.a": "5"}},
    "attributes": {
        "attributes": {
            "count.partitions": "3",
            "count.port.counts.buffer_memory_mb": "16",
            "count.unifier.counts.memory_mb": "128",
            "count.application_window_count": "4",
            "stream.rolls.locality": "NODE_LOCAL",
            "windows_in_flight": "3",
            "window": "250ms",
        }
    },
}
EDITS: list[list[Edit]] = [
    [SetProperty("count", "step", 9), SetProperty("dice", "maximum", 12)],
    [SetAttribute("count", "memory_mb", 700), SetAttribute("", "windows_kept", 7)],
    [SetAttribute("stream.counts", "locality", "NODE_LOCAL"), SetAttribute("sink", "memory_mb", None)],
    [Repartition("count", 2)],
    [Repartition("count", 2, {"class": f"{__name__}.Even"})],
    [RenameOperator("count", "counted"), SetProperty("counted", "step", 3)],
    [ReplaceOperator("count", {"class": f"{__name__}.Twice", "properties": {"factor": 3}})],
    [
        AddOperator("more", {"class": f"{__name__}.Count", "attributes": {"partitions": 2}}),
        AddOperator("out", {"class": "ridgeline.operators.ConsoleOutput"}),
        AddSink("rolls", "more.numbers"),
        AddStream("more", "more.counts", ("out.input",)),
        SetProperty("more", "step", 4),
    ],
    [
        AddOperator("out", {"class": "ridgeline.operators.ConsoleOutput"}),
        AddSink("rolls", "out.input"),
        RemoveOperator("count"),
        RemoveOperator("sink"),
    ],
    [RemoveStream("counts"), AddStream("again", "count.counts", ("sink.input",), "NODE_LOCAL")],
    [
        AddOperator("out", {"class": "ridgeline.operators.ConsoleOutput"}),
        AddSink("counts", "out.input"),
        RemoveSink("counts", "sink.input"),
        RemoveOperator("sink"),
    ],
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("edits", EDITS, ids=lambda edits: type(edits[0]).__name__)
@pytest.mark.parametrize("when", ["kept", "edits"])
def test_read_back_it_makes_no_difference(options, edits, when, tmp_path):
    if options != "nothing" and RemoveOperator("count") in edits:
        pytest.skip("there is nothing left to give options to")
    plan = validate(application(), **OPTIONS[options], **{when: edits})
    again = read_back(plan, Form.YAML, tmp_path)
    assert edits_between(plan, again) == ()
    lines = difference(plan_logical(plan), plan_logical(validate(again))).lines
    assert lines[1] == "  nothing changes", lines


@pytest.mark.parametrize("form", [Form.JSON, Form.YAML])
def test_in_every_form(form, tmp_path):
    plan = validate(application(), {"count.names.a": "5"}, OPTIONS["attributes"]["attributes"])
    assert edits_between(plan, read_back(plan, form, tmp_path)) == ()


@pytest.mark.parametrize(
    ("options", "edits"),
    [
        ({"attributes": {"count.partitions": "2", "stream.counts.locality": "NODE_LOCAL"}}, []),
        ({"properties": {"count.step": "5"}}, [Repartition("count", 2)]),
        ({}, [SetProperty("dice", "maximum", 7), RenameOperator("sink", "out")]),
    ],
)
def test_modules_stay_modules(options, edits, tmp_path):
    plan = validate(application(module=True), **options, edits=edits)
    again = read_back(plan, Form.YAML, tmp_path)
    assert [type(added.module) for added in again.modules] == [Counting]
    assert edits_between(plan, again) == ()


@pytest.mark.parametrize(
    ("options", "edits"),
    [
        ({"properties": {"count.count.step": "5"}}, []),
        ({"attributes": {"count.count.memory_mb": "700"}}, []),
        ({}, [SetProperty("count.count", "step", 5)]),
        ({}, [SetAttribute("count", "buffer_memory_mb", 16, port="counts")]),
    ],
)
def test_what_is_inside_of_a_module_is_refused_by_name(options, edits):
    plan = validate(application(module=True), **options, edits=edits)
    with pytest.raises(ValidationError, match=r"count") as raised:
        specification_of_plan(plan)
    assert all("count" in fault.where + fault.what for fault in raised.value.faults)

"""Applications written with streams as values: the plan is that of the long form, and both forms mix."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pytest

from ridgeline import (
    Application,
    InputPort,
    Module,
    Operator,
    OutputPort,
    RidgelineError,
    SchemaError,
    Stream,
    ValidationError,
)
from ridgeline.operators import FlatMap, Sampler, Union
from ridgeline.plan import validation
from ridgeline.plan.planner import plan_application
from ridgeline.plan.show.text import describe
from ridgeline.testing import CollectorSink, ListInput, run_local


class Line(NamedTuple):
    text: str


class Word(NamedTuple):
    word: str
    length: int


LINES = [("to be or",), ("",), ("not to be",)]


def split(line: Line) -> Iterator[Word]:
    for word in line.text.split():
        yield Word(word, len(word))


def louder(word: Word) -> Word:
    return Word(word.word.upper(), word.length)


def is_long(word: Word) -> bool:
    return word.length > 2


class Sort(Operator):
    words = InputPort(Word)
    long = OutputPort(Word)
    short = OutputPort(Word)

    @words.process
    def sort(self, word: Word) -> None:
        (self.long if is_long(word) else self.short).emit(word)


class Louder(Module):
    words = InputPort(Word)
    loud = OutputPort(Word)

    def populate(self, app: Application) -> None:
        self.loud.connect(app.stream(self.words).filter("long", is_long).map("loud", louder).point)


def text(app: Application) -> str:
    return describe(plan_application(app))


def test_both_forms_mix_and_a_stream_with_several_readers_is_one() -> None:
    app = Application("words")
    lines = app.add_operator("lines", ListInput(Line, LINES))
    words = app.stream(lines.output).flat_map("words", split)
    first = app.add_operator("first", CollectorSink(Word))
    app.add_stream("my_words", words.point, first.input)
    words.write("second", CollectorSink(Word))
    third = app.add_operator("third", CollectorSink(Word))
    words.into(third.input)
    assert [(added.name, len(added.sinks)) for added in app.streams] == [("lines", 1), ("my_words", 3)]
    assert words.name == "my_words"
    run = run_local(app)
    assert len(run.collected("first")) == 6
    assert run.collected("first") == run.collected("second") == run.collected("third")


def test_names_of_streams_that_are_in_use_get_a_number() -> None:
    app = Application("words")
    lines = app.read("lines", ListInput(Line, LINES))
    other = app.add_operator("other", CollectorSink(Line))
    more = app.add_operator("more", ListInput(Line, LINES))
    app.add_stream("lines", more.output, other.input)
    lines.write("sink", CollectorSink(Line))
    assert [added.name for added in app.streams] == ["lines", "lines_2"]
    assert len(run_local(app).collected("sink")) == 3


def test_the_schema_is_known_before_the_application_is_finished() -> None:
    app = Application("words")
    lines = app.read("lines", ListInput(Line, LINES))
    words = lines.flat_map("words", split)
    assert words.filter("long", is_long).schema == pa.schema([("word", pa.string()), ("length", pa.int64())])
    assert words.process("louder", Louder()).schema.names == ["word", "length"]


def test_a_stream_whose_columns_are_not_known_says_why() -> None:
    app = Application("words")
    words = app.stream(app.add_operator("words", FlatMap(lambda line: [line], schema=int)).output)
    with pytest.raises(
        SchemaError, match=r"the columns of `words.output` are not known:\n- `words.output`: .*int"
    ):
        _ = words.schema


def test_several_outputs_come_by_the_names_of_the_ports() -> None:
    app = Application("words")
    lines = app.read("lines", ListInput(Line, LINES))
    parts = lines.process("sampler", Sampler(share=0.5))
    assert list(parts) == ["output", "rest"]
    assert len(parts) == 2
    assert isinstance(parts["rest"], Stream)
    with pytest.raises(AttributeError, match=r"`sampler` has no output port `rset`; did you mean `rest`"):
        _ = parts.rset
    with pytest.raises(KeyError, match=r"rset"):
        _ = parts["rset"]


def test_what_is_no_operator_or_has_no_clear_port_is_refused() -> None:
    app = Application("words")
    lines = app.read("lines", ListInput(Line, LINES))
    with pytest.raises(TypeError, match=r"`sort` is .*Sort.*, which is no operator; give an instance"):
        lines.process("sort", Sort)
    with pytest.raises(RidgelineError, match=r"`more` is a `ListInput`, which takes no tuples; `app.read"):
        lines.process("more", ListInput(Line, LINES))
    with pytest.raises(
        RidgelineError, match=r"`both` is a `Union`, which has several input ports: `input_1`"
    ):
        lines.process("both", Union(2))
    with pytest.raises(RidgelineError, match=r"`sort` .* has no input port `lines`; its ports: `words`"):
        lines.process("sort", Sort(), port="lines")
    both = Union[Line](2)
    lines.process("union", both, port="input_2")
    assert app.streams[-1].sinks == (both.input_2,)


def test_a_function_that_does_not_say_what_it_returns_is_a_fault_of_the_step() -> None:
    app = Application("words")
    lines = app.read("lines", ListInput(Line, LINES))
    lines.map("loud", lambda line: line).write("sink")
    with pytest.raises(ValidationError, match=r"loud\.schema.*annotate the function's return type"):
        validation.validate(app)

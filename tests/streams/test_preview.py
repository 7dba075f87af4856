"""Previews run what leads to a stream, and nothing else."""

import io
import signal
import sys
from typing import Any, NamedTuple

import pytest

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    OutputPort,
    RidgelineError,
    ValidationError,
)
from ridgeline.operators import FileInput
from ridgeline.testing import CollectorSink, ListInput, run_local


class Number(NamedTuple):
    value: int
    text: str | None


class Endless(InputOperator):
    output = OutputPort(Number)

    def emit_tuples(self) -> None:
        self.output.emit(Number(self.context.window_id, None))


NUMBERS = [(n, "<b>" if n % 2 else None) for n in range(50)]


def numbers(app: Application) -> Any:
    return app.read("numbers", ListInput(Number, NUMBERS))


def test_in_a_notebook() -> None:
    app = Application("numbers")
    source = numbers(app)
    assert "<td>&lt;b&gt;</td>" in source.preview(2)._repr_html_()
    assert "<td>value</td><td>int64</td>" in source._repr_html_()
    source.filter("odd", "value % 2 = 1", partitions=2).write("out", CollectorSink(Number))
    assert (
        "<tr><td>odd</td><td>FilterRows</td><td>numbers</td><td>partitions=2</td></tr>" in app._repr_html_()
    )
    assert len(run_local(app).collected("out")) == 25


def test_a_queue_between_regions_is_passed_over() -> None:
    app = Application("numbers")
    apart = numbers(app).decouple("queue").filter("odd", "value % 2 = 1")
    apart.write("console")
    assert [row.value for row in apart.preview(2).rows] == [1, 3]


def test_it_ends_once_the_tuples_are_there() -> None:
    """More windows would run into the fault."""

    def divided(number: Number) -> Number:
        return Number(12 // (3 - number.value), None)

    found = Application("endless").read("in", Endless()).map("divided", divided)
    assert [row.value for row in found.preview(3, windows=10**6).rows] == [4, 6, 12]


class Interrupting(io.StringIO):
    """A standard error at which somebody presses Ctrl-C as soon as it says so."""

    def write(self, text: str) -> int:
        if "Ctrl-C" in text:
            signal.raise_signal(signal.SIGINT)
        return len(text)


def test_ctrl_c_shows_what_there_is(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("value,text\n1,a\n")
    app = Application("files", window="1h")
    files = app.read("files", FileInput(tmp_path, Number, settle=0))
    monkeypatch.setattr(sys, "stderr", Interrupting())
    assert files.preview(2).rows == [Number(1, "a")]


def test_objects_and_faults() -> None:
    app = Application("objects")
    source = app.read("objects", ListInput(object, [{"a"}, None]))
    found = source.preview()
    assert (found.rows, found.table) == ([{"a"}, None], None)
    assert "{'a'}" in repr(found)
    with pytest.raises(ValidationError, match="a stream of `object` has none"):
        source.filter("step", "a > 1").preview()
    from ridgeline import Module

    class Inner(Module):
        input = InputPort(Number)

    with pytest.raises(RidgelineError, match="within a module"):
        app.stream(Inner().input).preview()

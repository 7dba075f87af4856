"""Previews run what leads to a stream, and nothing else."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    OperatorError,
    OutputPort,
    RidgelineError,
    ValidationError,
)
from ridgeline.operators import FileInput, FileOutput, from_iterable
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deeper


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


HUNDRED = [Number(n, f"t{n}" if n % 3 else None) for n in range(100)]


def hundred(app: Application) -> Any:
    rows: list[Any] = [item for row in HUNDRED for item in ((row, END_WINDOW) if row[0] % 7 == 0 else (row,))]
    return app.read("hundred", ListInput(Number, rows))


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3, pytest.param(5, marks=deeper)])
def test_all_tuples_and_nothing_else(tmp_path: Path, partitions: int) -> None:
    app = Application("hundred")
    source = hundred(app)
    source.write("file", FileOutput(path=str(tmp_path / "out")))
    source.filter("broken", "nothing > 1").write("console")
    odd = source.filter("odd", lambda number: number.value % 2 == 1, partitions=partitions)
    odd.write("odd_file", FileOutput(path=str(tmp_path / "odd")))
    expected = [row for row in HUNDRED if row.value % 2]
    assert sorted(odd.collect()) == sorted(expected)
    assert odd.to_frame().sort("value").rows() == expected
    assert len(source.collect(windows=2)) == 8
    assert not list(tmp_path.iterdir())
    assert [one.name for one in app.operators] == ["hundred", "file", "broken", "console", "odd", "odd_file"]


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    app = Application("hundred")
    objects = app.read("words", from_iterable(["one", "two"]))
    assert objects.collect() == ["one", "two"]
    with pytest.raises(RidgelineError, match="a stream of `object` has no columns"):
        objects.to_frame()
    with pytest.raises(RidgelineError, match="makes frames of 'polars', 'arrow', 'pandas'; got 'excel'"):
        objects.to_frame("excel")  # type: ignore[call-overload]
    (tmp_path / "a.jsonl").write_text('{"value": 1, "text": null}\n')
    endless = app.read("files", FileInput(str(tmp_path / "*.jsonl"), schema=Number))
    with pytest.raises(RidgelineError, match=r"input `files` never ends.*`windows=`, or .*`until=\"end\"`"):
        endless.collect()
    ending = app.read("all", FileInput(str(tmp_path / "*.jsonl"), schema=Number, until="end"))
    assert ending.collect() == [Number(1, None)]

    def fail(number: Number) -> Number:
        raise ValueError("no")

    with pytest.raises(OperatorError, match="`broken`"):
        hundred(Application("failing")).map("broken", fail).collect()

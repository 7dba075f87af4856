"""`collect` and `to_frame`: all tuples of a stream."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, OperatorError, RidgelineError
from ridgeline.operators import FileInput, FileOutput, from_iterable
from ridgeline.testing import END_WINDOW, ListInput
from support.depth import deeper


class Number(NamedTuple):
    value: int
    text: str | None


NUMBERS = [Number(n, f"t{n}" if n % 3 else None) for n in range(100)]


def numbers(app: Application) -> Any:
    rows: list[Any] = [item for row in NUMBERS for item in ((row, END_WINDOW) if row[0] % 7 == 0 else (row,))]
    return app.read("numbers", ListInput(Number, rows))


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3, pytest.param(5, marks=deeper)])
def test_all_tuples_and_nothing_else(tmp_path: Path, partitions: int) -> None:
    app = Application("numbers")
    source = numbers(app)
    source.write("file", FileOutput(path=str(tmp_path / "out")))
    source.filter("broken", "nothing > 1").write("console")
    odd = source.filter("odd", lambda number: number.value % 2 == 1, partitions=partitions)
    odd.write("odd_file", FileOutput(path=str(tmp_path / "odd")))
    expected = [row for row in NUMBERS if row.value % 2]
    assert sorted(odd.collect()) == sorted(expected)
    assert odd.to_frame().sort("value").rows() == expected
    assert len(source.collect(windows=2)) == 8
    assert not list(tmp_path.iterdir())
    assert [one.name for one in app.operators] == ["numbers", "file", "broken", "console", "odd", "odd_file"]


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    app = Application("numbers")
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
        numbers(Application("failing")).map("broken", fail).collect()

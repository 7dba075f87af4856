"""A `FileOutput` that is renamed, or removed and added again: each row once, before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, InputOperator, OutputPort, RidgelineError, State
from ridgeline.operators import FileOutput
from ridgeline.operators._file_publisher import FilePublisher
from ridgeline.plan.edits import AddOperator, AddSink, Edit, RemoveOperator, RemoveSink, RenameOperator
from ridgeline.testing import CollectorSink, run_local
from support.testing.shares import share

WINDOWS = 10


class Number(NamedTuple):
    value: int


class Numbers(InputOperator):
    numbers = OutputPort(Number)
    position = State(0)

    def emit_tuples(self) -> None:
        for value in range(self.position, self.position + 5):
            self.numbers.emit(Number(value))
        self.position += 5
        if self.position >= 5 * WINDOWS:
            self.finish()


def application(folder: Path, roll: float, name: str = "store") -> Application:
    app = Application("renamed")
    numbers = app.add_operator("numbers", Numbers())
    store = app.add_operator(name, FileOutput(path=folder / "out", format="jsonl", roll_seconds=roll))
    rest = app.add_operator("rest", CollectorSink(Number))
    app.add_stream("numbers", numbers.numbers, store.input, rest.input)
    return app


def rows(folder: Path) -> list[int]:
    files = sorted((folder / "out").glob("*.jsonl"))
    return sorted(json.loads(line)["value"] for file in files for line in file.read_text().splitlines())


@pytest.mark.parametrize(("live", "roll"), share(2, [True, False], [0, 3, 1000]))
def test_a_renamed_output_goes_on_with_its_rows(tmp_path: Path, roll: float, live: bool) -> None:
    state: dict[str, Any] = {"checkpoint": tmp_path / "state"}
    if live:
        changes: dict[int, list[Edit]] = {3: [RenameOperator("store", "kept")]}
        run = run_local(application(tmp_path, roll), windows=6, changes=changes, **state)
        assert [one.state for one in run.changes] == ["APPLIED"], run.changes[0].reason
        run_local(application(tmp_path, roll), **state)
    else:
        run_local(application(tmp_path, roll), windows=4, **state)
        run_local(application(tmp_path, roll, "kept"), windows=2, rename={"store": "kept"}, **state)
        run_local(application(tmp_path, roll, "store"), rename={"kept": "store"}, **state)
    assert rows(tmp_path) == list(range(5 * WINDOWS))


@pytest.mark.parametrize("roll", [0, 3, 1000])
def test_an_output_that_is_removed_comes_again(tmp_path: Path, roll: float) -> None:
    properties = {"path": str(tmp_path / "out"), "format": "jsonl", "roll_seconds": roll}
    spec = {"class": "ridgeline.operators.FileOutput", "properties": properties}
    changes: dict[int, list[Edit]] = {
        3: [RemoveSink("numbers", "store.input"), RemoveOperator("store")],
        5: [AddOperator("store", spec), AddSink("numbers", "store.input")],
    }
    run = run_local(application(tmp_path, roll), windows=7, changes=changes, checkpoint=tmp_path / "state")
    assert [one.state for one in run.changes] == ["APPLIED", "APPLIED"], run.changes[1].reason
    run_local(application(tmp_path, roll), checkpoint=tmp_path / "state")
    assert rows(tmp_path) == [*range(15), *range(25, 5 * WINDOWS)]


def test_what_an_earlier_version_kept_does_not_say_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = FilePublisher.stage

    def earlier(publisher: FilePublisher, window_id: int, values: Any) -> Any:
        state = stage(publisher, window_id, values)
        del state["name"]
        return state

    monkeypatch.setattr(FilePublisher, "stage", earlier)
    run_local(application(tmp_path, 1000), windows=4, checkpoint=tmp_path / "state")
    monkeypatch.undo()
    renamed: dict[str, Any] = {"checkpoint": tmp_path / "state", "rename": {"store": "kept"}}
    with pytest.raises(RidgelineError, match="if the operator was renamed, start it under the name before"):
        run_local(application(tmp_path, 1000, "kept"), **renamed)
    run_local(application(tmp_path, 1000), windows=1, checkpoint=tmp_path / "state")
    run_local(application(tmp_path, 1000, "kept"), **renamed)
    assert rows(tmp_path) == list(range(5 * WINDOWS))

"""A `FileOutput` that is renamed, or removed and added again: each row once, before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, InputOperator, OutputPort, RidgelineError, State
from ridgeline.operators import FileOutput
from ridgeline.operators._file_publisher import FilePublisher
from ridgeline.testing import CollectorSink, run_local

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

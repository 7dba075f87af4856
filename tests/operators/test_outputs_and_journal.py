"""What outputs have and what the journal says: the one is synced before the other, and they are compared."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from ridgeline import Application, RidgelineError
from ridgeline.operators import FileOutput
from ridgeline.testing import END_WINDOW, ListInput, run_local
from support.manifests import forget_last
from support.testing.shares import share


class Number(NamedTuple):
    value: int


@pytest.mark.parametrize(("roll", "partitions"), share(2, [0, 1000], [1, 3]))
def test_names_of_segments_are_synced_before_the_record_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, roll: float
) -> None:
    synced: list[str] = []
    for name in ("fsync", "fdatasync"):
        call = getattr(os, name)

        def traced(file: int, call: object = call) -> None:
            synced.append(str(Path(f"/proc/self/fd/{file}").readlink()))
            call(file)  # type: ignore[operator]

        monkeypatch.setattr(os, name, traced)
    items = [item for value in range(12) for item in ((value,), *([END_WINDOW] if value % 3 == 2 else []))]
    app = Application("synced")
    output = FileOutput(path=tmp_path / "out", format="jsonl", roll_seconds=roll)
    app.read("numbers", ListInput(Number, items)).write("store", output, partitions=partitions)
    run_local(app, checkpoint=tmp_path / "state")
    segments = [at for at, path in enumerate(synced) if path.endswith(".segment")]
    assert segments
    for at in segments:
        folder = str(Path(synced[at]).parent)
        record = next(later for later in range(at, len(synced)) if "/state/journal/" in synced[later])
        assert folder in synced[at:record], synced[at : record + 1]


@pytest.mark.parametrize("lost", [1, 2])
def test_a_cut_journal_is_told_by_what_is_published_where_the_note_is_gone_too(
    tmp_path: Path, lost: int
) -> None:
    items = [item for value in range(12) for item in ((value,), END_WINDOW)]
    app = Application("cut")
    output = FileOutput(path=tmp_path / "out", format="jsonl", roll_seconds=0)
    app.read("numbers", ListInput(Number, items)).write("store", output)
    run_local(app, windows=5, checkpoint=tmp_path / "state")
    for _ in range(lost):
        forget_last(tmp_path / "state")
    (tmp_path / "state" / "committed" / "last").unlink()
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.jsonl")}
    message = (
        rf"newer than the checkpoint .* window 4 of this run is published, window {4 - lost} is committed"
    )
    with pytest.raises(RidgelineError, match=message):
        run_local(app, checkpoint=tmp_path / "state")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.jsonl")} == before

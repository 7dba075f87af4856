"""Rewind runs to kept windows: states, outputs, refusals, and deaths at every step."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ridgeline import (
    Application,
    CheckpointError,
    InputPort,
    Operator,
    Publisher,
    PublisherContext,
    RidgelineError,
)
from ridgeline.api.clock import SystemClock
from ridgeline.cli.main import app
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import SourceOffsets
from ridgeline.engine.driver.checkpoint.upkeep.contents import describe, runs_of
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.operators import ConsoleOutput, FileInput, FileOutput, FileReplayInput, from_iterable
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    Edit,
    RenameOperator,
    Repartition,
    ReplaceOperator,
    SetProperty,
)
from ridgeline.testing import CollectorSink, SteppingClock, run_local
from support.rewound import LAST, Count, Numbers, application, rows, wanted


def test_a_rewind_is_refused_where_it_cannot_be_made_and_changes_nothing(tmp_path: Path) -> None:
    run_local(application(), windows=4, checkpoint=tmp_path / "a")
    with pytest.raises(CheckpointError, match="to window 99: it can be rewound to"):
        run_local(application(), checkpoint=tmp_path / "a", from_window=99)
    assert run_local(application(), windows=1, checkpoint=tmp_path / "a").window_ids == [4]
    with pytest.raises(CheckpointError, match="to window 0: it has none yet"):
        run_local(application(), checkpoint=tmp_path / "b", from_window=0)


def test_outputs_that_cannot_take_back_refuse(tmp_path: Path) -> None:
    class Shown(Publisher):
        def open(self, context: PublisherContext, state: Any) -> None:
            self.context = context

    class Show(Operator):
        input = InputPort(Count)

        @input.process
        def show(self, count: Count) -> None:
            pass

        def publisher(self) -> Publisher:
            return Shown()

    run_local(application(Show()), windows=4, checkpoint=tmp_path)
    with pytest.raises(RidgelineError, match=r"`sink` cannot take back .* after window 2; give `Shown` a"):
        run_local(application(Show()), checkpoint=tmp_path, from_window=2)


class Reading:
    """Runs of an application that reads what the test may take away: files, rows that are staged, a queue."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.items = iter([Count(0, number) for number in range(40)])
        (folder / "files").mkdir()

    def run(self, windows: int, **more: Any) -> None:
        app = Application("reading", window="20ms", windows_kept=100)
        source: Any = Numbers(most=400)
        if self.kind == "files":
            source = FileInput(f"{self.folder}/files/*.jsonl", Count, settle=0, discover_every=0)
        elif self.kind == "replay":
            source = FileReplayInput(f"{self.folder}/files", Count, format="jsonl", rows_per_window=10)
        elif self.kind == "items":
            source = from_iterable(self.items, Count)
        data = app.add_operator("source", source)
        sink = app.add_operator("sink", FileOutput(str(self.folder), format="jsonl", roll_seconds=0))
        apart = {sink.input} if self.kind == "queue" else set()
        output = data.numbers if self.kind == "queue" else data.output
        app.add_stream("counts", output, sink.input, decoupled=apart, keep="40ms")
        if self.kind == "queue" and "from_window" in more:
            more["region"] = "sink"
        small = {"source.window_records": "4"} if self.kind == "items" else {}
        clock = SystemClock() if self.kind == "files" else SteppingClock()
        state = self.folder / "state"
        run_local(app, windows=windows, checkpoint=state, properties=small, clock=clock, **more)

    def take_away(self) -> None:
        """What the first windows have read; of queues that has happened."""
        for pattern in ("files/1.jsonl", "state/staging/inputs/*/*/*.rows"):
            for path in sorted(self.folder.glob(pattern), key=lambda path: path.name)[:1]:
                path.unlink()


@pytest.mark.parametrize("kind", ["files", "replay", "items", "queue"])
def test_an_input_says_how_far_it_can_go_back_before_anything_changes(kind: str, tmp_path: Path) -> None:
    reading = Reading(kind, tmp_path)
    for number in range(4):
        lines = (f'{{"key": 0, "total": {10 * number + one}}}\n' for one in range(10))
        (tmp_path / "files" / f"{number}.jsonl").write_text("".join(lines))
        if kind == "replay" and number < 3:
            continue  # its list of files is made in the first window
        reading.run(3 if kind != "queue" else 20)
    before = sorted(rows(tmp_path))
    reading.take_away()
    with pytest.raises(CheckpointError, match="cannot go back so far") as refused:
        reading.run(1, from_window=0)
    assert sorted(rows(tmp_path)) == before
    named = re.search(r"rewind to window (\d+) or later", str(refused.value))
    assert named is not None, refused.value
    reading.run(20, from_window=int(named[1]))
    after = sorted(rows(tmp_path))
    assert all(row in after for row in before)
    assert len(after) == len({tuple(row) for row in after})


@pytest.mark.parametrize("format", ["text", "jsonl"])
def test_the_console_says_what_does_not_count(tmp_path: Path, format: Any) -> None:
    text = io.StringIO()
    app = application(ConsoleOutput(format=format))
    run_local(app, windows=4, checkpoint=tmp_path, console=Console(file=text))
    run_local(app, windows=1, checkpoint=tmp_path, console=Console(file=text, width=200), from_window=2)
    assert "rewound: what was printed after window 2 does not count" in text.getvalue()


def test_the_command_lists_the_windows_that_can_be_gone_back_to(tmp_path: Path) -> None:
    run_local(application(), checkpoint=tmp_path)
    run_local(application(), windows=1, checkpoint=tmp_path, from_window=8)
    found = CliRunner().invoke(app, ["checkpoint", "describe", str(tmp_path)]).output
    assert "last window 11, plan version " in found, found
    assert "windows to go back to: 11, 10 (repeats 8), 8" in found, found
    assert CliRunner().invoke(app, ["checkpoint", "describe", str(tmp_path / "nothing")]).exit_code != 0


def test_a_run_with_a_spark_source_is_refused_in_process(tmp_path: Path) -> None:
    run_local(application(), windows=3, checkpoint=tmp_path)
    owned = Checkpoint(LocalStorage(str(tmp_path)), "rewound")
    last = owned.last()
    assert last is not None
    for window in (3, 4):
        owned.commit(replace(last, window_id=window, offsets=SourceOffsets(["numbers"], "", "", {}, {}, 0)))
    owned.close()
    with pytest.raises(CheckpointError, match="to window 3 in process: its Spark sources have a log of"):
        run_local(application(), checkpoint=tmp_path, from_window=3)


def test_a_rewind_takes_changes_of_the_plan_back(tmp_path: Path) -> None:
    expected = wanted(tmp_path / "straight")
    app = application(FileOutput(path=str(tmp_path / "out"), roll_seconds=0))
    changes = {2: [Repartition("totals", 3)], 4: [Repartition("sink", 2), Repartition("totals", 5)]}
    first = run_local(app, windows=LAST + 1, checkpoint=tmp_path / "state", changes=changes)
    assert [one.state for one in first.changes] == ["APPLIED", "APPLIED"]
    counts = []
    for window in (3, 1):
        run = run_local(app, windows=1, checkpoint=tmp_path / "state", from_window=window)
        counts.append(run.plan.logical.operator("totals").attributes["partitions"])
    assert counts == [3, 2]
    again = run_local(app, checkpoint=tmp_path / "state", changes={10: [Repartition("totals", 1)]})
    assert [one.state for one in again.changes] == ["APPLIED"]
    assert sorted(rows(tmp_path / "out")) == expected


class Kept(Publisher):
    """Shows into a list, and takes nothing back."""

    def rewind(self, window_id: int, state: Any, at: int) -> None:
        pass


class Keep(Operator):
    input = InputPort(Count)
    color: str = "red"

    @input.process
    def keep(self, count: Count) -> None:
        pass

    def publisher(self) -> Publisher:
        return Kept()


KEPT = {"class": f"{__name__}.Keep"}


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ([AddOperator("more", KEPT), AddSink("totals", "more.input")], "`more` was not there in window 1"),
        ([ReplaceOperator("sink", KEPT)], "`sink` was another one, or elsewhere, in window 1"),
        ([SetProperty("sink", "path", "elsewhere")], "`sink` was another one, or elsewhere, in window 1"),
        ([RenameOperator("sink", "store")], "`sink` is gone; it was there in window 1"),
    ],
)
def test_a_rewind_across_a_change_of_an_output_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edits: list[Edit], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    app = application(FileOutput(path="out", roll_seconds=0))
    run = run_local(app, windows=5, checkpoint="state", changes={2: edits})
    assert [one.state for one in run.changes] == ["APPLIED"], run.changes
    before = {path: path.read_bytes() for path in tmp_path.glob("*/*-*")}
    with pytest.raises(CheckpointError, match=f"{re.escape(reason)}, .*; rewind to window 2 or later"):
        run_local(app, checkpoint="state", from_window=1)
    assert {path: path.read_bytes() for path in tmp_path.glob("*/*-*")} == before
    assert run_local(app, windows=1, checkpoint="state").window_ids == [5]
    assert run_local(app, windows=1, checkpoint="state", from_window=2).window_ids == [7]


def test_a_rewind_with_an_output_elsewhere_is_refused_at_the_start(tmp_path: Path) -> None:
    first, second = (application(FileOutput(path=str(tmp_path / name))) for name in ("out", "other"))
    run_local(first, windows=4, checkpoint=tmp_path / "state")
    with pytest.raises(CheckpointError, match=r"`sink` was .* in window 3.*; start with it as it was"):
        run_local(second, checkpoint=tmp_path / "state", from_window=1)


@pytest.mark.parametrize("versions", [[None, "red", None], ["red", None, "red"], ["red", "blue", "red"]])
def test_an_output_without_a_state_counts(tmp_path: Path, versions: list[str | None]) -> None:
    def version(color: str | None) -> Application:
        app = application(FileOutput(path=str(tmp_path / "out"), roll_seconds=0))
        numbers = app.add_operator("more", Numbers())
        sink = app.add_operator("kept", CollectorSink(Count) if color is None else Keep(color=color))
        app.add_stream("kept", numbers.numbers, sink.input)
        return app

    for color in versions:
        run_local(version(color), windows=2, checkpoint=tmp_path / "state")
    with pytest.raises(CheckpointError, match=r"`kept` .*; rewind to window 4 or later"):
        run_local(version(versions[-1]), checkpoint=tmp_path / "state", from_window=1)
    assert run_local(
        version(versions[-1]), windows=1, checkpoint=tmp_path / "state", from_window=4
    ).window_ids == [7]


@pytest.mark.parametrize("seed", range(3))
def test_after_any_rewinds_files_hold_what_one_straight_run_writes(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    expected = wanted(tmp_path / "straight")
    format, roll = random.choice(["jsonl", "parquet"]), random.choice([0, 2, 5, 1000])
    app = application(FileOutput(path=str(tmp_path / "out"), format=format, roll_seconds=roll))
    attributes = {"snapshot_interval": random.choice([1, 2]), "windows_kept": random.choice([1, 3, 12])}

    def go_on(windows: int | None, window: int | None) -> None:
        run_local(
            app,
            windows=windows,
            from_window=window,
            checkpoint=tmp_path / "state",
            interleave=random.choice([None, 1, 2]),
            attributes=attributes,
            changes={random.randrange(12): [Repartition("totals", random.randrange(1, 6))] for _ in range(3)},
        )

    go_on(random.randrange(2, 8), None)
    for _ in range(3):
        kept = [one.window_id for run in runs_of(str(tmp_path / "state")) for one in describe(run).windows]
        go_on(random.randrange(1, 6), random.choice(kept))
    go_on(None, None)
    assert sorted(rows(tmp_path / "out")) == expected

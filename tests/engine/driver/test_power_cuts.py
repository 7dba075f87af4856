"""Power cuts of the real storage: what was synced so far is always enough to go on, and nothing is lost."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Operator,
    OutputPort,
    Publisher,
    State,
)
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.measure.events import WindowCommitted
from ridgeline.operators import FileOutput
from ridgeline.testing import run_local
from support.engine.power import Power

WINDOWS, A_WINDOW = 6, 40


class Row(NamedTuple):
    key: int
    total: int


class Numbers(InputOperator):
    output = OutputPort(Row)
    position = State(0)

    def emit_tuples(self):
        for number in range(self.position, self.position + A_WINDOW):
            self.output.emit(Row(number % 50, number))
        self.position += A_WINDOW
        if self.position == WINDOWS * A_WINDOW:
            self.finish()


class Totals(Operator):
    """Sums by key, beside texts so long that a window's changes become a file."""

    rows = InputPort(Row, key="key")
    totals = OutputPort(Row)
    sums = KeyedState(int, default=0)
    texts = KeyedState(str, default="")

    @rows.process
    def add(self, row):
        self.sums[row.key] += row.total
        self.texts[row.key] = f"{row.total:04d}" * 500
        self.totals.emit(Row(row.key, self.sums[row.key]))


class Shown(Publisher):
    """Counts the syncs before each window that it shows."""

    power = None
    windows = None

    def open(self, context, state):
        """There is nothing to go on with."""

    def stage(self, window_id, values):
        return None

    def publish(self, window_id):
        if Shown.power is not None:
            Shown.windows.append((len(Shown.power.cuts), window_id))


class Show(Operator):
    rows = InputPort(Row)

    @rows.process
    def take(self, row):
        """Nothing is kept of it."""

    def publisher(self):
        return Shown()


def application(folder: Path) -> Application:
    app = Application("cut", snapshot_interval=2)
    numbers = app.add_operator("numbers", Numbers())
    totals = app.add_operator("totals", Totals(), partitions=2)
    app.add_stream("numbers", numbers.output, totals.rows)
    each = app.add_operator("each", FileOutput(path=str(folder / "each"), format="jsonl", roll_seconds=0))
    some = app.add_operator("some", FileOutput(path=str(folder / "some"), format="jsonl", roll_bytes=3000))
    show = app.add_operator("show", Show())
    app.add_stream("totals", totals.totals, each.input, some.input, show.rows)
    return app


def rows(folder: Path) -> list[tuple[int, int]]:
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return sorted((row["key"], row["total"]) for row in map(json.loads, lines))


def wanted() -> list[tuple[int, int]]:
    sums: dict[int, int] = {}
    found = []
    for number in range(WINDOWS * A_WINDOW):
        sums[number % 50] = sums.get(number % 50, 0) + number
        found.append((number % 50, sums[number % 50]))
    return sorted(found)


def failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int = 1, place: str = "", made: Sequence[str] = ()
) -> list[str]:
    """What goes wrong after cuts at every so many syncs.

    `place`: a path of folders below one that is there, in which output and checkpoint are. `made`: folders
    in it that others have made, and have not synced.
    """
    root = tmp_path / "whole"
    root.mkdir(mode=0o700)
    whole = root / place
    power = Power(root, monkeypatch)
    Shown.power, Shown.windows = power, []
    LocalStorage(str(root)).settle_folder(".")
    for folder in made:
        (whole / folder).mkdir(parents=True, mode=0o700)
    began = len(power.cuts)
    run_local(application(whole), checkpoint=str(whole / "state"))
    shown, cuts = list(Shown.windows), list(power.cuts)
    Shown.power = None
    assert rows(whole / "each") == rows(whole / "some") == wanted()
    found = []
    for number in range(began, len(cuts), every):
        shutil.rmtree(root)
        power.restore(cuts[number], root)
        committed = max((window for syncs, window in shown if syncs <= number), default=-1)
        try:
            run = run_local(application(whole), checkpoint=str(whole / "state"))
            first = min(
                (event.window_id for event in run.events if isinstance(event, WindowCommitted)),
                default=WINDOWS,
            )
        except Exception as error:  # noqa: BLE001  what it is is told
            found.append(f"cut {number}: {type(error).__name__}: {error}")
            continue
        if first <= committed:
            found.append(f"cut {number}: window {committed} was shown, it goes on with window {first}")
        found += [
            f"cut {number}: `{name}` has {len(rows(whole / name))} rows, not {len(wanted())}"
            for name in ("each", "some")
            if rows(whole / name) != wanted()
        ]
    power.close()
    return found


def test_what_was_synced_is_enough_to_go_on(tmp_path, monkeypatch):
    assert failures(tmp_path, monkeypatch, every=3) == []


@pytest.mark.parametrize(
    "made",
    [
        (),
        ("state/state", "state/journal", "state/committed", "state/epochs", "each/.ridgeline", "some"),
    ],
)
def test_folders_outlive_a_cut_whoever_made_them(tmp_path, monkeypatch, made):
    assert failures(tmp_path, monkeypatch, every=9, place="of/mine", made=made) == []


@pytest.mark.slow
def test_what_was_synced_is_enough_to_go_on_after_every_sync(tmp_path, monkeypatch):
    assert failures(tmp_path, monkeypatch) == []

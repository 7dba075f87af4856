"""Drivers that die at any step of a rewind: the run is the old one before its record, the new one after."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ridgeline.engine.driver.checkpoint.journal import Journal
from ridgeline.operators import FileOutput
from ridgeline.plan.edits import Edit, Repartition
from ridgeline.testing import run_local
from support.operators.publishing import KilledError, Steps
from support.rewound import LAST, application, rows, wanted

BACK = 4


@pytest.mark.parametrize(
    ("format", "roll", "changes"),
    [("jsonl", 100, {}), ("parquet", 2, {BACK + 1: [Repartition("totals", 3)]})],
)
def test_a_driver_that_dies_at_any_step_of_a_rewind_loses_nothing_and_shows_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, roll: float, changes: dict[int, list[Edit]]
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = wanted(Path("straight"))
    steps = Steps(monkeypatch)
    append = Journal.append

    def counted(*arguments: object) -> object:
        steps("commit")
        result = append(*arguments)  # type: ignore[arg-type]
        steps("committed")
        return result

    monkeypatch.setattr(Journal, "append", counted)
    rewound, folder = set(), Path("at")
    app = application(FileOutput(path="at/out", format=format, roll_seconds=roll))
    run_local(app, windows=LAST + 1, checkpoint=folder / "state", changes=changes)
    before = sorted(rows(folder / "out"))
    folder.rename("saved")
    for survive in range(1000):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree("saved", folder)
        steps.number = 0

        def each(number: int, what: str, survive: int = survive) -> None:
            if number == survive:
                raise KilledError(what)

        steps.each = each
        died = False
        try:
            run_local(app, windows=1, checkpoint=folder / "state", from_window=BACK)
        except KilledError:
            died = True
        steps.each = lambda _number, _what: None
        shown = sorted(rows(folder / "out"))
        assert len(shown) == len({tuple(row) for row in shown})
        assert set(map(tuple, shown)) <= set(map(tuple, before))
        rest = run_local(app, checkpoint=folder / "state")
        rewound.add(rest.window_ids[0] > LAST + 1)
        assert sorted(rows(folder / "out")) == expected
        if not died:
            break
    assert survive > 10
    assert rewound == {False, True}

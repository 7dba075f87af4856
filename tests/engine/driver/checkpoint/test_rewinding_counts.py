"""What counts windows counts them after a rewind as if there had been none: compared with plain loops."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from ridgeline.engine.driver.checkpoint.rewinding import look
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.plan.edits import Repartition
from ridgeline.testing import LocalRun, run_local
from support.counted import STOPPED, TOLD, WINDOWS, Row, application, expected, pairs_of, told
from support.depth import DEPTH, deep

WIDTHS = [(1, None), (2, 1), (3, None), (4, 2), (5, 1), (6, 3), (6, 2)]
SHAPES = [(count, slide, partitions) for count, slide in WIDTHS for partitions in (1, 2, 3)]
QUICK = [(4, 2, 2), (3, None, 1)]
SLOW = [(1, None, 3), (2, 1, 1), (3, None, 2), (4, 2, 3), (5, 1, 2), (6, 3, 1), (6, 2, 3)]
"""Each width, and each number of partitions with and without a slide."""


@pytest.mark.parametrize(
    ("count", "slide", "partitions"),
    [*QUICK, *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW)],
)
def test_results_after_a_rewind_to_any_window_are_those_of_one_straight_run(
    tmp_path: Path, count: int, slide: int | None, partitions: int
) -> None:
    app = application(count, slide, partitions)
    wanted = expected(count, slide, partitions)
    run = run_local(app, checkpoint=tmp_path / "before", windows=STOPPED)
    check(run, wanted, 0)
    step = 1 if (count, slide, partitions) in SLOW or DEPTH > 1 else count - 1
    for target in range(0, STOPPED, step):  # at each place in an application window
        folder = tmp_path / f"to {target}"
        shutil.copytree(tmp_path / "before", folder)
        TOLD.clear()
        again = run_local(app, checkpoint=folder, from_window=target)
        check(again, wanted, target + 1)
        left_out = again.window_ids[0] - target - 1
        seen = {window - left_out: keys for window, keys in TOLD}
        assert seen == {window: told(count)[window] for window in seen}
        assert set(seen) == set(range(target, WINDOWS))


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 2 + deep(5)))]
)
def test_any_rewinds_one_after_the_other_leave_no_trace(tmp_path: Path, seed: int) -> None:
    """Also with windows in flight, and with other partitions since a change of the run."""
    random = Random(seed)
    count, slide, partitions = SHAPES[random.randrange(len(SHAPES))]
    app, wanted = application(count, slide, partitions), expected(count, slide, partitions)
    run = run_local(app, checkpoint=tmp_path, windows=random.randrange(3, WINDOWS))
    places = {window: window for window in run.window_ids}
    for _ in range(4):
        kept = [one.window_id for one in look(LocalStorage(str(tmp_path)))]
        target = random.choice(kept)
        last = max(places)
        run = run_local(
            app,
            checkpoint=tmp_path,
            from_window=target,
            windows=random.randrange(1, WINDOWS),
            interleave=random.choice([None, random.randrange(100)]),
            changes={last + 1: [Repartition("totals", 2)]},
        )
        if target != last:
            places[run.window_ids[0] - 1 if run.window_ids else last + 1] = places[target]
        first = places[target] + 1
        places |= {window: first + number for number, window in enumerate(run.window_ids)}
        check(run, wanted, first)


def test_an_application_window_of_another_length_begins_where_ids_say_so(tmp_path: Path) -> None:
    run_local(application(4, None, 2), checkpoint=tmp_path, windows=STOPPED)
    run = run_local(application(4, None, 2), checkpoint=tmp_path, from_window=7, windows=1)
    assert run.window_ids == [12]
    again = run_local(application(3, None, 2), checkpoint=tmp_path, windows=5)
    assert again.window_ids == [13, 14, 15, 16, 17]  # in the places of 9 to 13
    newest = {pair.key: pair.value for place in (11, 12, 13) for pair in pairs_of(place)}
    found = dict(again.collected("newest_sink", 17))
    assert found == newest


def check(run: LocalRun, wanted: dict[str, list[list[Row]]], first: int) -> None:
    """A run has put out what is wanted from the window on that was its first."""
    for name, rows in wanted.items():
        found = [sorted(map(tuple, run.collected(f"{name}_sink", window))) for window in run.window_ids]
        assert found == rows[first : first + len(found)], (name, first)

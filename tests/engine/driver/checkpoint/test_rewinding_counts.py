"""What counts windows counts them after a rewind as if there had been none: compared with plain loops."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ridgeline.testing import LocalRun, run_local
from support.counted import STOPPED, TOLD, WINDOWS, Row, application, expected, told
from support.depth import DEPTH

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


def check(run: LocalRun, wanted: dict[str, list[list[Row]]], first: int) -> None:
    """A run has put out what is wanted from the window on that was its first."""
    for name, rows in wanted.items():
        found = [sorted(map(tuple, run.collected(f"{name}_sink", window))) for window in run.window_ids]
        assert found == rows[first : first + len(found)], (name, first)

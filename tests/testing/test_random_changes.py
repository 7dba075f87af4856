"""Random changes of an application that runs, in process: it gives what plain Python does."""

from collections.abc import Mapping, Sequence
from random import Random

import pytest

from ridgeline.plan.edits import Edit
from ridgeline.testing import LocalRun, run_local
from support.depth import deep
from support.testing.edited import Model, RandomEdits, application, by_hand, unlike


def check(run: LocalRun, expected: Model, windows: int) -> None:
    assert run.window_ids == list(range(windows))
    assert unlike(expected, windows, run.collected) == []


def made(run: LocalRun, changes: Mapping[int, Sequence[Edit]]) -> dict[int, list[Sequence[Edit]]]:
    """The changes by the windows in which they took effect; all did."""
    assert [(one.state, one.reason) for one in run.changes] == [("APPLIED", "")] * len(changes)
    found: dict[int, list[Sequence[Edit]]] = {}
    for asked in run.changes:
        found.setdefault(asked.window, []).append(asked.what.edits)
    return found


def changes_of(seed: int, windows: int, number: int):
    random, edits = Random(seed), RandomEdits(seed)
    at = sorted(random.sample(range(windows - 14), number))
    return {window: edits.change() for window in at}


@pytest.mark.parametrize(("seed", "interleave"), [(one, 5 if one % 3 else None) for one in range(deep(6))])
def test_each_kind_of_change_at_random_windows(seed, interleave):
    windows = 40
    changes = changes_of(seed, windows, 8)
    app = application(windows, partitions=1 + seed % 5, windows_in_flight=3)
    run = run_local(app, changes=changes, interleave=interleave)
    check(run, by_hand(windows, made(run, changes)), windows)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_three_hundred_changes_in_one_run(seed):
    windows = 620
    changes = changes_of(seed, windows, 300)
    app = application(windows, partitions=3, windows_in_flight=4)
    run = run_local(app, changes=changes, interleave=seed)
    check(run, by_hand(windows, made(run, changes)), windows)

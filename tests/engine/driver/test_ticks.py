"""Windows that begin with the clock while others are under way."""

from __future__ import annotations

import itertools

import pytest

from ridgeline.measure.events import WindowCommitted, WindowPlanned
from support.engine.driven import WIDTH, Driven, Tick


def test_what_has_begun_when_the_run_is_stopped_is_committed_and_nothing_else():
    driven = Driven(seconds=0.3)
    driven.stop_at = 5
    assert driven.drive() == list(range(6))
    assert [event.window_id for event in driven.of(WindowPlanned)] == list(range(6))


@pytest.mark.guide("002", "Streaming Window")
def test_windows_are_due_by_the_clock_whatever_is_under_way():
    driven = Driven(seconds=0.25)
    driven.drive(windows=6)
    planned = driven.of(WindowPlanned)
    dues = [event.due - planned[0].due for event in planned]
    assert dues == pytest.approx([number * WIDTH for number in range(6)])
    assert all(event.at >= event.due for event in planned)


def test_windows_in_which_nothing_moves_cost_no_commit():
    """They are committed with the next that is not empty, after a second, and when the run is to stop."""
    driven = Driven(0.0, every=25)
    commit, records = driven.checkpoint.commit, []

    def note(manifest, changes):
        records.append((manifest.window_id, driven.clock.monotonic()))
        assert [event.window_id for event in driven.of(WindowCommitted)] == list(
            range(driven.run.next_window)
        )
        return commit(manifest, changes)

    driven.checkpoint.commit = note
    assert driven.drive(windows=53) == list(range(53))
    windows, times = zip(*records, strict=True)
    assert {0, 25, 50, 52} <= set(windows)
    assert len(windows) <= 12
    assert max(after - before for before, after in itertools.pairwise(times)) <= 1 + 2 * WIDTH
    assert driven.checkpoint.last().window_id == 52
    assert driven.run.publishers["sink"].tuples(None) == [Tick(0), Tick(1), Tick(2)]
    held = [event for event in driven.of(WindowCommitted) if event.held_seconds]
    assert len(held) > 30
    assert max(event.published - event.began for event in held) < 2 * WIDTH  # the times are without it
    assert all(event.at >= event.published + event.held_seconds - 1e-6 for event in held)


@pytest.mark.guide("004", "Window Generator")
@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.3])
def test_exactly_so_many_windows_begin_and_are_committed(seconds):
    driven = Driven(seconds)
    assert driven.drive(windows=7) == list(range(7))
    assert [event.window_id for event in driven.of(WindowPlanned)] == list(range(7))
    assert driven.run.publishers["sink"].tuples(None) == [Tick(number) for number in range(7)]

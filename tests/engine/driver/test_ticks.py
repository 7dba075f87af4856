"""Windows that begin with the clock while others are under way, and what ends an application meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from ridgeline.api.errors import ApplicationKilledError
from ridgeline.engine.driver.run.changes import Asked
from ridgeline.measure.events import ApplicationChanged, WindowCommitted, WindowPlanned, WindowStarted
from ridgeline.stram.changes import Kill, Pause, Resume, Shutdown, What
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


class Controlled(Driven):
    """A run that is asked for something once a window has begun."""

    def __init__(self, seconds: float = 0.0, in_flight: int = 3) -> None:
        self.asks: dict[int, list[What]] = {}
        self.asked: list[Asked] = []
        self.after_pause: Callable[[], None] = lambda: None
        super().__init__(seconds, in_flight)

    def observe(self, event) -> None:
        super().observe(event)
        if isinstance(event, WindowStarted):
            for what in self.asks.pop(event.window_id, []):
                self.ask(what)

    def ask(self, what: What) -> None:
        self.asked.append(self.run.changes.ask(what, "test"))


@pytest.mark.parametrize("seconds", [0.0, 0.25])
def test_no_window_begins_while_the_application_is_paused(seconds):
    driven = Controlled(seconds)
    driven.asks[4] = [Pause()]
    wait, paused = driven.run.wait_until_due, []

    def waiting(*arguments):
        """The pause: an hour later somebody asks to go on."""
        if driven.run.paused:
            paused.append((driven.run.master.under_way, len(driven.of(WindowPlanned))))
            if len(paused) == 3:
                driven.clock.advance(3600.0)
                driven.ask(Resume())
        wait(*arguments)

    driven.run.wait_until_due = waiting
    assert driven.drive(windows=9) == list(range(9))
    assert [one.state for one in driven.asked] == ["APPLIED", "APPLIED"]
    assert paused == [(0, paused[0][1])] * 3, "what had begun is committed, and nothing begins"
    planned = driven.of(WindowPlanned)
    assert all(event.at - event.due < 10 * WIDTH + 1 for event in planned), "none was due in the pause"
    assert driven.run.publishers["sink"].tuples(None) == [Tick(number) for number in range(9)]
    told = [(event.what, event.state) for event in driven.of(ApplicationChanged)]
    assert told == [("pause", "APPLIED"), ("resume", "APPLIED")]


def test_who_shuts_an_application_down_has_all_that_began_committed():
    driven = Controlled(seconds=0.25)
    driven.asks[5] = [Shutdown()]
    committed = driven.drive()
    assert committed == list(range(len(driven.of(WindowPlanned))))
    assert committed[-1] >= 5
    assert driven.asked[0].state == "APPLIED"


def test_what_is_under_way_when_an_application_is_killed_is_void():
    driven = Controlled(seconds=0.25)
    driven.asks[5] = [Kill()]
    with pytest.raises(ApplicationKilledError, match="killed by test; it goes on from its last commit"):
        driven.drive()
    committed = [event.window_id for event in driven.of(WindowCommitted)]
    assert committed == list(range(len(committed)))
    assert len(committed) < len(driven.of(WindowPlanned))
    assert driven.asked[0].state == "APPLIED"

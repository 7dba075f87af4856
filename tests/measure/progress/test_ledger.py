"""The books of an input that looks only in its windows."""

import pytest

from ridgeline.measure.events import SourceProgress
from ridgeline.measure.progress.backlog import SourceBacklog
from ridgeline.measure.progress.sources import Done, SourceLevel
from ridgeline.measure.progress.verdict import Verdict

WINDOW = 0.05
LATE = Done({}, late=True)


def run_windows(source: SourceLevel, begin: float, seconds: float, every: float, per_second: float) -> float:
    """Windows that take all that has arrived; returns the time of the last one."""
    number, at = round(begin / WINDOW), begin
    consumed = source.latest[1].consumed if source.latest else 0.0
    while at < begin + seconds:
        at += every
        number += 1
        consumed = (consumed or 0.0) + per_second * every
        source.add(SourceProgress(at=at, window_id=number, operator=1, consumed=consumed, remaining=0.0))
        source.flush(at, Done({}, late=False))
    return at


def test_what_has_stopped_to_arrive_is_not_assumed_to_come():
    source = SourceLevel(SourceBacklog(window_seconds=WINDOW), (1,))
    at = run_windows(source, 0.0, 20.0, WINDOW, 400.0)
    at = run_windows(source, at, 30.0, 0.4, 0.0)
    source.follow(at + 0.3, LATE)
    state = source.state(at + 0.3, LATE)
    assert state.backlog.value == pytest.approx(0.0, abs=1.0)
    assert state.verdict is Verdict.KEEPING_UP


def test_what_arrives_while_a_window_runs_is_assumed_to_come_as_before():
    source = SourceLevel(SourceBacklog(window_seconds=WINDOW), (1,))
    at = run_windows(source, 0.0, 20.0, WINDOW, 400.0)
    source.follow(at + 5.0, LATE)
    assert source.state(at + 5.0, LATE).backlog.value == pytest.approx(2000.0, rel=0.01)

"""Forecasts of when a source has caught up, compared with what came."""

import pytest

from ridgeline.measure.progress.backlog import SourceBacklog
from ridgeline.measure.progress.sources import Forecasts


def watched(waiting, *, drain=100.0):
    """The forecasts of a source of which so much waits at each second."""
    backlog, forecasts, consumed = SourceBacklog(window_seconds=1.0), Forecasts(), 0.0
    for second, remaining in enumerate(waiting):
        consumed += drain
        backlog.add(float(second), consumed, remaining)
        if forecasts.is_due(second):
            forecasts.look(float(second), backlog.state(float(second)))
        yield forecasts


def test_a_steady_fall_is_forecast_without_error():
    waiting = [max(0.0, 5000.0 - 100 * second) for second in range(60)]
    *_, last = watched(waiting)
    assert last.error_seconds == pytest.approx(0.0, abs=2.5)  # it keeps up from two windows of work on


def test_a_fall_that_gets_slower_shows_in_the_error_so_far_and_at_the_end():
    waiting = [5000.0 - 100 * min(second, 30) - 20 * max(0, second - 30) for second in range(130)]
    errors = [one.error_seconds for one in watched(waiting)]
    assert errors[0] is None
    early, late = errors[28], errors[-1]
    assert early == pytest.approx(0.0, abs=0.5)
    assert late > 15  # the forecasts of the first 30 seconds were wrong by far more, later ones by less


def test_a_source_that_falls_behind_after_all_has_no_error():
    waiting = [5000.0 - 100 * min(second, 20) + 200 * max(0, second - 20) for second in range(60)]
    *_, last = watched(waiting)
    assert last.error_seconds is None

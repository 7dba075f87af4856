"""Operators that have fallen out of the last windows."""

import pytest

from ridgeline.measure.events import WindowPlanned
from support.measure.story import TOPOLOGY, begin, burst, measured


@pytest.mark.parametrize(("behind", "estimated"), [(5, False), (40, True)])
def test_an_operator_further_behind_than_windows_are_kept_is_as_late_as_that(behind, estimated):
    """Windows of a second; 20 are kept. The window ends `behind` windows after the schedule says."""
    first, *rest = begin(0)
    planned = WindowPlanned(first.at, 0, 0, first.at - behind - 1.0)
    measurement = measured(planned, *rest, *burst(0), stats_max_allowable_windows_lag=20)
    rows = {row["operator"]: row for row in measurement.latency(1.0)["operators"]}
    assert not rows["read"]["estimated"]
    for name in ("sum", "write"):
        assert rows[name]["estimated"] == estimated
        assert (rows[name]["latencyMs"] >= 1000.0 * (behind - 1)) == estimated
    assert len(rows) == len(TOPOLOGY.operators)

"""What a run in process says about its time, on clocks that operators themselves move."""

import pytest

from ridgeline.api.clock import Clock
from ridgeline.measure.latency.window import assemble
from ridgeline.testing import SteppingClock, run_local
from support.measure.simulated_window import operator_latencies, taken_apart
from support.testing.diamond import diamond


class SkewedClock(Clock):
    """Another host's clock: ahead of the true one by `ahead` seconds, and by `drift` more every second."""

    def __init__(self, true: SteppingClock, ahead: float, drift: float) -> None:
        self._true, self._ahead, self._drift = true, ahead, drift

    def wall(self) -> float:
        return self._true.wall() + self._ahead + self._drift * self._true.monotonic()

    def monotonic(self) -> float:
        return self._true.monotonic() * (1 + self._drift)

    def wait(self, seconds, stop=None) -> bool:
        return self._true.wait(seconds, stop)

    def advance(self, seconds: float) -> None:
        self._true.advance(seconds)


@pytest.mark.guide("004", "Latency and Throughput")
def test_two_hosts_clocks_that_disagree_and_drift_change_no_latency():
    windows = 30
    true = run_local(diamond(), windows=windows)
    clock = SteppingClock()
    hosts = [("left", SkewedClock(clock, -0.125, -0.002)), ("right", SkewedClock(clock, 0.125, 0.002))]

    skewed = run_local(
        diamond(), windows=windows, clock=clock, container_clock=lambda container: hosts[container % 2]
    )

    for window in range(10, windows):
        expected, found = (latencies(run, window) for run in (true, skewed))
        assert found == pytest.approx(expected, abs=5.0)
        assert skewed.watch.critical_path(window)["latencyMs"] == pytest.approx(120.0, abs=5.0)
    skew = skewed.watch.info()["stats"]["clockSkew"]
    assert skew["left"] - skew["right"] > 250
    wrong = uncorrected(skewed, windows - 1)
    assert max(abs(wrong[name] - latencies(true, windows - 1)[name]) for name in wrong) > 200


def latencies(run, window):
    return {row["operator"]: row["latencyMs"] for row in run.watch.latency(window)["operators"]}


def uncorrected(run, window):
    """The latencies that the hosts' clocks would give as they are."""
    topology = run.watch.topology
    events = [event for event in run.events if getattr(event, "window_id", None) == window]
    found = operator_latencies(topology, taken_apart(assemble(topology, events)))
    return {topology.by_id[number].title: 1000 * latency.latency for number, latency in found.items()}

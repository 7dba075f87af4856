import random

import pytest

from ridgeline.measure.clocks import ClockOffsets
from ridgeline.measure.events import ContainerWindow, WindowCommitted
from ridgeline.measure.latency.window import Windows, assemble
from support.measure.partitioned import chain
from support.measure.reports import of_reports

START = 1_700_000_000.0


def reading(true, ahead, drift):
    """What a host's clock shows: so much ahead of STRAM's at the start, and so much more each second."""
    return true + ahead + drift * (true - START)


def sending(offsets, host, delays, ahead, drift, every=1.0):
    for number, delay in enumerate(delays):
        true = START + number * every
        offsets.add(host, reading(true, ahead, drift), true + delay)


def corrected(offsets, host, true, ahead, drift):
    shown = reading(true, ahead, drift)
    return shown + offsets.offset(host, shown)


@pytest.mark.parametrize("drift", [-0.005, -0.0001, 0.0, 0.0001, 0.005])
def test_a_long_run_is_followed_although_old_samples_are_forgotten(drift):
    chance = random.Random(613)
    offsets = ClockOffsets()
    delays = [
        chance.uniform(0.0002, 0.001) if chance.random() < 0.2 else chance.uniform(0.01, 0.05)
        for _ in range(500)
    ]
    sending(offsets, "a", delays, 3600.0, drift)
    for true in (START + 450, START + 499, START + 501):
        assert corrected(offsets, "a", true, 3600.0, drift) == pytest.approx(true, abs=0.002)


def test_the_offset_is_over_the_last_samples():
    offsets = ClockOffsets(samples=3)
    for sent, received in ((10, 9), (20, 20.01), (30, 30.02), (40, 40.06)):
        offsets.add("a", sent, received)
    assert offsets.offset("a", 40) == pytest.approx(0.01)  # three are too few for a slope
    assert offsets.skew_ms() == {"a": pytest.approx(10)}


def test_the_line_below_the_points_is_the_edge_over_their_mean_time():
    offsets = ClockOffsets()
    for sent, difference in ((0, 0.100), (1, 0.130), (4, 0.104), (6, 0.150), (8, 0.112), (10, 0.125)):
        offsets.add("a", sent, sent + difference)
    # The hull is (0, .100), (4, .104), (8, .112), (10, .125); the mean time 29/6 lies between 4 and 8, where
    # it rises by 2 ms a second.
    assert offsets.offset("a", 5) == pytest.approx(0.106)
    assert offsets.offset("a", 12) == pytest.approx(0.120)


def test_a_slope_that_no_clock_has_is_not_believed():
    offsets = ClockOffsets()
    for number in range(10):  # the clock was set forward by a second
        offsets.add("a", number, number + (1.0 if number < 5 else 0.0))
    assert offsets.offset("a", 9) == pytest.approx(0.0, abs=1e-9)


def test_extrapolation_ends_one_span_beyond_the_samples():
    offsets = ClockOffsets()
    sending(offsets, "a", [0.0] * 11, 0.0, 0.001)
    assert offsets.offset("a", START + 20) == pytest.approx(-0.020, abs=1e-4)
    assert offsets.offset("a", START + 1e6) == pytest.approx(-0.020, abs=1e-4)
    assert offsets.offset("a", START - 1e6) == pytest.approx(0.010, abs=1e-4)


def test_the_own_host_and_unknown_ones_have_no_offset():
    offsets = ClockOffsets(own_host="stram")
    offsets.add("stram", 1.0, 2.0)
    assert offsets.offset("stram", 1.0) == 0.0
    assert offsets.offset("b", 1.0) == 0.0
    assert offsets.skew_ms() == {}


@pytest.mark.parametrize("sent", [float("nan"), float("inf"), -1e308])
def test_times_that_cannot_be_are_left_out(sent):
    offsets = ClockOffsets()
    offsets.add("a", sent, 1.0)
    assert offsets.skew_ms() == {}


def test_all_times_of_events_are_corrected_as_one_by_one():
    clocks = ClockOffsets(own_host="near")
    for number in range(20):
        clocks.add("far", 100.0 + number, 100.7 + number * 1.001)
        clocks.add("farther", 100.0 + number, 90.0 + number)
    hosts = ["near", "far", "farther", "unknown"]
    topology = chain(*"abcdef")
    events = [
        ContainerWindow(
            0.0, 1, 0, number, hosts[number % 4], 1, "t", at, at + 1, at + 2, at + 3, at + 4, 0.0, ready=at
        )
        for number, at in enumerate([50.0, 101.0, 110.0, 117.0, 300.0, 1000.0])
    ]
    commit = WindowCommitted(0.0, 1, 1, *[0.0] * 7)
    windows = Windows(topology, [assemble(topology, [of_reports(*events), commit], clocks.lines())])
    columns = {"came": "ready", "turned": "began", "restored": "restored", "ran": "ran", "written": "written"}
    for name, field in columns.items():
        times = [getattr(event, field) for event in events]
        each = [at + clocks.offset(event.host, at) for at, event in zip(times, events, strict=True)]
        assert getattr(windows, name)[0].tolist() == each
    assert windows.sent.tolist() == windows.written.tolist()

import pytest

from ridgeline.measure.progress.throughput import Throughput, Tuples
from ridgeline.measure.topology import Topology
from support.measure.reports import of_reports
from support.measure.simulated_window import operator_ended

START = 1_700_000_000.0


def add(throughput, at, tuples_in, tuples_out):
    throughput.add(of_reports(operator_ended(0, 1, 0.0, tuples_in, tuples_out), at=at))


def test_steady_windows_give_their_rate():
    throughput = Throughput()
    for second in range(1, 31):
        add(throughput, START + second, {"left": 200, "right": 50}, {"out": 25})
    rates = throughput.rates(1, START + 30.5)
    assert rates.inputs == {"left": pytest.approx(200), "right": pytest.approx(50)}
    assert rates.outputs == {"out": pytest.approx(25)}
    assert (rates.tuples_in, rates.tuples_out, rates.seconds) == pytest.approx((250, 25, 10))


def test_only_the_last_interval_counts():
    throughput = Throughput(interval_seconds=2)
    for second, tuples in enumerate((1000, 10, 20), 1):
        add(throughput, START + second, {"in": tuples}, {})
    assert throughput.rates(1, START + 3).tuples_in == pytest.approx(15)


def test_of_a_window_that_began_before_the_interval_its_share_counts():
    throughput = Throughput(interval_seconds=10)
    for end, tuples in ((6, 600), (12, 1200), (18, 300)):
        add(throughput, START + end, {"in": tuples}, {})
    # The last 10 s: 6 s of the third window, 4 of the second's 6 s.
    assert throughput.rates(1, START + 18).tuples_in == pytest.approx((300 + 4 / 6 * 1200) / 10)


def test_windows_longer_than_the_interval_give_the_rate_of_the_last():
    throughput = Throughput(interval_seconds=10)
    add(throughput, START + 60, {"in": 60}, {})
    add(throughput, START + 120, {"in": 1200}, {})
    add(throughput, START + 180, {"in": 600}, {})
    for later in (0, 30, 60):
        assert throughput.rates(1, START + 180 + later).tuples_in == pytest.approx(10)


def test_in_a_stall_the_rate_falls_to_zero_and_ports_stay_known():
    throughput = Throughput(interval_seconds=10)
    for second in range(1, 21):
        add(throughput, START + second, {"in": 100}, {"out": 1})
    # the next window may still be running
    assert throughput.rates(1, START + 21).tuples_in == pytest.approx(100)
    assert throughput.rates(1, START + 26).tuples_in == pytest.approx(50)
    idle = throughput.rates(1, START + 31)
    assert idle.inputs == {"in": pytest.approx(0)}
    assert throughput.rates(1, START + 1e6).outputs == {"out": 0.0}


def test_after_an_idle_hour_the_rate_is_of_the_last_seconds():
    throughput = Throughput(interval_seconds=10)
    for end in (1, 2, 3602, 3603, 3604):
        add(throughput, START + end, {"in": 1000}, {})
    # Two whole windows, and of the one after the pause 8 s of its 3600.
    assert throughput.rates(1, START + 3604).tuples_in == pytest.approx((2000 + 8 / 3600 * 1000) / 10)
    assert throughput.rates(1, START + 3616).tuples_in == pytest.approx(0)


def test_more_windows_than_samples_shorten_the_time_not_the_rate():
    throughput = Throughput()
    for number in range(1, 1_101):
        add(throughput, START + number * 0.001, {"in": 3}, {})
    rates = throughput.rates(1, START + 1.1)
    assert rates.tuples_in == pytest.approx(3000)
    assert rates.seconds == pytest.approx(1.0)


def test_a_clock_that_was_set_back_divides_by_nothing():
    throughput = Throughput()
    add(throughput, START, {"in": 10}, {})
    add(throughput, START, {"in": 10}, {"out": 2})
    add(throughput, START - 50, {"in": 10}, {})
    assert throughput.rates(1, START - 50) == Tuples({"in": 30.0}, {"out": 2.0}, 1.0)


def test_a_clock_that_was_set_back_with_a_new_plan_is_followed():
    throughput = Throughput()
    add(throughput, START, {"in": 10}, {})
    throughput.planned(Topology((), ()))
    add(throughput, START - 50, {"in": 30}, {})
    assert throughput.rates(1, START - 50) == Tuples({"in": 30.0}, {}, 1.0)
    assert throughput.totals(1) == Tuples({"in": 40})

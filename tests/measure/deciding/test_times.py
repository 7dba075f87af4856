from ridgeline.measure.deciding.fold import PastWindows
from ridgeline.measure.latency.fold import LatencyFold
from support.measure.simulated_window import BASE, SEED_MS, run, seed_graph


def kept(past):
    return [times.window_id for times, _ in past.take()]


def window(number):
    topology, fold = seed_graph(), LatencyFold()
    times = run(topology, SEED_MS, window_id=number, began=BASE + number)
    fold.add(topology, times)
    return times, fold.last


def test_a_window_that_is_folded_again_counts_once():
    past = PastWindows()
    for number in (0, 1, 1, 0):
        past.add(*window(number))
    assert kept(past) == [0, 1]


def test_of_many_operators_fewer_windows_are_kept(monkeypatch):
    monkeypatch.setattr("ridgeline.measure.deciding.fold._MOST_REPORTS", 20)
    past = PastWindows()
    for number in range(10):
        past.add(*window(number))
    assert kept(past) == [7, 8, 9]

"""Promises are kept or broken within a window of the truth, whatever the trace."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.sla import (
    Keeping,
    Observation,
    caught_up_within,
    error_share,
    late_share,
    latency,
    loss,
    record_age,
    throughput,
    window_latency,
)

# (gap before the window, paused for that gap, latency, tuples, errors)
GAPS = st.sampled_from([0.25, 0.5, 1.0, 4.0, 12.0])
STEP = st.tuples(GAPS, st.booleans(), st.sampled_from([0.5, 1.0, 2.0, 2.5, 9.0]), st.integers(0, 50))
TRACES = st.lists(st.tuples(STEP, st.integers(1, 25), st.integers(0, 3)), max_size=12)
PROMISES = [
    latency("store", p50="2s", over="10s"),
    latency("store", p99="2s", over="10s"),
    window_latency(p90="2s", over="10s"),
    error_share("store", at_most=0.1, over="10s"),
    throughput("store", at_least=20, over="10s"),
]


def oracle(active: list[tuple[float, float, int, int]]) -> list[bool | None]:
    """The truth from all windows, by sorting and adding."""
    now = active[-1][0]
    recent = [one for one in active if one[0] > now - 10]
    late = sorted(one[1] for one in recent)
    quantiles = [late[math.ceil(len(late) * percent / 100) - 1] <= 2 for percent in (50, 99, 90)]
    tuples, errors = sum(one[2] for one in recent), sum(one[3] for one in recent)
    share = errors / tuples <= 0.1 if tuples else None
    whole = now - active[0][0] >= 10
    return [*quantiles, share, tuples / 10 >= 20 if whole else None]


@given(TRACES)
def test_verdicts_are_those_of_an_oracle_after_every_window(
    trace: list[tuple[tuple[float, bool, float, int], int, int]],
) -> None:
    keeping = Keeping(PROMISES)
    at, time, windows = 1000.0, 0.0, []
    for (gap, pause, late, tuples), times, errors in trace:
        for turn in range(times):
            at += gap
            if pause and turn == 0 and windows:
                assert keeping.tick(at=at, wall=0.0, paused=True) == []
            elif windows:
                time += gap
            windows.append((time, late, tuples, errors))
            seen = Observation(late, {"store": late}, {"store": tuples}, {"store": errors})
            keeping.on_window(seen, at=at, wall=at)
            assert [state.kept for state in keeping.states] == oracle(windows)


def test_without_windows_nothing_is_said() -> None:
    keeping = Keeping([*PROMISES, caught_up_within("10m")])
    assert keeping.tick(at=5.0, wall=5.0, overdue=100.0) == keeping.tick(at=500.0, wall=500.0) == []
    assert {state.kept for state in keeping.states} == {None}


def test_a_window_that_hangs_breaks_its_latency_before_it_commits() -> None:
    keeping = Keeping([window_latency(p99="2s"), latency("store", p99="2s")])
    assert keeping.on_window(Observation(1.0, {"store": 1.0}), at=1.0, wall=101.0)[0].kept
    assert keeping.tick(at=3.0, wall=103.0, overdue=1.9) == []
    (broken,) = keeping.tick(at=3.2, wall=103.2, overdue=2.1)
    assert (broken.kept, broken.at, broken.figure) == (False, 103.2, 2.1)
    assert keeping.states[1].kept, "which operator is late is not known yet"


def test_silence_breaks_throughput_but_a_pause_does_not() -> None:
    seen = Observation(0.1, tuples={"store": 100})
    for paused, kept in ((True, True), (False, False)):
        keeping = Keeping([throughput("store", at_least=50, over="10s")])
        for second in range(12):
            keeping.on_window(seen, at=float(second), wall=0.0)
        keeping.tick(at=60.0, wall=0.0, paused=paused)
        assert keeping.states[0].kept is kept


def test_an_operator_that_is_removed_or_renamed_leaves_no_verdict() -> None:
    keeping = Keeping([latency("store", p99="2s")])
    assert keeping.on_window(Observation(9.0, {"store": 9.0}), at=1.0, wall=1.0)[0].kept is False
    assert keeping.on_window(Observation(9.0, {"shop": 9.0}), at=2.0, wall=2.0)[0].kept is None
    assert keeping.on_window(Observation(1.0, {"store": 1.0}), at=3.0, wall=3.0)[0].kept is True


def test_clocks_that_are_set_back_forget_nothing() -> None:
    keeping = Keeping([latency("store", p99="2s", over="10s")])
    keeping.on_window(Observation(9.0, {"store": 9.0}), at=100.0, wall=100.0)
    keeping.on_window(Observation(1.0, {"store": 1.0}), at=5.0, wall=5.0)
    assert keeping.states[0].kept is False
    assert keeping.states[0].at == 100.0
    keeping.on_window(Observation(1.0, {"store": 1.0}), at=16.0, wall=16.0)
    assert keeping.states[0].kept is True


def test_late_records_break_their_own_promise_and_no_other() -> None:
    keeping = Keeping([error_share("store", at_most=0.1), late_share("store", at_most=0.1)])
    seen = Observation(1.0, {}, {"store": 10}, {"store": 0}, {"store": 2})
    keeping.on_window(seen, at=1.0, wall=1.0)
    assert [(state.kept, state.figure) for state in keeping.states] == [(True, 0.0), (False, 0.2)]


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=40), min_size=1, max_size=20))
def test_ages_are_those_of_records_not_of_windows(windows: list[list[int]]) -> None:
    keeping = Keeping([record_age("sink", p90="5s", over="30d")])
    for number, ages in enumerate(windows):
        values, counts = np.unique(np.array(ages, float), return_counts=True)
        seen = Observation(0.1, tuples={"sink": len(ages)}, ages={"sink": (values, counts)})
        keeping.on_window(seen, at=float(number), wall=float(number))
    every = sorted(age for ages in windows for age in ages)
    [state] = keeping.states
    assert state.kept is (every[math.ceil(0.9 * len(every)) - 1] <= 5)
    assert state.figure == sorted(windows[-1])[math.ceil(0.9 * len(windows[-1])) - 1]


def test_a_long_period_forgets_what_is_older() -> None:
    keeping, events = Keeping([loss(at_most=0.5, over="1d")]), []
    for part in range(6 * 24 * 2):
        at = 600.0 * part
        seen = Observation(0.1, entered=100, lost=60 if at < 7200 else 1)
        events += keeping.on_window(seen, at=at, wall=at)
    assert [one.kept for one in events] == [False, True]

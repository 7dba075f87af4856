import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.measure.events import WindowPlanned
from ridgeline.measure.progress.backlog import SourceBacklog
from ridgeline.measure.progress.estimate import Basis, Estimate
from ridgeline.measure.progress.verdict import Verdict, worst
from ridgeline.measure.progress.windows import WindowSchedule
from support.depth import deep
from support.measure.reports import add

CAPACITY = 1000.0  # records a second that the application can drain
PHASES = (  # seconds, arrivals and drain in units of the capacity
    ("keeping up", 30, 0.5, 1.0),
    ("stuck", 30, 0.5, 0.0),
    ("falling behind", 30, 3.0, 1.0),
    ("not catching up", 60, 1.0, 1.0),
    ("catching up", 400, 1 / 3, 1.0),
)


def samples(window, noise, seed, phases=PHASES):
    """One sample a window: (phase, at, consumed, remaining).

    The last phase ends thirty seconds after the backlog is gone.
    """
    dice = random.Random(seed)
    consumed = backlog = at = 0.0
    gone = None
    for number, (phase, seconds, arrivals, drain) in enumerate(phases):
        for _ in range(round(seconds / window)):
            at += window
            backlog += round(arrivals * CAPACITY * window * dice.uniform(1 - noise, 1 + noise))
            done = min(backlog, drain * CAPACITY * window)
            consumed, backlog = consumed + done, backlog - done
            if number == len(phases) - 1 and backlog == 0 and gone is None:
                gone = at
            if gone is not None and at > gone + 30:
                return
            yield phase, at, consumed, backlog


def begin(schedule, number, at, late):
    """A window begins, so much after it was due."""
    schedule.planned(WindowPlanned(at, number, plan_version=1, due=at - late))


@pytest.mark.parametrize("window", [1.0, 0.1])
@pytest.mark.parametrize("noise", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("seed", range(deep(2)))
def test_a_source_that_pauses_and_returns_goes_through_all_verdicts(window, noise, seed):
    source = SourceBacklog(window_seconds=window)
    seen, end = [], None
    predictions = []
    begin = None
    for phase, at, consumed, remaining in samples(window, noise, seed):
        add(source, at, consumed, remaining)
        state = source.state(at)
        seen.append((phase, at, state.verdict.value))
        if phase == "catching up" and end is None:
            begin = at if begin is None else begin
            end = at if remaining == 0 else None
            if state.verdict is not Verdict.KEEPING_UP:
                predictions.append((at, state.caught_up_at))
    runs = [verdict for verdict, _ in itertools.groupby(verdict for _, _, verdict in seen)]
    assert [
        verdict
        for verdict in runs[: runs.index("stuck")]
        if verdict not in {"unknown", "not catching up", "falling behind"}
    ] == ["keeping up"]
    assert runs[runs.index("stuck") :] == [
        "stuck",
        "falling behind",
        "not catching up",
        "catching up",
        "keeping up",
    ]
    for phase, steps in itertools.groupby(seen, key=lambda step: step[0]):
        verdicts = [verdict for _, _, verdict in steps]
        settled = verdicts[round(11 / window) : round(28 / window)]
        assert set(settled) == {phase}, phase
    late = [
        (at, predicted) for at, predicted in predictions if begin + (end - begin) / 2 <= at < end - 2 * window
    ]
    assert late
    for at, predicted in late:
        assert predicted - at == pytest.approx(end - at, rel=0.2, abs=max(0.5, 2 * window))


@pytest.mark.parametrize("seconds", [12, 20, 40])
@pytest.mark.parametrize("window", [1.0, 0.1])
def test_the_end_of_a_short_catch_up_is_foreseen_in_its_second_half(seconds, window):
    phases = (
        ("stuck", 20, 0.5, 0.0),
        ("falling behind", 5, 3.0, 1.0),
        ("not catching up", 30, 1.0, 1.0),
        ("catching up", 200, 0.0, 0.0),
    )
    backlog = list(samples(window, 0.3, 1, phases[:3]))[-1][3] / CAPACITY
    phases = (*phases[:3], ("catching up", 200, (1 - backlog / seconds) if seconds > backlog else 0.0, 1.0))
    source, checked, end = SourceBacklog(window_seconds=window), [], None
    for phase, at, consumed, remaining in samples(window, 0.3, 1, phases):
        add(source, at, consumed, remaining)
        if phase == "catching up" and end is None:
            state = source.state(at)
            if state.verdict is not Verdict.KEEPING_UP:
                checked.append((at, state.caught_up_at))
            end = at if remaining == 0 else None
    begin = checked[0][0]
    for at, predicted in checked:
        if begin + (end - begin) / 2 <= at < end - 2 * window:
            assert predicted - at == pytest.approx(end - at, rel=0.2, abs=max(0.5, 2 * window))


def test_rates_and_seconds_by_hand():
    source = SourceBacklog(window_seconds=1.0)
    for second in range(31):
        add(source, 100.0 + second, 50.0 * second, 1000.0 - 20.0 * second)
    state = source.state(130.5)
    assert state.verdict is Verdict.CATCHING_UP
    assert (state.drain_per_second, state.arrival_per_second) == (pytest.approx(50.0), pytest.approx(30.0))
    assert state.backlog == Estimate(400.0)
    assert state.seconds.value == pytest.approx(8.0)
    assert state.seconds.basis is Basis.ESTIMATED
    assert state.caught_up_at == pytest.approx(130.0 + 400.0 / 20.0)


@pytest.mark.parametrize(("fewest", "verdict"), [(1.0, Verdict.KEEPING_UP), (0.0, Verdict.NOT_CATCHING_UP)])
def test_the_last_tuple_of_a_rare_stream_is_no_backlog(fewest, verdict):
    source = SourceBacklog(window_seconds=0.25)
    source.fewest = fewest
    for number in range(120):  # a tuple in two seconds, seen before it is read and after
        add(source, number / 2, number // 4, 1.0 if number % 4 == 3 else 0.0)
    assert source.state(59.5).verdict is verdict


@pytest.mark.parametrize(("left", "verdict"), [(0.4, Verdict.KEEPING_UP), (1.0, Verdict.STUCK)])
def test_a_part_of_a_tuple_is_not_stuck_and_a_whole_one_is(left, verdict):
    source = SourceBacklog(window_seconds=0.25)
    source.fewest = 1.0
    for number in range(100):
        add(source, number / 4, min(number, 50), 0.0 if number < 50 else left, basis=Basis.ESTIMATED)
        if number > 60:
            add(source, number / 4, 50, left, basis=Basis.ESTIMATED, counts=False)
    assert source.state(25.0).verdict is verdict


def test_a_file_is_caught_up_with_when_it_is_read():
    source = SourceBacklog(window_seconds=1.0)
    for second in range(21):
        add(source, float(second), 10.0 * second, 200.0 - 10.0 * second)
        if 9 <= second < 18:
            state = source.state(float(second))
            assert (state.verdict, state.arrival_per_second, state.caught_up_at) == (
                Verdict.CATCHING_UP,
                0.0,
                pytest.approx(20.0),
            )
    state = source.state(20.0)
    assert (state.verdict, state.caught_up_at, state.seconds) == (Verdict.KEEPING_UP, None, Estimate(0.0))


def test_a_source_is_stuck_only_after_three_windows():
    for window, width in ((1.0, 5.0), (10.0, 30.0)):
        source = SourceBacklog(window_seconds=window)
        for number in range(5):
            add(source, number * window, number * 10.0, 500.0)
        now = 4 * window
        assert source.state(now + width).verdict is Verdict.NOT_CATCHING_UP
        assert source.state(now + width + 0.1).verdict is Verdict.STUCK


def test_windows_that_take_long_are_not_stuck_between_their_ends():
    source = SourceBacklog(window_seconds=0.1)
    for number in range(10):
        add(source, number * 20.0, number * 10.0, 500.0 + 10.0 * number)
        assert source.state(number * 20.0 + 19.0).verdict is not Verdict.STUCK or number == 0
    assert source.state(200.0).verdict is Verdict.FALLING_BEHIND


@pytest.mark.parametrize("remaining", [None, math.inf])
def test_without_a_finite_backlog_there_is_no_verdict(remaining):
    source = SourceBacklog(window_seconds=1.0)
    for second in range(20):
        add(source, float(second), 10.0 * second, remaining)
    state = source.state(20.0)
    assert state.verdict is Verdict.UNKNOWN
    assert state.drain_per_second == pytest.approx(10.0)
    assert state.backlog.infinite == (remaining is not None)


def test_what_is_left_suffices_without_what_was_consumed():
    source = SourceBacklog(window_seconds=1.0)
    for second in range(10):
        add(source, float(second), None, 100.0 + second)
    state = source.state(10.0)
    assert (state.verdict, state.drain_per_second, state.seconds.known) == (
        Verdict.FALLING_BEHIND,
        None,
        False,
    )


def test_a_source_that_begins_anew_is_judged_anew():
    source = SourceBacklog(window_seconds=1.0)
    for second in range(20):
        add(source, float(second), 10.0 * second, 100.0 + 10 * second)
    add(source, 20.0, 0.0, 300.0, restarted=True)
    assert source.state(20.0).verdict is Verdict.UNKNOWN
    add(source, 19.0, 5.0, 0.0)  # an old sample
    assert source.state(20.0).backlog == Estimate(300.0)


def test_the_worst_verdict_is_what_an_application_gets():
    assert worst([Verdict.KEEPING_UP, Verdict.UNKNOWN, Verdict.NOT_CATCHING_UP]) is Verdict.NOT_CATCHING_UP
    assert worst([Verdict.UNKNOWN]) is worst([]) is Verdict.UNKNOWN
    assert worst(reversed(tuple(Verdict))) is Verdict.UNREACHABLE


@pytest.mark.parametrize(
    ("growth", "start", "verdict"),
    [
        (0.5, 0.0, Verdict.FALLING_BEHIND),
        (-0.5, 30.0, Verdict.CATCHING_UP),
        (0.0, 30.0, Verdict.NOT_CATCHING_UP),
        (0.0, 0.3, Verdict.KEEPING_UP),
    ],
)
def test_the_schedule_judges_where_no_source_can(growth, start, verdict):
    schedule = WindowSchedule(window_seconds=1.0)
    for number in range(round(30 * (1 - growth)) + 1):
        second = number / (1 - growth)
        late = start + growth * second
        begin(schedule, number, 100.0 + second, late)
    state = schedule.state(130.0, late)
    assert state.verdict is verdict
    assert (state.seconds.value, state.seconds.basis) == (pytest.approx(late), Basis.ESTIMATED)
    assert state.caught_up_at == (
        pytest.approx(130.0 + 15.0 / 0.5) if verdict is Verdict.CATCHING_UP else None
    )


def test_a_window_that_does_not_end_falls_behind_the_schedule():
    schedule = WindowSchedule(window_seconds=1.0)
    assert schedule.state(0.0, 0.0).verdict is Verdict.UNKNOWN
    for number in range(2):
        begin(schedule, number, float(number), 0.0)
    assert schedule.state(2.5, 0.5).verdict is Verdict.KEEPING_UP
    state = schedule.state(22.0, 20.0)
    assert (state.verdict, state.seconds.value) == (Verdict.FALLING_BEHIND, 20.0)


anything = st.none() | st.floats()


@settings(deadline=None, max_examples=deep(30))
@given(
    st.lists(st.tuples(st.floats(), anything, anything, st.sampled_from(Basis)), max_size=30),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_no_figure_is_negative_or_nan_whatever_is_reported(given_samples, now):
    source = SourceBacklog(window_seconds=1.0)
    for at, consumed, remaining, basis in given_samples:
        add(source, at, consumed, remaining, basis=basis)
        state = source.state(now)
        for rate in (state.drain_per_second, state.arrival_per_second):
            assert rate is None or 0 <= rate < math.inf
        for estimate in (state.backlog, state.seconds):
            assert estimate.value is None or estimate.value >= 0
        assert state.caught_up_at is None or math.isfinite(state.caught_up_at)


@pytest.mark.parametrize("begun", [0.0, 1_795_000_000.0])
@pytest.mark.parametrize("width", [0.05, 0.2, 1.0])
def test_an_application_in_time_is_never_stuck(begun, width):
    schedule = WindowSchedule(window_seconds=width)
    for number in range(round(20 / width)):
        at = begun + number * width + 0.002
        begin(schedule, number, at, 0.002)
        expected = Verdict.KEEPING_UP if number else Verdict.UNKNOWN  # the first starts processes
        assert schedule.state(at, 0.002).verdict is expected

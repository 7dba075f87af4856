"""Verdicts against the truth of a simulated source: right within two seconds (or two samples), and steady."""

import itertools
import random

import pytest

from ridgeline.measure.progress.backlog import SourceBacklog
from ridgeline.measure.progress.verdict import Verdict
from support.depth import deep
from support.measure.reports import add

ARRIVALS = 100.0  # a second
LONG_BEFORE, PAUSE, AFTER = 30.0, 5.0, 40.0


def run(capacity, window, noise, *, pause=PAUSE, reports=True, seed=0, after=AFTER, before=LONG_BEFORE):
    """One sample a window: (at, state, true backlog, paused).

    `reports`: windows end while the application pauses, empty-handed.
    """
    dice = random.Random(seed)
    source = SourceBacklog(window_seconds=window)
    at = consumed = backlog = 0.0
    while at < before + pause + after:
        step = window
        paused = before <= at < before + pause
        if paused and not reports:
            step = pause  # one window that takes all of it
        at += step
        backlog += ARRIVALS * step * dice.uniform(1 - noise, 1 + noise)
        done = 0.0 if paused else min(backlog, capacity * step)
        consumed, backlog = consumed + done, backlog - done
        add(source, at, consumed, backlog)
        yield at, source.state(at), backlog, paused


@pytest.mark.parametrize("reports", [True, False])
@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("window", [0.1, 1.0])
@pytest.mark.parametrize("capacity", [110, 150, 200])
@pytest.mark.parametrize("pause", [5.0, 20.0])
def test_after_a_pause_it_catches_up_from_the_second_window_on(capacity, window, noise, reports, pause):
    ends = LONG_BEFORE + pause
    for at, state, backlog, _ in run(capacity, window, noise, pause=pause, reports=reports):
        if at < ends + max(2.0, 2 * window) + 1e-6:
            continue
        if backlog > 4 * window * capacity:
            assert state.verdict is Verdict.CATCHING_UP, at
        elif backlog < 1.9 * window * 90:
            assert state.verdict is Verdict.KEEPING_UP, at


@pytest.mark.parametrize("window", [0.1, 1.0])
@pytest.mark.parametrize("capacity", [20, 50, 80, 90])
def test_an_overload_is_said_within_two_seconds(capacity, window):
    said = [
        (at, state.verdict)
        for at, state, backlog, _ in run(capacity, window, 0.0, before=0, pause=0)
        if backlog > 4 * window * capacity
    ]
    assert all(
        verdict is Verdict.FALLING_BEHIND for at, verdict in said if at > said[0][0] + max(2.0, 2 * window)
    )


@pytest.mark.parametrize("noise", [0.1, 0.5])
@pytest.mark.parametrize("window", [0.1, 1.0])
@pytest.mark.parametrize("capacity", [95, 100, 105])
@pytest.mark.parametrize("seed", range(deep(1)))
def test_at_capacity_it_does_not_flap(capacity, window, noise, seed):
    """A backlog of three seconds that neither falls nor grows beyond the noise, for two minutes."""
    seen = [
        state.verdict
        for at, state, *_ in run(capacity, window, noise, seed=seed, after=120.0, pause=8.0, before=10.0)
        if at > 28.0
    ]
    changes = [verdict for verdict, _ in itertools.groupby(seen)]
    assert len(changes) <= 4, changes


@pytest.mark.parametrize("noise", [0.1, 0.3])
@pytest.mark.parametrize("window", [0.1, 1.0])
@pytest.mark.parametrize("capacity", [110, 150, 200])
@pytest.mark.parametrize("seed", range(deep(1)))
def test_with_noise_it_takes_as_long_as_the_evidence_needs(capacity, window, noise, seed):
    """How long a fall may be said to hold.

    A fall of g a second stands out of noise of s a root second after (6 s / g) squared seconds.
    """
    spread = ARRIVALS * noise / 3**0.5 * window**0.5
    ends = 30.0 + 20.0
    needed = max(2.0, 3 * window, (6.0 * spread / (capacity - ARRIVALS)) ** 2)
    states = list(run(capacity, window, noise, seed=seed, pause=20.0, after=100.0))
    for at, state, backlog, _ in states:
        if at < ends + 2.0 + 2 * window or backlog < 6 * window * capacity:
            continue
        assert state.verdict is Verdict.CATCHING_UP or (
            at < ends + needed and state.verdict is Verdict.NOT_CATCHING_UP
        ), at


@pytest.mark.parametrize("window", [0.2, 0.5])
@pytest.mark.parametrize("slower", [0.0, 0.4])
def test_the_end_is_foretold_to_15_percent_also_while_a_restarted_run_warms_up(window, slower):
    """It works off 700 a second in the end, 40 % less at first: a fifth of that comes each second."""
    right = []
    for seed in range(5):
        dice, source = random.Random(seed), SourceBacklog(window_seconds=window)
        at, consumed, backlog = 0.0, 0.0, 12_000.0
        add(source, at, consumed, backlog)
        told = []
        while backlog > 2 * window * 700:
            step = window * dice.uniform(0.9, 1.3)
            at += step
            backlog += 400 * step * dice.uniform(0.9, 1.1)
            done = 700 * step * (1 - slower * 0.8**at) * dice.uniform(0.85, 1.15)
            consumed, backlog = consumed + done, backlog - done
            add(source, at, consumed, backlog)
            source.arrived(at, consumed + backlog)
            told.append((at, source.state(at).caught_up_at))
        end = at + backlog / 300
        known = [(said - at) / (end - at) for at, said in told if said is not None and end - at > 3]
        assert len(known) > len(told) / 2
        right += [abs(ratio - 1) <= 0.15 for ratio in known]
    assert sum(right) >= 0.85 * len(right)

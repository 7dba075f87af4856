"""Does a run keep up with a real Kafka? Its answers against the truth, with short and long windows."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from support.kafka.watched import ARRIVING, CAPACITY, second_window, watch

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WIDTHS = {"1s": 1.0, "10s": 10.0, "35s": 35.0}
"""Of windows, in seconds; samples are kept for 30."""
RATES_OVER = 10.0
"""The default of `throughput_calculation_interval`: so long, rates hold what was before a change."""

PAUSES_SHOW = 5.0
"""For so many seconds it shows that the test's own feed paused, so that less waited for a moment."""


def held(width):
    """How many messages two windows drain, which is said to keep up; as of 3 seconds ago."""
    return max(5 * ARRIVING, 2 * width * CAPACITY + 3 * ARRIVING)


@pytest.fixture(scope="module")
def runs(broker, tmp_path_factory):
    """A run for each width, all at the same time: they mostly wait.

    It takes up to ten seconds until growth stands out of the noise, so it must be seen for longer.
    """
    with ThreadPoolExecutor(len(WIDTHS)) as pool:
        return {
            window: pool.submit(
                watch,
                broker,
                tmp_path_factory.mktemp(window),
                width,
                seconds=30,
                waiting=held(width) + 15 * CAPACITY,
            )
            for window, width in WIDTHS.items()
        }


@pytest.mark.parametrize("window", WIDTHS)
def test_verdict_and_backlog_are_the_truth(runs, window):
    samples, few = runs[window].result(), held(WIDTHS[window])
    print(*samples, sep="\n")
    rising = [one for one in samples if one.arriving and one.waiting > 5 * ARRIVING]
    assert rising, "the test's own feed fell behind"
    # The first window may be in time, however much comes meanwhile; what the next one does shows by its
    # heartbeats.
    judged = [one for one in rising if one.seconds > max(10, second_window(samples).seconds + 5)]
    pauses = [one.seconds for last, one in pairwise(judged) if one.waiting < last.waiting]
    slow = [one for one in judged if not any(0 <= one.seconds - at < PAUSES_SHOW for at in pauses)]
    assert len(slow) > len(judged) / 2, "the test's own feed paused"
    said = [one for one in slow if one.verdict == "falling behind"]
    assert all(one.verdict in {"falling behind", "unknown", "not catching up"} for one in slow), (
        "it falls behind all the time"
    )
    assert len(said) >= 0.8 * len(slow), "but for seconds"
    assert not [one for one in samples if one.verdict == "keeping up" and one.waiting > few]
    falling = [one for one in samples if not one.arriving and one.seconds > 5 and one.before > few]
    assert falling
    settled = [one for one in falling if one.seconds > RATES_OVER]
    assert settled
    assert sum(one.verdict == "catching up" for one in settled) >= 0.9 * len(settled)
    known = [one for one in rising + falling if one.backlog is not None]
    assert len(known) >= 0.9 * len(rising + falling)
    near = [
        one
        for one in known
        if one.waiting - 3 * ARRIVING <= one.backlog <= max(one.before, one.after) + 3 * ARRIVING
    ]
    assert len(near) >= 0.9 * len(known), "the backlog is that of three seconds ago at most"

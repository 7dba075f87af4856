"""Does a run keep up with a real Kafka? Its answers against the truth, with short and long windows."""

import json
import math
import re
import signal
import time
import urllib.request
from typing import NamedTuple

import pytest

from support.kafka.feed import Feed
from support.kafka.pace import COUNTER
from support.paths import SUPPORT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "kafka" / "pace.py"
ARRIVING, CAPACITY = 200, 100
"""Messages a second, which `pace.py` halves."""


class Sample(NamedTuple):
    """What the run says and what is true, at one moment."""

    arriving: bool
    window: int | None
    verdict: str
    backlog: float | None
    before: int
    """Messages that are not taken, just before the run is asked."""
    after: int
    seconds: float
    """Since the last change of pace."""

    @property
    def waiting(self):
        return min(self.before, self.after)


def progress(driver):
    address = re.search(r"http://127\.0\.0\.1:\d+", driver.text).group()
    with urllib.request.urlopen(f"{address}/ws/v2/stram/progress", timeout=10) as answer:
        return json.load(answer)


def seconds_of_next(samples):
    """The seconds of the first sample after the first window; infinite while there is none."""
    return next((one.seconds for one in samples if one.window != samples[0].window), math.inf)


@pytest.mark.parametrize(("window", "seconds"), [("1s", 15), ("10s", 30), ("60s", 75)])
def test_verdict_and_backlog_are_the_truth(broker, start, wait_until, tmp_path, window, seconds):
    topic, counter = f"pace-{window}", tmp_path / "counter"
    broker.create_topic(topic)
    properties = ("--brokers", broker.address, "--topic", topic, "--counter", counter, "--window", window)
    driver = start(APPLICATION, *properties, "--checkpoint", tmp_path / "state", "--master", "local[2]")
    wait_until(
        lambda: re.search(r"http://127\.0\.0\.1:\d+", driver.text) or driver.exit_code is not None,
        "the service",
    )
    assert driver.exit_code is None, driver.text
    before = Feed(broker, topic, ARRIVING)  # until processes have started
    before.start()
    wait_until(lambda: counter.exists() and counter.read_bytes(), "the first message", seconds=120)
    done_before = len(before.finish())
    feed = Feed(broker, topic, ARRIVING)
    samples = []

    def sample():
        before = waiting()
        answer = progress(driver)
        said = answer["application"]
        assert driver.exit_code is None, driver.text
        now = time.monotonic() - turned
        samples.append(
            Sample(
                feed.is_alive(),
                answer["windowId"],
                said["verdict"],
                said["backlogRecords"],
                before,
                waiting(),
                now,
            )
        )
        time.sleep(0.25)
        return samples[-1]

    def waiting():
        data = counter.read_bytes() if counter.exists() else b""
        done = COUNTER.unpack(data)[0] if len(data) == COUNTER.size else 0
        return done_before + len(feed.written) - done

    turned = time.monotonic()
    feed.start()
    while sample().seconds < max(seconds, seconds_of_next(samples) + 15):
        pass
    feed.finish()
    turned = time.monotonic()
    wait_until(
        lambda: sample().verdict == "keeping up" and waiting() == 0,
        "all messages taken, and it says so",
        seconds=20 * seconds,
    )
    driver.process.send_signal(signal.SIGINT)
    assert driver.wait() == 0, driver.text

    width = float(window.removesuffix("s"))
    print(*samples, sep="\n")
    rising = [one for one in samples if one.arriving and one.waiting > 5 * ARRIVING]
    assert rising, "the test's own feed fell behind"
    # The first window may be in time, however much comes meanwhile; what the next one does shows by its
    # heartbeats.
    slow = [one for one in rising if one.seconds > max(10, seconds_of_next(samples) + 5)]
    assert slow
    said = [one for one in slow if one.verdict == "falling behind"]
    assert all(one.verdict in {"falling behind", "unknown", "holding"} for one in slow), (
        "it falls behind all the time"
    )
    assert len(said) >= (0.8 if width < 60 else 0.3) * len(slow), "but for seconds"
    held = max(
        5 * ARRIVING, 2 * width * CAPACITY + 3 * ARRIVING
    )  # what two windows drain, which is said to keep up; as of 3 seconds ago
    assert not [one for one in samples if one.verdict == "keeping up" and one.waiting > held]
    falling = [one for one in samples if not one.arriving and one.seconds > 5 and one.before > held]
    assert sum(one.verdict == "catching up" for one in falling) >= 0.8 * len(falling)
    known = [one for one in rising + falling if one.backlog is not None]
    assert len(known) >= 0.9 * len(rising + falling)
    near = [
        one
        for one in known
        if one.waiting - 3 * ARRIVING <= one.backlog <= max(one.before, one.after) + 3 * ARRIVING
    ]
    assert len(near) >= 0.9 * len(known), "the backlog is that of three seconds ago at most"

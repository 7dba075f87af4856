"""Whether a run keeps up with a real Kafka: its answers against the truth, while windows are short and long."""

import json
import re
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from kafka.feed import Feed
from kafka.pace import COUNTER

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APPLICATION = Path(__file__).with_name("pace.py")
ARRIVING, CAPACITY = 200, 100
"""Messages a second, which `pace.py` halves."""


def progress(driver):
    address = re.search(r"http://127\.0\.0\.1:\d+", driver.text).group()
    with urllib.request.urlopen(f"{address}/ws/v2/stram/progress", timeout=10) as answer:
        return json.load(answer)["application"]


@pytest.mark.parametrize(("window", "seconds"), [("1s", 15), ("10s", 30), ("60s", 75)])
def test_verdict_and_backlog_are_the_truth(broker, start, wait_until, tmp_path, window, seconds):
    topic, counter = f"pace-{window}", tmp_path / "counter"
    broker.create_topic(topic)
    properties = ("--brokers", broker.address, "--topic", topic, "--counter", counter, "--window", window)
    driver = start(APPLICATION, *properties, "--checkpoint", tmp_path / "state", "--master", "local[2]")
    wait_until(lambda: re.search(r"http://127\.0\.0\.1:\d+", driver.text) or driver.exit_code is not None, "the service")
    assert driver.exit_code is None, driver.text
    before = Feed(broker, topic, ARRIVING)  # until processes have started
    before.start()
    wait_until(lambda: counter.exists() and counter.read_bytes(), "the first message", seconds=120)
    done_before = len(before.finish())
    feed = Feed(broker, topic, ARRIVING)
    samples = []

    def sample():
        """Whether it arrives; verdict; backlog as told and in truth, before and after asking; seconds since the last change of pace."""
        before = waiting()
        told = progress(driver)
        assert driver.exit_code is None, driver.text
        samples.append((feed.is_alive(), told["verdict"], told["backlogRecords"], before, waiting(), time.monotonic() - turned))
        time.sleep(0.25)
        return samples[-1]

    def waiting():
        data = counter.read_bytes() if counter.exists() else b""
        done = COUNTER.unpack(data)[0] if len(data) == COUNTER.size else 0
        return done_before + len(feed.written) - done

    turned = time.monotonic()
    feed.start()
    while time.monotonic() < turned + seconds:
        sample()
    feed.finish()
    turned = time.monotonic()
    wait_until(lambda: sample()[1] == "keeping up" and waiting() == 0, "all messages taken, and it says so", seconds=20 * seconds)
    driver.process.send_signal(signal.SIGINT)
    assert driver.wait() == 0, driver.text

    width = float(window.removesuffix("s"))
    print(*samples, sep="\n")
    rising = [one for one in samples if one[0] and min(one[3:5]) > 5 * ARRIVING]
    assert rising, "the test's own feed fell behind"
    slow = [one for one in rising if one[5] > 10]
    said = [one for one in slow if one[1] == "falling behind"]
    assert all(one[1] in {"falling behind", "unknown", "holding"} for one in slow), "it falls behind all the time"
    assert len(said) >= (0.8 if width < 60 else 0.3) * len(slow), "but for the first window, which shows the speed"
    held = max(5 * ARRIVING, 1.5 * width * CAPACITY)  # what windows that are in time may hold
    assert not [one for one in samples if one[1] == "keeping up" and min(one[3:5]) > held]
    falling = [one for one in samples if not one[0] and one[5] > 5 and one[3] > held]
    assert sum(one[1] == "catching up" for one in falling) >= 0.8 * len(falling)
    known = [one for one in rising + falling if one[2] is not None]
    assert len(known) >= 0.9 * len(rising + falling)
    near = [one for one in known if min(one[3:5]) - 3 * ARRIVING <= one[2] <= max(one[3:5]) + 3 * ARRIVING]
    assert len(near) >= 0.9 * len(known), "the backlog is that of three seconds ago at most"

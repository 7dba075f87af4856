"""A run of `pace.py` whose messages come too fast, then not at all: what it says, and what is true."""

import json
import re
import signal
import time
import urllib.request
from typing import NamedTuple

from support.kafka.driver import kafka_driver
from support.kafka.feed import Feed
from support.kafka.pace import COUNTER
from support.paths import SUPPORT
from support.waiting import PATIENCE_SECONDS, wait_until

APPLICATION = SUPPORT / "kafka" / "pace.py"
ARRIVING, CAPACITY = 200, 100
"""Messages a second, which `pace.py` halves."""
TRICKLING = 2
"""Messages a second until the run is warm: a window begins only if there is a message."""


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


def second_window(samples):
    """The first sample after the first window; None while there is none."""
    return next((one for one in samples if one.window != samples[0].window), None)


def watch(broker, folder, width, *, seconds, waiting):
    """The samples of a run with windows of a width, in whole seconds.

    Messages come until more than `waiting` wait and `seconds` of the second window are over. Then none come
    until the run has taken all. They begin to come with a window: Spark begins windows at multiples of
    their width, so that the next one begins a whole width later, however fast the machine is.
    """
    window, counter, checkpoint = f"{width:g}s", folder / "counter", folder / "state"
    topic = f"pace-{window}"
    broker.topic(topic, partitions=2)
    properties = (
        "--brokers",
        broker.direct_servers,
        "--topic",
        topic,
        "--counter",
        counter,
        "--window",
        window,
    )
    command = (APPLICATION, *properties, "--checkpoint", checkpoint, "--master", "local[2]")
    driver = kafka_driver(command, folder / "run.log")
    try:
        return _Watch(driver, broker, topic, counter, checkpoint, width).samples(seconds, waiting)
    except BaseException as error:
        error.add_note("\n".join(driver.process.account()))
        raise
    finally:
        driver.clean()


class _Watch:
    def __init__(self, driver, broker, topic, counter, checkpoint, width):
        self._driver, self._broker, self._topic, self._counter = driver, broker, topic, counter
        self._checkpoint, self._width = checkpoint, width
        self._trickled = 0
        self._feed = Feed(broker, topic, ARRIVING)
        self._turned = 0.0
        self._samples = []

    def samples(self, seconds, waiting):
        self._begin_with_a_window()
        self._turned = time.monotonic()
        self._feed.start()
        self._sample()
        while not self._enough(seconds, waiting):
            self._sample()
        self._feed.finish()
        self._turned = time.monotonic()
        wait_until(
            lambda: self._sample().verdict == "keeping up" and self._waiting() == 0,
            "all messages taken, and it says so",
        )
        self._driver.process.send_signal(signal.SIGINT)
        assert self._driver.wait() == 0, self._driver.text
        return self._samples

    def _enough(self, seconds, waiting):
        last, second = self._samples[-1], second_window(self._samples)
        return second is not None and last.seconds > second.seconds + seconds and last.waiting > waiting

    def _begin_with_a_window(self):
        """Wait until processes have started, then until a window begins when one is due."""
        self._until(lambda: re.search(r"http://127\.0\.0\.1:\d+", self._driver.text), "the service")
        trickle = Feed(self._broker, self._topic, TRICKLING)
        trickle.start()
        self._until(self._done, "the first message")
        self._until(self._begins_when_due, "a window that begins when one is due")
        self._trickled = len(trickle.finish())

    def _begins_when_due(self):
        """Wait for the next window after a rest; true if it begins at a multiple of the width.

        One that follows a late window begins at once, and the next one at any time after it. So does one that
        follows the first window: that begins at any time, and need not be long to end after the next was due.
        """
        last = self._until(self._resting, "a window to end in time")
        due = (time.time() // self._width + 1) * self._width
        window = self._until(lambda: self._window_after(last["windowId"]), "the next window")
        return self._began(window) >= due

    def _until(self, condition, what):
        found = wait_until(lambda: condition() or self._driver.exit_code is not None, what)
        assert self._driver.exit_code is None, self._driver.text
        return found

    def _sample(self):
        before = self._waiting()
        answer = self._progress()
        said = answer["application"]
        assert self._driver.exit_code is None, self._driver.text
        sample = Sample(
            self._feed.is_alive(),
            answer["windowId"],
            said["verdict"],
            said["backlogRecords"],
            before,
            self._waiting(),
            time.monotonic() - self._turned,
        )
        self._samples.append(sample)
        time.sleep(0.5)
        return sample

    def _resting(self):
        """The progress, if no window runs."""
        answer = self._progress()
        return None if answer["running"] else answer

    def _window_after(self, window):
        """The last window that has begun after this one; None before."""
        last = self._progress()["windowId"]
        return last if last > window else None

    def _began(self, window):
        """When a window began, by Spark's own notes; seconds since 1970."""
        _, notes, *_ = (self._checkpoint / "spark" / "offsets" / str(window)).read_text().splitlines()
        return json.loads(notes)["batchTimestampMs"] / 1e3

    def _progress(self):
        address = re.search(r"http://127\.0\.0\.1:\d+", self._driver.text).group()
        with urllib.request.urlopen(f"{address}/ws/v2/stram/progress", timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)

    def _done(self):
        data = self._counter.read_bytes() if self._counter.exists() else b""
        return COUNTER.unpack(data)[0] if len(data) == COUNTER.size else 0

    def _waiting(self):
        return self._trickled + len(self._feed.written) - self._done()

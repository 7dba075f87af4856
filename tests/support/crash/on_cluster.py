"""The application of `numbers.py` on a cluster of hosts, which a test breaks meanwhile.

No operator may fail: what the cluster does counts as no attempt.
"""

import json
import re
import signal
import urllib.request

import pytest

from support.crash.processes import committed
from support.crash.rows import Reader, check_published
from support.paths import SUPPORT

APPLICATION = SUPPORT / "crash" / "numbers.py"
_WAIT = "spark.scheduler.maxRegisteredResourcesWaitingTime=300s"
PROPERTIES = ("numbers.windows=1000000", "sums.pause_seconds=0.1", "store.roll_seconds=0.3")
OPTIONS = [
    *(part for value in PROPERTIES for part in ("-D", value)),
    *(
        part
        for name in ("numbers", "sums", "store")
        for part in ("--attribute", f"{name}.recovery_attempts=0")
    ),
    *("--log-level", "INFO"),
]
SECONDS = 180
"""So long a test waits for each thing: a host's processes are started on a busy machine meanwhile."""


class Run:
    """The application on a cluster of which `first` has the worker, and those of `more`; "" is this machine.

    What is awaited is awaited for `SECONDS`; lines are those of the log, since some are printed too.
    """

    def __init__(
        self, cluster, start, wait_until, folder, patience, more=(), timeout="4s", first="alpha", **others
    ):
        self.cluster, self._wait_until = cluster, wait_until
        self.output, self.checkpoint = folder / "output", folder / "checkpoint"
        self.wait(lambda: "I have been elected leader" in cluster.text("master"), "the master")
        for count, name in enumerate([first, *more], 1):
            self.add(name, count)
        self.reader = Reader(self.output, self.checkpoint)
        self.reader.start()
        settings = {
            "spark.cores.max": "4",
            "spark.executor.cores": "2",
            "spark.ridgeline.slots.timeout": timeout,
            "spark.ridgeline.slots.patience": patience,
        }
        settings |= {name.replace("_", "."): value for name, value in others.items()}
        given = {name: value for name, value in settings.items() if value is not None}
        conf = [part for name, value in given.items() for part in ("--conf", f"{name}={value}")]
        conf += ["--conf", _WAIT] if more else []
        places = ("--output", self.output, "--checkpoint", self.checkpoint)
        self.driver = start(APPLICATION, *places, *cluster.settings, *OPTIONS, *conf)

    driver = None

    def add(self, name, count):
        self.cluster.start_worker(name, cores=2)
        self.wait(lambda: self.cluster.text("master").count("Registering worker") == count, "a worker")

    def wait(self, condition, what):
        try:
            self._wait_until(lambda: condition() or self._over, what, seconds=SECONDS)
        except pytest.fail.Exception as failure:
            pytest.fail(f"{failure}; the driver said:\n{self._end_of_text()}")
        assert not self._over, self._end_of_text()

    def _end_of_text(self):
        return "" if self.driver is None else self.driver.text[-6000:]

    @property
    def committed(self):
        return committed(self.checkpoint)

    @property
    def _over(self):
        return self.driver is not None and self.driver.exit_code is not None

    def says(self, pattern, times=1):
        self.wait(lambda: self.said(pattern) >= times, f"{pattern} ({times} times)")

    def said(self, pattern):
        return len(re.findall(rf"event_lines: (?:{pattern})", self.driver.text))

    def slots(self):
        """How many slots host containers, and how many should, as the run itself says."""
        address = re.search(r"http://127\.0\.0\.1:\d+", self.driver.text).group()
        with urllib.request.urlopen(f"{address}/ws/v2/stram/info", timeout=SECONDS) as answer:
            stats = json.load(answer)["stats"]
        return stats["slots"], stats["slotsWanted"]

    def continues(self):
        before = committed(self.checkpoint)
        self.wait(lambda: committed(self.checkpoint) >= before + 10, "ten windows more")

    def finish(self, folder):
        """End in order: what is published is what a plain run gives."""
        self.driver.process.send_signal(signal.SIGTERM)
        assert self.driver.process.wait(SECONDS) == 0, self._end_of_text()
        self.reader.finish()
        check_published(self.output, committed(self.checkpoint) + 1, APPLICATION, folder)

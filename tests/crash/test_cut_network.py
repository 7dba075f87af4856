"""A standalone cluster of two hosts: the network is cut, an executor is lost, a host comes later.

No operator may fail: what the cluster does counts as no attempt.
"""

import json
import re
import signal
import time
import urllib.request

import pytest

from ridgeline.cli.load import load_application
from ridgeline.testing import run_local
from support.crash.hosts import Cluster
from support.crash.processes import committed
from support.crash.rows import Reader, multisets
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

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
SILENT = r"slot \d \(process \d+ on `beta`\) has not answered for \d+ s: the network is cut"


class Run:
    """The application on a cluster of which `alpha` has the worker, and those of `more`.

    What is awaited is awaited for `SECONDS`; lines are those of the log, since some are printed too.
    """

    def __init__(self, cluster, start, wait_until, folder, patience, more=(), timeout="4s", **others):
        self.cluster, self._wait_until = cluster, wait_until
        self.output, self.checkpoint = folder / "output", folder / "checkpoint"
        self.wait(lambda: "I have been elected leader" in cluster.text("master"), "the master")
        for count, name in enumerate(["alpha", *more], 1):
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

    def goes_on(self):
        before = committed(self.checkpoint)
        self.wait(lambda: committed(self.checkpoint) >= before + 10, "ten windows more")

    def finish(self, folder):
        """End in order: what is published is what a plain run gives."""
        self.driver.process.send_signal(signal.SIGTERM)
        assert self.driver.process.wait(SECONDS) == 0, self._end_of_text()
        self.reader.finish()
        windows = committed(self.checkpoint) + 1
        run_local(
            load_application(str(APPLICATION), ["--output", str(folder / "whole")]),
            properties={"numbers.windows": str(windows)},
        )
        assert multisets(self.output) == multisets(folder / "whole")


def test_a_cut_network_is_waited_for(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "300s", more=["beta"])
        run.goes_on()
        pids = set(re.findall(r"is there: process (\d+) on `beta`", run.driver.text))
        cluster.cut("beta")
        run.says(SILENT)
        run.says(r"slot \d is lost: process \d+ on `beta`: (?:its host has acknowledged nothing|.*timed out)")
        cluster.mend("beta")
        run.says(r"slot \d is there again: process \d+ on `beta`", len(pids))
        run.goes_on()
        run.finish(tmp_path)
        again = set(re.findall(r"is there again: process (\d+) on `beta`", run.driver.text))
        assert again & pids  # it was not started anew: it has joined again
        assert "slots live there now" not in run.driver.text


def cut_for(run, seconds):
    """Cut `beta` off for so long, by this test's own clock."""
    run.cluster.cut("beta")
    time.sleep(seconds)
    run.cluster.mend("beta")


def test_nothing_is_lost_by_a_cut_that_is_shorter_than_the_timeout(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "300s", more=["beta"], timeout="15s")
        run.says("slot . is there", 3)
        for _ in range(2):
            run.goes_on()
            cut_for(run, 10)
            run.says(r"slot \d \(process \d+ on `beta`\) answers again")
        run.goes_on()
        run.finish(tmp_path)
        assert not run.said("slot . is lost")


def test_a_cut_of_a_minute_is_survived_with_default_times(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, None, more=["beta"], timeout=None)
        run.says("slot . is there", 3)
        run.goes_on()
        cut_for(run, 60)
        run.wait(lambda: run.slots() == (3, 3), "as many slots as are wanted")
        run.goes_on()
        run.finish(tmp_path)


def test_a_second_cut_while_the_first_is_recovered_from(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "300s", more=["beta"])
        run.says("slot . is there", 3)
        run.goes_on()
        for times in (1, 2):
            lost = run.said("slot . is lost: process .* on `beta`")
            cluster.cut("beta")
            run.wait(lambda lost=lost: run.said("slot . is lost: process .* on `beta`") > lost, "a lost slot")
            cluster.mend("beta")
            run.says("slot . is there again: process .* on `beta`", times)  # the next cut follows at once
        run.goes_on()
        run.finish(tmp_path)


def test_a_host_that_stands_still_for_half_a_minute_loses_nothing(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "300s", more=["beta"], timeout="15s")
        run.says("slot . is there", 3)
        run.goes_on()
        cluster.signal_processes("beta", "", signal.SIGSTOP)
        time.sleep(30)
        cluster.signal_processes("beta", "", signal.SIGCONT)
        run.goes_on()
        run.finish(tmp_path)
        assert not run.said("slot . is lost")


def test_slots_come_back_after_all_python_of_a_host_was_killed(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "300s", more=["beta"])
        run.says("slot . is there", 3)
        run.goes_on()
        cluster.signal_processes("beta", "ridgeline.engine.spark.daemon", signal.SIGKILL)
        run.says("slot . is there again: process .* on `beta`")
        run.goes_on()
        run.finish(tmp_path)


SPREAD = r"containers are spread over 3 slots now \(\d before\), as many as wanted"
REDUCED = "Spark has cores for 1 slot only: all containers of 3 slots live there now"


def test_slots_spread_over_a_host_that_comes_later(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "3s")
        run.goes_on()
        run.says("containers live in 1 slot, 3 are wanted: more are started once Spark has cores")
        run.add("beta", 2)
        run.says(SPREAD)
        run.goes_on()
        run.finish(tmp_path)


def test_slots_spread_over_a_host_that_was_away_longer_than_the_patience(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "3s", more=["beta"])
        run.says("slot . is there", 3)
        run.goes_on()
        cluster.cut("beta")
        run.says(REDUCED)
        run.goes_on()
        spread = run.said(SPREAD)
        cluster.mend("beta")
        run.says(SPREAD, spread + 1)
        run.goes_on()
        run.finish(tmp_path)


def test_slots_spread_over_an_executor_that_was_started_again(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "3s", more=["beta"])
        run.says("slot . is there", 3)
        run.goes_on()
        cluster.kill_executors("beta")  # its worker starts another one
        run.says("slot . is lost: process .* on `beta`")
        run.wait(lambda: _all_back(run), "three slots again")
        run.goes_on()
        run.finish(tmp_path)


DYNAMIC = {
    "spark_cores_max": None,
    "spark_executor_cores": "1",
    "spark_dynamicAllocation_enabled": "true",
    "spark_dynamicAllocation_shuffleTracking_enabled": "true",
    "spark_dynamicAllocation_maxExecutors": "4",
}


def test_executors_of_dynamic_allocation_are_used_and_replaced(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "300s", more=["beta"], **DYNAMIC)
        run.says("containers live in 3 slots, as many as wanted")
        run.says("slot . is there", 3)
        run.goes_on()
        cluster.kill_executors("beta")
        run.says("slot . is lost: process .* on `beta`")
        run.says("slot . is there again")
        run.goes_on()
        run.finish(tmp_path)


def _all_back(run):
    """They came back within the patience, or containers moved together and were spread again."""
    reduced, spread = run.said(REDUCED), run.said(SPREAD)
    return run.said("slot . is there again: process .* on `beta`") and (not reduced or spread >= reduced)

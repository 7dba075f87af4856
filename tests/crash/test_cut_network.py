"""A standalone cluster of two hosts: the network is cut, an executor is lost, a host comes later.

No operator may fail: what the cluster does counts as no attempt.
"""

import re
import signal
import time

import pytest

from support.crash.hosts import Cluster
from support.crash.on_cluster import Run
from support.depth import deeper

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

SILENT = r"slot \d \(process \d+ on `beta`\) has not answered for \d+ s: the network is cut"


def test_a_cut_network_is_waited_for(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "300s", more=["beta"])
        run.continues()
        pids = set(re.findall(r"is there: process (\d+) on `beta`", run.driver.text))
        cluster.cut("beta")
        run.says(SILENT)
        run.says(r"slot \d is lost: process \d+ on `beta`: (?:its host has acknowledged nothing|.*timed out)")
        cluster.mend("beta")
        run.says(r"slot \d is there again: process \d+ on `beta`", len(pids))
        run.continues()
        run.finish(tmp_path)
        again = set(re.findall(r"is there again: process (\d+) on `beta`", run.driver.text))
        assert again & pids  # it was not started anew: it has joined again
        assert "slots live there now" not in run.driver.text


def cut_for(run, seconds):
    """Cut `beta` off for so long, by this test's own clock."""
    run.cluster.cut("beta")
    time.sleep(seconds)
    run.cluster.mend("beta")


@deeper
def test_nothing_is_lost_by_a_cut_that_is_shorter_than_the_timeout(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "300s", more=["beta"], timeout="15s")
        run.says("slot . is there", 3)
        for _ in range(2):
            run.continues()
            cut_for(run, 10)
            run.says(r"slot \d \(process \d+ on `beta`\) answers again")
        run.continues()
        run.finish(tmp_path)
        assert not run.said("slot . is lost")


def test_a_cut_of_a_minute_is_survived_with_default_times(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, None, more=["beta"], timeout=None)
        run.says("slot . is there", 3)
        run.continues()
        cut_for(run, 60)
        run.wait(lambda: run.slots() == (3, 3), "as many slots as are wanted")
        run.continues()
        run.finish(tmp_path)


@deeper
def test_a_second_cut_while_the_first_is_recovered_from(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "300s", more=["beta"])
        run.says("slot . is there", 3)
        run.continues()
        for times in (1, 2):
            lost = run.said("slot . is lost: process .* on `beta`")
            cluster.cut("beta")
            run.wait(lambda lost=lost: run.said("slot . is lost: process .* on `beta`") > lost, "a lost slot")
            cluster.mend("beta")
            run.says("slot . is there again: process .* on `beta`", times)  # the next cut follows at once
        run.continues()
        run.finish(tmp_path)


@deeper
def test_a_host_that_stands_still_for_half_a_minute_loses_nothing(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "300s", more=["beta"], timeout="15s")
        run.says("slot . is there", 3)
        run.continues()
        cluster.signal_processes("beta", "", signal.SIGSTOP)
        time.sleep(30)
        cluster.signal_processes("beta", "", signal.SIGCONT)
        run.continues()
        run.finish(tmp_path)
        assert not run.said("slot . is lost")


@deeper
def test_slots_come_back_after_all_python_of_a_host_was_killed(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "300s", more=["beta"])
        run.says("slot . is there", 3)
        run.continues()
        cluster.signal_processes("beta", "ridgeline.engine.spark.daemon", signal.SIGKILL)
        run.says("slot . is there again: process .* on `beta`")
        run.continues()
        run.finish(tmp_path)


SPREAD = r"containers are spread over 3 slots now \(\d before\), as many as wanted"
REDUCED = "Spark has cores for 1 slot only: all containers of 3 slots live there now"


def test_slots_spread_over_a_host_that_comes_later(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "3s")
        run.continues()
        run.says("containers live in 1 slot, 3 are wanted: more are started once Spark has cores")
        run.add("beta", 2)
        run.says(SPREAD)
        run.continues()
        run.finish(tmp_path)


@deeper
def test_slots_spread_over_a_host_that_was_away_longer_than_the_patience(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "3s", more=["beta"])
        run.says("slot . is there", 3)
        run.continues()
        cluster.cut("beta")
        run.says(REDUCED)
        run.continues()
        spread = run.said(SPREAD)
        cluster.mend("beta")
        run.says(SPREAD, spread + 1)
        run.continues()
        run.finish(tmp_path)


@deeper
def test_slots_spread_over_an_executor_that_was_started_again(start, wait_until, tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "3s", more=["beta"])
        run.says("slot . is there", 3)
        run.continues()
        cluster.kill_executors("beta")  # its worker starts another one
        run.says("slot . is lost: process .* on `beta`")
        run.wait(lambda: _all_back(run), "three slots again")
        run.continues()
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
        run.continues()
        cluster.kill_executors("beta")
        run.says("slot . is lost: process .* on `beta`")
        run.says("slot . is there again")
        run.continues()
        run.finish(tmp_path)


def _all_back(run):
    """They came back within the patience, or containers moved together and were spread again."""
    reduced, spread = run.said(REDUCED), run.said(SPREAD)
    return run.said("slot . is there again: process .* on `beta`") and (not reduced or spread >= reduced)

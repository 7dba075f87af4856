"""A standalone cluster of two hosts: the network is cut, an executor is lost, a host comes later.

No operator may fail: what the cluster does counts as no attempt.
"""

import os
import re
import signal
import time

import pytest

from support.crash.processes import parent
from support.depth import deep, deeper

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]


SILENT = r"slot \d \(process \d+ on `beta`\) has not answered for \d+ s: the network is cut"


def test_a_cut_network_is_waited_for(on_cluster):
    with on_cluster("300s") as running:
        pids = set(re.findall(r"is there: process (\d+) on `beta`", running.driver.text))
        running.cluster.cut("beta")
        running.says(SILENT)
        running.says(
            r"slot \d is lost: process \d+ on `beta`: (?:its host has acknowledged nothing|.*timed out)"
        )
        running.cluster.mend("beta")
        running.says(r"slot \d is there again: process \d+ on `beta`", len(pids))
    again = set(re.findall(r"is there again: process (\d+) on `beta`", running.driver.text))
    assert again & pids  # it was not started anew: it has joined again
    assert "slots live there now" not in running.driver.text


def cut_for(running, seconds):
    """Cut `beta` off for so long, by this test's own clock."""
    running.cluster.cut("beta")
    time.sleep(seconds)
    running.cluster.mend("beta")


@deeper
def test_nothing_is_lost_by_a_cut_that_is_shorter_than_the_timeout(on_cluster):
    with on_cluster("300s", timeout="15s") as running:
        for _ in range(2):
            cut_for(running, 10)
            running.says(r"slot \d \(process \d+ on `beta`\) answers again")
            running.continues()
    assert not running.said("slot . is lost")


def test_a_cut_of_a_minute_is_survived_with_default_times(on_cluster):
    with on_cluster(None, timeout=None) as running:
        cut_for(running, 60)
        running.wait(lambda: running.slots() == (3, 3), "as many slots as are wanted")


@deeper
def test_a_second_cut_while_the_first_is_recovered_from(on_cluster):
    with on_cluster("300s") as running:
        for times in (1, 2):
            lost = running.said("slot . is lost: process .* on `beta`")
            running.cluster.cut("beta")
            running.says("slot . is lost: process .* on `beta`", lost + 1)
            running.cluster.mend("beta")
            running.says("slot . is there again: process .* on `beta`", times)  # the next cut follows at once


@deeper
def test_a_host_that_stands_still_for_half_a_minute_loses_nothing(on_cluster):
    with on_cluster("300s", timeout="15s") as running:
        running.cluster.signal_processes("beta", "", signal.SIGSTOP)
        time.sleep(30)
        running.cluster.signal_processes("beta", "", signal.SIGCONT)
    assert not running.said("slot . is lost")


SPREAD = r"containers are spread over 3 slots now \(\d before\), as many as wanted"
REDUCED = "Spark has cores for 1 slot only: all containers of 3 slots live there now"


def test_slots_spread_over_a_host_that_comes_later(on_cluster):
    with on_cluster("3s", more=()) as running:
        running.says("containers live in 1 slot, 3 are wanted: more are started once Spark has cores")
        running.add("beta", 2)
        running.says(SPREAD)


@deeper
def test_slots_spread_over_a_host_that_was_away_longer_than_the_patience(on_cluster):
    with on_cluster("3s") as running:
        running.cluster.cut("beta")
        running.says(REDUCED)
        running.continues()
        spread = running.said(SPREAD)
        running.cluster.mend("beta")
        running.says(SPREAD, spread + 1)


DYNAMIC = {
    "spark_cores_max": None,
    "spark_executor_cores": "1",
    "spark_dynamicAllocation_enabled": "true",
    "spark_dynamicAllocation_shuffleTracking_enabled": "true",
    "spark_dynamicAllocation_maxExecutors": "4",
}


def test_executors_of_dynamic_allocation_are_used_and_replaced(on_cluster):
    with on_cluster("300s", **DYNAMIC) as running:
        running.says("containers live in 3 slots, as many as wanted")
        running.cluster.kill_executors("beta")
        running.says("slot . is lost: process .* on `beta`")
        running.says("slot . is there again")


def test_an_executor_that_ends_in_order_uses_up_no_attempt(on_cluster):
    """On the driver's host, by SIGTERM: no operator is to blame."""
    with on_cluster("300s", more=(), hosts=(), first="") as running:
        for times in range(1, deep(1) + 1):
            pid = int(re.findall(r"slot 0 is there(?: again)?: process (\d+) on", running.driver.text)[-1])
            os.kill(parent(parent(pid)), signal.SIGTERM)
            running.says(r"slot 0 is there again: process \d+ on", times)
            running.continues()

"""An executor on the driver's host that SIGTERM ends: no operator is to blame."""

import os
import re
import signal

import pytest

from support.crash.hosts import Cluster
from support.crash.on_cluster import Run
from support.crash.processes import parent
from support.depth import deep

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]


def test_an_executor_that_ends_in_order_uses_up_no_attempt(start, wait_until, tmp_path):
    with Cluster(tmp_path, []) as cluster:
        run = Run(cluster, start, wait_until, tmp_path, "300s", first="")
        run.continues()
        for times in range(1, deep(1) + 1):
            pid = int(re.findall(r"slot 0 is there(?: again)?: process (\d+) on", run.driver.text)[-1])
            os.kill(parent(parent(pid)), signal.SIGTERM)
            run.says(r"slot 0 is there again: process \d+ on", times)
            run.continues()
        run.finish(tmp_path)

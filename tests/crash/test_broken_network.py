"""Networks that break in other ways than a cable that is cut, on a standalone cluster of two hosts.

A host is gone without a word, packets get through one way only, executors cannot reach each other, a link is
slow, names are not known. `TEST_DEPTH=9` makes each of them last a minute.
"""

import signal
import time

import pytest

from support.crash.breaks import BREAKS
from support.depth import deep

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

SECONDS = deep(7)
"""More than the time after which a silent host is lost here."""


def broken(run, name):
    """Break the network in one way, and fix it."""
    run.continues()
    with BREAKS[name](run.cluster):
        time.sleep(SECONDS)
    run.continues()


def slow(run):
    """Windows take longer, and no slot is lost."""
    lost = run.said("slot . is lost")
    with BREAKS["a slow link"](run.cluster):
        run.continues()
    assert run.said("slot . is lost") == lost


def nameless(run):
    """A process that is lost meanwhile has to be found by the others, and to find them."""
    there = run.said("slot . is there again: process .* on `beta`")
    with BREAKS["no names"](run.cluster):
        run.cluster.signal_processes("beta", "ridgeline.engine.spark.daemon", signal.SIGKILL)
        run.says("slot . is there again: process .* on `beta`", there + 1)
        run.continues()


def test_nothing_is_lost_however_the_network_breaks(on_cluster):
    with on_cluster("300s") as run:
        for name in ("a host is gone", "to a host", "from a host", "between executors"):
            broken(run, name)
        slow(run)
        nameless(run)

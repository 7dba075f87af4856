"""Runs that tests start are gone when they end."""

import random
from contextlib import contextmanager

import pytest

from support.crash.hosts import Cluster
from support.crash.on_cluster import Run
from support.crash.processes import Driver


@pytest.fixture
def start(tmp_path):
    """`start(*arguments)` begins `ridgeline run ...`, a Driver."""
    drivers = []

    def begin(*arguments, log="run.log", **environment):
        drivers.append(Driver(arguments, tmp_path / log, **environment))
        return drivers[-1]

    yield begin
    for driver in drivers:
        driver.clean()


@pytest.fixture
def chance():
    """Random numbers, whose seed is printed."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def on_cluster(start, wait_until, tmp_path):
    """`with on_cluster(patience) as running:` numbers.py on two hosts; at the end its output is right.

    `prepare`: called with the cluster before.
    """

    @contextmanager
    def on(patience, more=("beta",), hosts=("alpha", "beta"), prepare=lambda _cluster: None, **settings):
        with Cluster(tmp_path, list(hosts)) as cluster:
            prepare(cluster)
            running = Run(cluster, start, wait_until, tmp_path, patience, more=more, **settings)
            if more:
                running.says("slot . is there", 3)
            running.continues()
            yield running
            running.continues()
            running.finish(tmp_path)

    return on

"""Runs that tests start are gone when they end."""

import random

import pytest

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

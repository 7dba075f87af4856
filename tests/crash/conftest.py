"""Runs that tests start are gone when they end."""

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

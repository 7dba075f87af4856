"""Wait for a condition instead of sleeping."""

import time

import pytest


def wait_until(condition, what, *, seconds=300.0, every=0.01):
    """The first true value of `condition()`; after `seconds` the test fails, saying `what` it waited for."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds:g} s in vain for {what}")
        time.sleep(every)
    return value

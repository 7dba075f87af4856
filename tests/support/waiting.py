"""Wait for a condition instead of sleeping."""

import os
import time

import pytest

PATIENCE_SECONDS = float(os.environ.get("TEST_PATIENCE_SECONDS", "900"))
"""So long a test waits for what must come, also on the slowest machine: no test judges by it.

Who plants bugs, and expects tests to fail, sets a shorter time.
"""


def wait_until(condition, what, *, seconds=PATIENCE_SECONDS, every=0.01):
    """The first true value of `condition()`; after `seconds` the test fails, saying `what` it waited for."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds:g} s in vain for {what}")
        time.sleep(every)
    return value

"""How far tests go: how many cases and kills (`TEST_DEPTH`), until when slow ones begin (`TEST_END`)."""

import os
import time

import pytest

DEPTH = float(os.environ.get("TEST_DEPTH", "1"))

deeper = pytest.mark.skipif(DEPTH < 2, reason="a deeper round: TEST_DEPTH=2")
"""Marks a test that says little more than a cheaper one which always runs: for before a release."""

END = float(os.environ.get("TEST_END", "inf"))
"""In seconds since 1970: a slow test that would begin later is skipped. CI has no more time, and sets it."""


def is_over():
    """Whether no slow test begins any more."""
    return time.time() > END


def deep(count):
    """So many cases or kills, times the depth."""
    return max(1, round(count * DEPTH))

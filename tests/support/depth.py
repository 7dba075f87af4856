"""How far tests go that take random cases or kill many times: `TEST_DEPTH=5 make test` goes further."""

import os

import pytest

DEPTH = float(os.environ.get("TEST_DEPTH", "1"))

deeper = pytest.mark.skipif(DEPTH < 2, reason="a deeper round: TEST_DEPTH=2")
"""Marks a test that says little more than a cheaper one which always runs: for before a release."""


def deep(count):
    """So many cases or kills, times the depth."""
    return max(1, round(count * DEPTH))

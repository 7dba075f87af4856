"""How far tests go: how many cases and kills. `TEST_DEPTH=5`, before a release, is five times as many."""

import os

import pytest

DEPTH = float(os.environ.get("TEST_DEPTH", "1"))

deeper = pytest.mark.deep
"""Marks a test that says little more than a cheaper one of the core: see `support.tiers`."""


def deep(count):
    """So many cases or kills, times the depth."""
    return max(1, round(count * DEPTH))

"""How far tests go that take random cases or kill many times: `TEST_DEPTH=5 make test` goes further."""

import os

DEPTH = float(os.environ.get("TEST_DEPTH", "1"))


def deep(count):
    """So many cases or kills, times the depth."""
    return max(1, round(count * DEPTH))

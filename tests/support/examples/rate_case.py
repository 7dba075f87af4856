"""The rate example, built and checked.

`total` keeps one sum without a key and has no unifier: with several partitions each would print the sum of
its own share. So only the others are partitioned: the source, and the console, which gets sums round robin.
The console is the one output, so it is what is read.
"""

import re

import rate
from support.examples import oracle_rate as oracle
from support.examples.cases import partition_attributes

WINDOWS = 6
ROWS = 1_000


def build(partitions):
    """The application; it does not end by itself."""
    return {"app": rate.app, "attributes": partition_attributes(rate.app, partitions, except_for=("total",))}


def check(printed, *, windows=WINDOWS):
    """Compare the sums that the console printed with the oracle."""
    lines = [line for line in printed.splitlines() if line.startswith("console ")]
    assert [int(re.search(r"value= *(\d+)$", line)[1]) for line in lines] == oracle.sums(windows, ROWS)

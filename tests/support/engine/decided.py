"""Runs of the live application that end some windows after all of their changes are decided."""

import threading
from collections import Counter

from support.service.live import TUPLES

APPLIED = ("APPLIED", "")
_WINDOWS_AFTER = 20


class UntilDecided:
    """`each` of a run that sets `stop`. `run.asked` has the changes, `changes` of which there will be."""

    def __init__(self, changes, each=None):
        self.stop = threading.Event()
        self._changes = changes
        self._each = each
        self._windows = 0

    def __call__(self, run, event):
        if self._each is not None:
            self._each(run, event)
        if len(run.asked) == self._changes and all(asked.done.is_set() for asked in run.asked):
            self._windows += 1
        if self._windows > _WINDOWS_AFTER:
            self.stop.set()


def states(run):
    """What became of the changes, and why."""
    return [(asked.state, asked.reason) for asked in run.asked]


def assert_nothing_lost(run):
    """All windows were committed, in order; the sink has what a computation by hand gives."""
    assert run.ids == list(range(len(run.ids)))
    sums, found = Counter(), Counter()
    for number in range(TUPLES * len(run.ids)):
        sums[number % 7] += number
        found[number % 7, sums[number % 7]] += 1
    assert Counter(map(tuple, run.collected("sink"))) == found

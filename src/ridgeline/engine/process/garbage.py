"""Short pauses in a process whose windows take milliseconds: other threads, and the collector of garbage."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCH_SECONDS = 0.0001
"""A thread that waits for Python's lock gets it after so long; Python's own 5 ms are more than a window.

A commit waits for it after each of its system calls, the windows while a state is compacted.
"""
_YOUNG = 2
"""After so many collections among new objects those that were left are looked at, too.

They are kept for figures. Python's own 10 let so many come together that it takes two windows' time. All
objects are looked at as often as by Python's own thresholds.
"""
_lock = threading.Lock()
_users = 0
_before = 0.0
_usual = (0, 0, 0)
"""Python's thresholds: first the number of new objects after which garbage is collected."""
_OBJECTS_PER_TUPLE = 4
"""It comes, others are made of it: they are alive, so looking for garbage among them finds none."""
_OBJECTS_PER_REPORT = 128
"""Sixteen of an operator, in eight windows that are under way or kept for figures."""


def spare_loaded(*, replaced: bool = False) -> None:
    """Leave what was loaded since to no collection either, where `short_pauses` does.

    `replaced`: it takes the place of what was left to no collection before. What is in cycles of that, such
    as the state of containers that are gone, is collected now. Else it would never be looked at again.
    """
    if _users:
        if replaced:
            gc.unfreeze()
            gc.collect()
        gc.freeze()


@contextmanager
def short_pauses() -> Iterator[None]:
    """Hand Python's lock over quickly, and leave all that is there now to no collection.

    For the whole process, until the last of those who want it has ended.
    """
    global _users, _before, _usual  # noqa: PLW0603  the interpreter has one setting
    with _lock:
        if not _users:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(min(_before, _SWITCH_SECONDS))
            _usual = gc.get_threshold()
            if _usual[0]:
                gc.set_threshold(_usual[0], _YOUNG, _usual[1] * _usual[2] // _YOUNG)
        _users += 1
    gc.freeze()
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                sys.setswitchinterval(_before)
                gc.set_threshold(*_usual)
                gc.unfreeze()


def collect_after(tuples: int = 0, reports: int = 0) -> None:
    """An operator takes so many tuples one by one, or a window so many reports: collect no garbage before.

    It holds until `collect_again`, also for operators after it: what they get is alive. Does nothing in a
    process without `short_pauses`.
    """
    wanted = max(_OBJECTS_PER_TUPLE * tuples, _OBJECTS_PER_REPORT * reports)
    if _users and _usual[0] and wanted > gc.get_threshold()[0]:
        gc.set_threshold(wanted)


def collect_again() -> None:
    """A container is done with its window, and its tuples are gone: collect garbage as usual."""
    if _users and _usual[0] and gc.get_threshold()[0] > _usual[0]:
        gc.set_threshold(_usual[0])

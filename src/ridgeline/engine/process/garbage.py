"""Short pauses in a process whose windows take milliseconds: other threads, and the collector of garbage."""

from __future__ import annotations

import ctypes
import gc
import os
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
_MANY_REPORTS = 1_000
"""Of a window, from which on what they leave is spared."""
_reports = 0
"""The most reports of a window that anybody has named."""
_windows = 0
"""How many windows with many reports there were."""


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
    global _users, _before, _usual, _reports, _windows  # noqa: PLW0603  the interpreter has one setting
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
                _reports = _windows = 0


def collect_after(tuples: int = 0, reports: int = 0) -> None:
    """An operator takes so many tuples one by one, or a window so many reports: collect no garbage before.

    It holds until `collect_again`, also for operators after it: what they get is alive. Does nothing in a
    process without `short_pauses`.
    """
    global _reports  # noqa: PLW0603  as above
    _reports = max(_reports, reports)
    wanted = max(_OBJECTS_PER_TUPLE * tuples, _OBJECTS_PER_REPORT * reports)
    if _users and _usual[0] and wanted > gc.get_threshold()[0]:
        gc.set_threshold(wanted)


def spare_reported() -> None:
    """A window has ended: leave what was kept of windows with many reports to no collection.

    Figures of so many operators grow for a minute, until as much is dropped as comes. A collection among all
    that came takes seconds, and finds it alive. So it is spared after the first, second, fourth, eighth
    window and so on. Cycles that were garbage then stay: few, as it is done ever more seldom. Does nothing in
    a process without `short_pauses`, or with few reports.
    """
    global _windows  # noqa: PLW0603  as above
    if _users and _reports >= _MANY_REPORTS:
        _windows += 1
        if _windows & (_windows - 1) == 0:
            gc.freeze()


def collect_again() -> None:
    """A container is done with its window, and its tuples are gone: collect garbage as usual."""
    if _users and _usual[0] and gc.get_threshold()[0] > _usual[0]:
        gc.set_threshold(_usual[0])


# Memory that a process keeps when it is freed: what a batch took serves the next one.

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""As `mallopt` of glibc calls them."""
_LARGEST = 32 << 20
"""glibc itself comes to this, and to twice as much of the other, once an array of 32 MiB was freed."""
_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


def keep_freed_memory() -> bool:
    """Let glibc keep up to 64 MiB of what is freed; for this process and those that it forks.

    Else the system gets the arrays of each step, and gives their pages again to the next. True if it was
    done: not with another allocator than glibc's, nor where the environment sets one of these thresholds.
    """
    own = any(name in os.environ for name in _SETTINGS)
    if own or "_threshold" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    # the one without the other would make all arrays maps of their own
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST)) and bool(mallopt(_TRIM_THRESHOLD, 2 * _LARGEST))

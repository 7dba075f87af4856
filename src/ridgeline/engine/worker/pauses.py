"""Short pauses in a process whose windows take milliseconds: other threads, and the collector of garbage."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCH_SECONDS = 0.0005
"""A thread that waits for Python's lock gets it after so long; Python's own 5 ms are more than a window."""
_lock = threading.Lock()
_users = 0
_before = 0.0


@contextmanager
def short_pauses() -> Iterator[None]:
    """Hand Python's lock over quickly, and leave all that is there now to no collection.

    For the whole process, until the last of those who want it has ended.
    """
    global _users, _before  # noqa: PLW0603  the interpreter has one setting
    with _lock:
        if not _users:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(min(_before, _SWITCH_SECONDS))
        _users += 1
    gc.freeze()
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                sys.setswitchinterval(_before)
                gc.unfreeze()

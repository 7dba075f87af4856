"""Memory that a process keeps when it is freed: what a batch took serves the next one."""

from __future__ import annotations

import ctypes
import os

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

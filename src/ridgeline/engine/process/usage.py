"""The memory, processor time and collections of garbage of this process."""

from __future__ import annotations

import gc
import os

from ridgeline.measure.events import ProcessUsage

_STATM = "/proc/self/statm"
_PAGE = os.sysconf("SC_PAGE_SIZE")


def read_usage() -> ProcessUsage | None:
    """The figures as of now; None where the system has no `/proc`."""
    try:
        with open(_STATM, "rb") as file:  # noqa: PTH123  once a second in each slot
            pages = int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    times = os.times()
    return ProcessUsage(pages * _PAGE, times.user + times.system, gc.get_stats()[2]["collections"])

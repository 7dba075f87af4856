"""When this process began: what a task waits for whose worker is new."""

from __future__ import annotations

import os
from pathlib import Path

from ridgeline.api.clock import SystemClock

_CLOCK = SystemClock()


def _started() -> float:
    """When Linux started this process (wall clock, to 10 ms); elsewhere, when this module was imported."""
    now = _CLOCK.wall()
    try:
        _, _, fields = Path("/proc/self/stat").read_text().rpartition(")")
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return now - max(0.0, uptime - int(fields.split()[19]) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return now


_daemon_began = _started()
_worker_began = 0.0


def worker_process() -> tuple[float, float]:
    """When this worker was forked, and when its daemon was started (wall clock); 0 and 0 without a fork."""
    return (_worker_began, _daemon_began) if _worker_began else (0.0, 0.0)


def _fork() -> None:
    global _worker_began  # noqa: PLW0603  a process has one beginning
    _worker_began = _CLOCK.wall()


os.register_at_fork(after_in_child=_fork)

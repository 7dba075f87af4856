"""The facts of one host, gathered in the process that asks or in a worker of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

Facts = dict[str, Any]
"""Sizes in bytes, times in seconds; None where something is not known or not there."""


def prober(  # noqa: C901, PLR0915  it travels as a whole
    folder: str | None, address: tuple[str, int] | None = None, syncs: int = 20
) -> Callable[[int, Iterable[int]], Iterator[Facts]]:
    """A function for workers that gives the facts of its host.

    `folder`: where the state will be, None where that is no folder. `address`: of the driver, to connect to.
    The function travels as a whole and names nothing of this module: a worker may have another version of it.
    """

    def probe(_index: int, _records: Iterable[int]) -> Iterator[Facts]:  # noqa: C901, PLR0915  the same
        import contextlib
        import ctypes
        import os
        import resource
        import shutil
        import socket
        import sys
        import tempfile
        import time
        import uuid

        now = time.perf_counter  # noqa: TID251  a worker has no `Clock`

        def packages() -> dict[str, str | None]:
            from importlib import metadata

            found: dict[str, str | None] = {}
            for name in ("ridgeline", "pyspark", "pyarrow"):
                found[name] = None
                with contextlib.suppress(metadata.PackageNotFoundError):
                    found[name] = metadata.version(name)
            return found

        def space(path: str) -> tuple[int, int] | None:
            with contextlib.suppress(OSError):
                usage = shutil.disk_usage(path)
                return usage.total, usage.free
            return None

        def sync_seconds(path: str) -> tuple[list[float], str]:
            times: list[float] = []
            name = os.path.join(path, f".ridgeline-doctor-{uuid.uuid4().hex}")  # noqa: PTH118
            try:
                descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                try:
                    for _ in range(syncs):
                        before = now()
                        os.write(descriptor, bytes(4096))
                        os.fsync(descriptor)
                        times.append(now() - before)
                finally:
                    os.close(descriptor)
                    os.unlink(name)  # noqa: PTH108
            except OSError as error:
                return times, error.strerror or str(error)
            return times, ""

        def file_system(path: str) -> str | None:
            best, kind = "", None
            with contextlib.suppress(OSError), open("/proc/mounts", encoding="utf-8") as mounts:  # noqa: PTH123
                for line in mounts:
                    place, name = line.split()[1:3]
                    inside = path == place or path.startswith(place.rstrip("/") + "/")
                    if inside and len(place) >= len(best):
                        best, kind = place, name
            return kind

        def memory() -> int | None:
            with contextlib.suppress(OSError, ValueError), open("/proc/meminfo", encoding="utf-8") as lines:  # noqa: PTH123
                for line in lines:
                    if line.startswith("MemAvailable:"):
                        return int(line.split()[1]) * 1024
            return None

        def is_clock_kept() -> bool | None:
            with contextlib.suppress(OSError, AttributeError):
                state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
                return None if state < 0 else state != 5  # noqa: PLR2004  TIME_ERROR
            return None

        def reaches() -> str:
            if address is None:
                return ""
            try:
                with socket.create_connection(address, timeout=5):
                    return ""
            except OSError as error:
                return error.strerror or str(error) or "no answer"

        facts: dict[str, Any] = {"host": socket.gethostname(), "now": time.time()}  # noqa: TID251  another host's
        facts |= {"python": ".".join(map(str, sys.version_info[:3])), "executable": sys.executable}
        facts |= {"packages": packages(), "shm": space("/dev/shm"), "temporary": space(tempfile.gettempdir())}  # noqa: S108
        facts |= {"files": resource.getrlimit(resource.RLIMIT_NOFILE)[0], "memory": memory()}
        facts |= {
            "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
            "cores": len(os.sched_getaffinity(0)),
        }
        facts |= {"clock_kept": is_clock_kept(), "unreachable": reaches(), "folder": None}
        if folder is not None:
            there = os.path.isdir(folder)  # noqa: PTH112
            times, fault = sync_seconds(folder) if there else ([], "it is not there")
            facts["folder"] = {"space": space(folder) if there else None, "syncs": times, "fault": fault}
            facts["folder"]["kind"] = file_system(os.path.realpath(folder))
        yield facts

    return probe

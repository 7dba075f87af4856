"""Copies of files of a distant checkpoint on this host's disk, so that they can be mapped into memory.

Files never change, so a copy is as good as the file while it is whole. The folder may be removed at any time:
what is missing is copied again.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

from ridgeline.api.support import trust
from ridgeline.engine.files.storage import Buffer, Storage, mapped

BYTES = 1 << 35
"""The bytes that copies of segments may take on a host (32 GiB); the least recently opened ones go first."""


_REFUSAL = "the copy of a state file", "set `spark.local.dir` to a folder of your own"


def folder_of(run_id: str) -> Path:
    """Where copies of segments lie: among Spark's files, which go with the executor; else a temporary one."""
    parent = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    return Path(parent, f"ridgeline-{run_id}")


class LocalTier:
    """A folder of copies shared by the processes of a host. Each copies under its own name and renames."""

    def __init__(self, storage: Storage, folder: Path, limit: int = BYTES) -> None:
        self.folder = folder
        self._storage = storage
        self._limit = limit

    def map(self, name: str) -> Buffer:
        """The bytes of a file of the storage. Raises FileNotFoundError, OSError, UntrustedError."""
        path = self._path(name)
        try:
            return _map(path)
        except FileNotFoundError:
            self._copy(name, path)
            return _map(path)

    def forget(self, name: str) -> None:
        """Remove the copy of a file; processes that have it mapped keep it."""
        self._path(name).unlink(missing_ok=True)

    def retain(self, wanted: Callable[[str], bool]) -> None:
        """Remove the copies of all files but those that are `wanted`, by the last part of their names."""
        for path in self._copies():
            if not wanted(path.name):
                path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / name.rpartition("/")[2]

    def _copies(self) -> list[Path]:
        try:
            return [path for path in self.folder.iterdir() if not path.name.startswith(".")]
        except FileNotFoundError:
            return []

    def _copy(self, name: str, path: Path) -> None:
        """Copy a file under a name of this process's own, then rename it: readers never see half of it."""
        trust.private_folder(str(self.folder), *_REFUSAL)
        for left in self.folder.glob(".*-*"):
            if not Path("/proc", left.name[1:].partition("-")[0]).exists():
                left.unlink(missing_ok=True)  # by a process that was killed
        hidden = self.folder / f".{os.getpid()}-{uuid.uuid4().hex}"
        try:
            self._storage.copy_out(name, str(hidden))
            self._make_room(hidden.stat().st_size)
            hidden.rename(path)
        finally:
            hidden.unlink(missing_ok=True)

    def _make_room(self, size: int) -> None:
        """Remove copies, those opened longest ago first, until `size` bytes more are within the limit."""
        copies = []
        for path in self._copies():
            with contextlib.suppress(FileNotFoundError):
                found = path.stat()
                copies.append((found.st_mtime, found.st_size, path))
        total = size + sum(each for _, each, _ in copies)
        for _, each, path in sorted(copies):
            if total <= self._limit:
                break
            path.unlink(missing_ok=True)
            total -= each


def _map(path: Path) -> Buffer:
    with path.open("rb", buffering=0) as file:
        trust.check_found(os.fstat(file.fileno()), str(path), *_REFUSAL)
        os.utime(file.fileno())  # as opened just now
        return mapped(file)

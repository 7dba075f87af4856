"""A file of lines that one process appends to: event logs and audit logs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from ridgeline.api.support import trust

_UNLOCKABLE = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class LineFile:
    """A file that this process alone appends to. New ones are their owner's alone. One thread at a time.

    `always_locked`: a file system without locks is refused.

    Raises BlockingIOError if another process writes it, OSError.
    """

    def __init__(self, path: Path, *, always_locked: bool = False) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = trust.private_opener(str(path), flags)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if always_locked or error.errno not in _UNLOCKABLE:
                self.close()
                raise

    @property
    def is_open(self) -> bool:
        """Whether `close` was not called yet."""
        return self._descriptor >= 0

    @property
    def status(self) -> os.stat_result:
        """Of the file that is open. Raises OSError."""
        return os.fstat(self._descriptor)

    def is_at(self, path: Path) -> bool:
        """Whether a path leads to it: it may have been renamed or removed. Raises OSError."""
        try:
            return os.path.samestat(path.lstat(), self.status)
        except FileNotFoundError:
            return False

    def append(self, data: bytes, *, sync: bool = False) -> None:
        """Write data; of what the disk has no room for nothing stays. `sync`: to the disk. Raises OSError."""
        rest, end = memoryview(data), self.status.st_size
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, end)
            raise
        if sync:
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close it, and let others write it. May be called twice."""
        if self.is_open:
            os.close(self._descriptor)
            self._descriptor = -1

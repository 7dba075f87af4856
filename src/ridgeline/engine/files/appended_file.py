"""A file of the local disk that one process appends to, each piece synced before the next."""

from __future__ import annotations

import os


class AppendedFile:
    """An existing file. Its writer says where its end is: what lies beyond that is overwritten.

    After an error it is unknown what is on the disk: do not append to it again. Not thread-safe.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def append(self, data: bytes, offset: int) -> None:
        """Write at `offset`, the end so far, and sync. Raises OSError, also if the file was removed."""
        self.write(data, offset)
        os.fdatasync(self._file)
        if not os.fstat(self._file).st_nlink:
            msg = f"`{self._path}` was removed"
            raise FileNotFoundError(msg)

    def write(self, data: bytes, offset: int) -> None:
        """Write at `offset`, without a sync. Raises OSError."""
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._file, rest, offset)
            rest, offset = rest[written:], offset + written

    def close(self) -> None:
        """Close it."""
        os.close(self._file)

"""A file of the local disk that one process appends to, each piece synced before the next."""

from __future__ import annotations

import contextlib
import os

_AHEAD_BYTES = 1 << 18
"""Bytes of zeros that are written ahead: syncs within them change no length of the file.

A file system whose files grow has to commit its own journal in each sync, with all that other programs have
written meanwhile.
"""


class AppendedFile:
    """An existing file. Its writer says where its end is: what lies beyond that is overwritten.

    Zeros lie behind what was appended, until `cut`.

    After an error it is unknown what is on the disk: do not append to it again. Not thread-safe.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._length = os.fstat(self._file).st_size
        self._end: int | None = None
        """Where the last record ends that was appended and synced, if nothing else was written since."""

    def append(self, data: bytes, offset: int) -> None:
        """Write at `offset`, the end so far, and sync. Raises OSError, also if the file was removed."""
        end, self._end = offset + len(data), None
        self.write(data, offset)
        if end > self._length:
            self._length = end
            with contextlib.suppress(OSError):  # the record is there, and the disk has no room for more
                self.write(bytes(_AHEAD_BYTES), end)
                self._length += _AHEAD_BYTES
        os.fdatasync(self._file)
        if not os.fstat(self._file).st_nlink:
            raise FileNotFoundError(f"`{self._path}` was removed")
        self._end = end

    def write(self, data: bytes, offset: int) -> None:
        """Write at `offset`, without a sync. Raises OSError."""
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._file, rest, offset)
            rest, offset = rest[written:], offset + written

    def cut(self) -> None:
        """Cut off the zeros behind the last record, to save space. Does nothing after an error.

        Only the process may call it that has appended all there is.
        """
        if self._end is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)

    def close(self) -> None:
        """Close it."""
        os.close(self._file)

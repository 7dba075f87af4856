"""A folder of the local disk, locked for one process."""

from __future__ import annotations

import errno
import fcntl
import os
import socket

from ridgeline.api.errors import CheckpointError
from ridgeline.api.support import trust

_UNLOCKABLE = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class FolderInUseError(CheckpointError):
    """Another process of this host has locked the folder."""


class FolderLock:
    """Locks a folder by the file `lock` in it. It ends with the process, however the process dies.

    `by`: the command that holds it for a short time, for others' errors; "": a driver.

    Raises FolderInUseError if another process holds it, OSError.
    """

    def __init__(self, folder: str, by: str = "") -> None:
        self._file = open(f"{folder}/lock", "a+", opener=trust.private_opener)  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            owner = self._file.read().strip() or "another process"
            self._file.close()
            first = "wait until it has ended" if owner.startswith("`") else "stop it first"
            remedy = f"{first}, or give another `--checkpoint`"
            msg = f"checkpoint folder `{folder}` is in use by {owner}; {remedy}"
            raise FolderInUseError(msg) from None
        except OSError:
            self._file.close()
            raise
        self._file.truncate(0)
        what = f"`{by}`, " if by else ""
        self._file.write(f"{what}process {os.getpid()} on {socket.gethostname()}\n")
        self._file.flush()

    def release(self) -> None:
        """Let others in."""
        self._file.truncate(0)
        self._file.close()


def locked(folder: str, by: str = "") -> FolderLock | None:
    """A folder's lock; None on some network file systems, which have none. Raises as `FolderLock`."""
    try:
        return FolderLock(folder, by)
    except OSError as error:
        if error.errno in _UNLOCKABLE:
            return None
        raise

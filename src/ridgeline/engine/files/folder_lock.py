"""A folder of the local disk, locked for one process."""

from __future__ import annotations

import errno
import fcntl
import os
import socket

from ridgeline.api.errors import CheckpointError
from ridgeline.api.support import trust

_UNLOCKABLE = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_GONE = (errno.ENOENT, errno.ESTALE)
_LONGEST = 1000


class FolderInUseError(CheckpointError):
    """Another process of this host has locked the folder."""


class FolderLock:
    """Locks a folder by the file `lock` in it. It ends with the process, however the process dies.

    `by`: the command that holds it for a short time, for others' errors; "": a driver.

    Raises FolderInUseError if another process holds it, OSError.
    """

    def __init__(self, folder: str, by: str = "") -> None:
        self._path = f"{folder}/lock"
        self._take(folder)
        while self.is_broken:  # another process has removed the file between its opening and its lock
            self._file.close()
            self._take(folder)
        self._file.truncate(0)
        what = f"`{by}`, " if by else ""
        self._file.write(f"{what}{_owner(os.getpid(), socket.gethostname())}\n")
        self._file.flush()

    def _take(self, folder: str) -> None:
        """Open the file and lock it. Raises as the class."""
        self._file = open(self._path, "a+", opener=trust.private_opener)  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            owner = self._file.read().strip() or "another process"
            self._file.close()
            first = "wait until it has ended" if owner.startswith("`") else "stop it first"
            remedy = f"{first}, or give another `--checkpoint`"
            raise FolderInUseError(f"checkpoint folder `{folder}` is in use by {owner}; {remedy}") from None
        except OSError:
            self._file.close()
            raise

    @property
    def is_broken(self) -> bool:
        """Whether another process has removed the lock, see `break_lock`. Raises OSError.

        It opens the file: NFS asks the server then, and not its cache.
        """
        try:
            there = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in _GONE:
                return True
            raise
        try:
            return not os.path.sameopenfile(there, self._file.fileno())
        finally:
            os.close(there)

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


def break_lock(folder: str, pid: int, host: str) -> bool:
    """Remove the lock that a process holds which is taken for dead; False if that one does not hold it.

    The process may stand still, or its host may be cut off. Once it continues, `is_broken` says so to it.
    Raises OSError.
    """
    path = f"{folder}/lock"
    try:
        with open(path, encoding="utf-8", opener=_no_link) as file:
            if file.read(_LONGEST).strip() != _owner(pid, host):
                return False
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                os.unlink(path)  # noqa: PTH108
                return True
    except FileNotFoundError:
        pass
    return False  # it has ended meanwhile


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _owner(pid: int, host: str) -> str:
    return f"process {pid} on {host}"

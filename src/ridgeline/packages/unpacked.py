"""Packages that are unpacked on this host, in private folders that go with the process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

from ridgeline.api.errors import PackageError
from ridgeline.packages.package import fault, unpack

_PREFIX = "ridgeline-package-"
_LOCK = "lock"
_COPY = "package"
FILES = "files"
"""The folder in the private one that has the package's files, and is put on the path."""


class UnpackedPackage:
    """A package in a private folder: `file`, a private copy of it, and `files`, what is in it.

    The folder is removed by `close`. One that is left by a process that was killed is removed by the next.
    """

    def __init__(self, path: Path, sha256: str) -> None:
        """Copy and unpack. Raises PackageError, also if the file is not the one that has this digest."""
        _remove_left()
        self._folder: Path | None = None
        self._lock: IO[str] | None = None
        try:
            self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            self.file, self.files = self._folder / _COPY, self._folder / FILES
            self._lock = _locked(self._folder)
            shutil.copyfile(path, self.file)
            unpack(self.file, sha256, self.files)
        except (OSError, PackageError) as error:
            self.close()
            if isinstance(error, PackageError):
                raise
            what = f"cannot be unpacked: {error.strerror or error}"
            raise fault(path, what, "free some space, or let TMPDIR name another folder") from None

    def close(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()


def _locked(folder: Path) -> IO[str] | None:
    """Lock a folder for as long as this process lives; None on file systems without locks."""
    lock = (folder / _LOCK).open("w")
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return lock


def _remove_left() -> None:
    """Remove this user's folders that no process holds any more."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError):
            # The folder for temporary files is everyone's: a link there may lead to files of this user.
            if path.parent.is_symlink() or path.lstat().st_uid != os.geteuid():
                continue
            with path.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)

"""Files that grow and are rotated: each is followed by its inode, under whatever name it has."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ridgeline.api.clock import SystemClock
from ridgeline.operators.files._listing import Found
from ridgeline.operators.files._seen import hashed

_MARK = "#"
_HEAD_BYTES = 64


class Tails:
    """The names of files that grow: `path#inode`, and which of them grow no more.

    A file that was renamed is followed under its new name, in the same folder. Once it has not grown for
    `settle` seconds there, it is read to its end and closed.
    """

    def __init__(self, settle: float) -> None:
        self._settle = settle
        self._clock = SystemClock()
        self._ended: dict[str, tuple[int, float]] = {}
        """The size of those that are rotated away, and since when they have it."""
        self._sizes: dict[str, int] = {}

    @staticmethod
    def path_of(name: str) -> str:
        """The path under which a file was found first."""
        return name.rpartition(_MARK)[0]

    @staticmethod
    def key_of(name: str) -> str:
        """The text by which a file is known again under another name."""
        return f"{_MARK}{_inode(name)}"

    def named(
        self, every: Sequence[Found], given: Mapping[str, Found], warn: Callable[[str], None]
    ) -> list[Found]:
        """The files under their names of here; those that windows read and that are renamed, too."""
        found: dict[str, Found] = {}
        inodes = {_inode(name): name for name in given}
        for one in every:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(one.path)  # noqa: PTH116  a plain string
                name = inodes.get(status.st_ino, f"{one.path}{_MARK}{status.st_ino}")
                found[name] = Found(one.entry, name, status.st_size, _head(one.path))
                if self.path_of(name) == one.path:
                    self._ended.pop(name, None)
                else:
                    self._rotated(name, status.st_size)
        for name, one in given.items():
            if name not in found:
                path = find_inode(self.path_of(name), _inode(name))
                size = one.size if path is None else os.stat(path).st_size  # noqa: PTH116
                found[name] = Found(one.entry, name, size, one.modified if path is None else _head(path))
                self._rotated(name, size, gone=path is None)
            if found[name].size < self._sizes.get(name, 0):
                warn(f"file `{self.path_of(name)}` was cut off while it was read; rotate by renaming it")
            self._sizes[name] = found[name].size
        return list(found.values())

    def end(self, name: str, found: Found) -> list[Any]:
        """The position of its end; with its size once it grows no more."""
        size, since = self._ended.get(name, (-1, 0.0))
        over = size == found.size and self._clock.monotonic() - since >= self._settle
        return [found.size, found.size if over else None, found.entry]

    def _rotated(self, name: str, size: int, *, gone: bool = False) -> None:
        before = self._ended.get(name)
        if before is None or before[0] != size:
            self._ended[name] = size, float("-inf") if gone else self._clock.monotonic()


def _head(path: str) -> int:
    """The first bytes of a file, as a number: another file may get the inode of one that is gone."""
    with open(path, "rb") as file:  # noqa: PTH123  a plain string
        return hashed(file.read(_HEAD_BYTES).hex())


def _inode(name: str) -> int:
    return int(name.rpartition(_MARK)[2])


def find_inode(path: str, inode: int) -> str | None:
    """The path of the file with this inode: `path`, or another one in its folder; None if there is none."""
    with contextlib.suppress(FileNotFoundError):
        if os.stat(path).st_ino == inode:  # noqa: PTH116
            return path
    with contextlib.suppress(FileNotFoundError), os.scandir(os.path.dirname(path)) as entries:  # noqa: PTH120
        for entry in entries:
            if entry.inode() == inode:
                return entry.path
    return None

"""Files that grow and are rotated: each is followed by its inode, under whatever name it has."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ridgeline.api.clock import SystemClock
from ridgeline.operators.files._listing import Found
from ridgeline.operators.files._seen import hashed

_MARK = "#"
_HEAD_BYTES = 255
_HEAD_BITS, _SIZE_BITS = 32, 24


class _Now(NamedTuple):
    entry: int
    path: str
    size: int
    changed: float
    head: bytes


class Tails:
    """The names of files that grow: `path#inode`, and which of them grow no more.

    A file that was renamed is followed under its new name, in the same folder. Once it was not changed for
    `settle` seconds there, it is read to its end and closed.
    """

    def __init__(self, settle: float) -> None:
        self._settle = settle
        self._clock = SystemClock()
        self._over: set[str] = set()
        """Those that grow no more: renamed and settled, or gone."""
        self._missing: set[str] = set()
        """Those that the last listing lacked: it may miss one that is being renamed."""

    @staticmethod
    def path_of(name: str) -> str:
        """The path under which a file was found first."""
        return name.rpartition(_MARK)[0]

    @staticmethod
    def key_of(name: str) -> str:
        """The text by which a file is known again under another name."""
        return f"{_MARK}{_inode(name)}"

    @staticmethod
    def identity(found: Found) -> int:
        """The first bytes of a file, how many they are, and its size, as a number."""
        length = len(found.head) << _HEAD_BITS + _SIZE_BITS
        return length | _head_hash(found.head) << _SIZE_BITS | hashed(str(found.size)) % 2**_SIZE_BITS

    @staticmethod
    def is_same(found: Found, before: int) -> bool:
        """Whether a file is the one that had this identity: another may get the inode of one that is gone."""
        length = before >> _HEAD_BITS + _SIZE_BITS
        if not length:
            return not found.size
        return _head_hash(found.head[:length]) == (before >> _SIZE_BITS) % 2**_HEAD_BITS

    def named(
        self, every: Sequence[Found], given: Mapping[str, Found], warn: Callable[[str], None]
    ) -> list[Found]:
        """The files under their names of here; those that windows read and that are renamed, too."""
        found: dict[str, Found] = {}
        inodes = {_inode(name): name for name in given}
        for one in every:
            with contextlib.suppress(FileNotFoundError):
                now, inode = _now(one.entry, one.path)
                name = inodes.get(inode, f"{one.path}{_MARK}{inode}")
                found[name] = self._placed(now, name)
        missing = {name for name in given if name not in found}
        for name in missing.copy():
            one, found[name] = given[name], given[name]
            path = find_inode(self.path_of(name), _inode(name))
            if path is None:
                if name in self._missing:
                    self._gone(name, one, warn)
                continue
            missing.discard(name)
            with contextlib.suppress(FileNotFoundError):
                now, inode = _now(one.entry, path)
                if inode == _inode(name):
                    found[name] = self._placed(now, name)
        self._missing = missing
        for name, one in given.items():
            if found[name].size < one.size or not found[name].head.startswith(one.head):
                what = "was cut off or replaced while it was read, and lines are lost"
                warn(f"file `{self.path_of(name)}` {what}; rotate by renaming it")
        return list(found.values())

    def end(self, name: str, found: Found) -> list[Any]:
        """The position of its end; with its size once it grows no more."""
        return [found.size, found.size if name in self._over else None, found.entry]

    def _placed(self, now: _Now, name: str) -> Found:
        """Note whether a file grows no more."""
        if now.path != self.path_of(name) and self._clock.wall() - now.changed >= self._settle:
            self._over.add(name)
        else:
            self._over.discard(name)
        return Found(now.entry, name, now.size, round(now.changed * 1e9), now.head)

    def _gone(self, name: str, found: Found, warn: Callable[[str], None]) -> None:
        if name not in self._over:
            what = f"was removed or moved to another folder; what followed byte {found.size} is not read"
            warn(f"file `{self.path_of(name)}` {what}; rotate by renaming it within its folder")
        self._over.add(name)


def _now(entry: int, path: str) -> tuple[_Now, int]:
    """A file as it is now, and its inode. Raises FileNotFoundError."""
    with open(path, "rb") as file:  # noqa: PTH123  a plain string
        status = os.fstat(file.fileno())
        head = file.read(min(_HEAD_BYTES, status.st_size))
    changed = max(status.st_mtime, status.st_ctime)  # a rename sets the latter
    return _Now(entry, path, status.st_size, changed, head), status.st_ino


def _head_hash(head: bytes) -> int:
    return hashed(head.hex()) % 2**_HEAD_BITS


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

"""Files that grow and are rotated: each is followed by its inode, under whatever name it has."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple

from ridgeline.api.clock import SystemClock
from ridgeline.operators.files._listing import Found
from ridgeline.operators.files._seen import hashed

_MARK = "#"
_HEAD_BYTES = 255
_HEAD_BITS, _SIZE_BITS = 32, 24


class _Now(NamedTuple):
    path: str
    inode: int
    size: int
    changed: float
    head: bytes


class Tails:
    """The names of files that grow: `path#time#inode`, and which of them grow no more.

    The time is that at which it was found: another file may get path and inode of one that is gone. It
    differs in its first bytes.

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
        return name.rsplit(_MARK, 2)[0]

    @staticmethod
    def key_of(name: str) -> str:
        """The text by which a file is known again under another name."""
        return f"{_MARK}{inode_of(name)}"

    @staticmethod
    def is_same(found: Found, before: int) -> bool:
        """Whether a file that was read is this one, and not another that got its inode."""
        return not found.size if not before >> _HEAD_BITS + _SIZE_BITS else fits(found.head, before)

    def named(
        self, every: Sequence[Found], given: Mapping[str, Found], warn: Callable[[str], None]
    ) -> list[Found]:
        """The files under their names of here; those that windows read and that are renamed, too."""
        found: dict[str, Found] = {}
        inodes: dict[int, list[str]] = defaultdict(list)
        for name in given:
            inodes[inode_of(name)].append(name)
        for one in every:
            if now := _now(one.path):
                same = [name for name in inodes[now.inode] if fits(now.head, given[name].modified)]
                name = same[-1] if same else _MARK.join([one.path, f"{now.changed:.6f}", str(now.inode)])
                found[name] = self._placed(one.entry, now, name)
        missing = {name for name in given if name not in found}
        for name in missing.copy():
            one, found[name] = given[name], given[name]
            path = find_inode(self.path_of(name), inode_of(name))
            now = None if path is None else _now(path)
            if now and now.inode == inode_of(name) and fits(now.head, one.modified):
                found[name] = self._placed(one.entry, now, name)
                missing.discard(name)
            elif name in self._missing:
                self._gone(name, one, warn)
        self._missing = missing
        for name, one in given.items():
            if found[name].size < one.size:
                warn(f"file `{self.path_of(name)}` was cut off, and lines are lost; rotate by renaming it")
        return list(found.values())

    def end(self, name: str, found: Found) -> list[Any]:
        """The position of its end: with its size once it grows no more, and what it is known by."""
        return [found.size, found.size if name in self._over else None, found.entry, found.modified]

    def _placed(self, entry: int, now: _Now, name: str) -> Found:
        """Note whether a file grows no more."""
        if now.path != self.path_of(name) and self._clock.wall() - now.changed >= self._settle:
            self._over.add(name)
        else:
            self._over.discard(name)
        return Found(entry, name, now.size, identity(now.head, now.size), now.head)

    def _gone(self, name: str, found: Found, warn: Callable[[str], None]) -> None:
        if name not in self._over:
            what = f"was removed, cut off or moved away; what followed byte {found.size} is not read"
            warn(f"file `{self.path_of(name)}` {what}; rotate by renaming it within its folder")
        self._over.add(name)


def _now(path: str) -> _Now | None:
    """A file as it is now; None if it is gone."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123  a plain string
            status, head = os.fstat(file.fileno()), head_of(file)
    except FileNotFoundError:
        return None
    changed = max(status.st_mtime, status.st_ctime)  # a rename sets the latter
    return _Now(path, status.st_ino, status.st_size, changed, head[: status.st_size])


def head_of(file: IO[bytes]) -> bytes:
    """The first bytes of a file, by which it is known."""
    file.seek(0)
    return file.read(_HEAD_BYTES)


def identity(head: bytes, size: int) -> int:
    """The first bytes of a file, how many they are, and its size, as a number."""
    length = len(head) << _HEAD_BITS + _SIZE_BITS
    return length | _head_hash(head) << _SIZE_BITS | hashed(str(size)) % 2**_SIZE_BITS


def fits(head: bytes, before: int) -> bool:
    """Whether a file that begins so may be the one that had this identity, and has grown."""
    length = before >> _HEAD_BITS + _SIZE_BITS
    return _head_hash(head[:length]) == (before >> _SIZE_BITS) % 2**_HEAD_BITS


def _head_hash(head: bytes) -> int:
    return hashed(head.hex()) % 2**_HEAD_BITS


def inode_of(name: str) -> int:
    """The inode of a file."""
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

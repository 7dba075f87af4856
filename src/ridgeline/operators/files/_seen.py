"""The files that were read: for a million of them, 16 bytes each, in a few files of the checkpoint.

A window's commit keeps a small value (`memory`): the last files by their hashes, and the names of segments
with all before. A segment is never changed. Of 16 segments of a size one is made, so that there are
at most a few dozen.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.api.errors import RidgelineError
from ridgeline.connect.output_files import OutputFiles

_RECENT = 128
"""The most files that the commit of a window names itself."""
_FANOUT = 16
_KIND = np.dtype([("name", "<u8"), ("identity", "<u8")])
Hashes = npt.NDArray[np.uint64]


def hashed(name: str) -> int:
    """A text as a number of 64 bits, not 0."""
    return (
        int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()) or 1
    )


def identity(size: int, modified: int) -> int:
    """The size and the time of a file, as a number that differs if one of them does."""
    return hashed(f"{size}:{modified}")


class Seen:
    """The files that were read, by the hash of their name: the identity that they had."""

    def __init__(self, folder: str | None, memory: Any) -> None:
        """`folder`: where segments are; None: nothing is written. Raises RidgelineError for a lost one."""
        self._files = None if folder is None else OutputFiles(folder)
        self._made = False
        self._recent: dict[int, int] = {}
        self._sorted = np.empty(0, _KIND)
        if memory is not None:
            parts = [self._load(name, count) for _, name, count in memory["segments"]]
            self._sort(parts)
            self._recent.update((name, found) for name, found in memory["recent"])

    def __len__(self) -> int:
        return len(self._recent) + len(self._sorted)

    def add(self, entries: Iterable[tuple[int, int]]) -> None:
        """These files were read, by a committed window: hash of the name, identity."""
        self._recent.update(entries)
        if len(self._recent) > 2 * _FANOUT * _RECENT:
            self._sort([_array(self._recent.items())])
            self._recent.clear()

    def find(self, names: Sequence[str]) -> list[int]:
        """The identity of each of these files when it was read; 0 if it was not."""
        hashes = [hashed(name) for name in names]
        if not len(self._sorted):
            return [self._recent.get(one, 0) for one in hashes]
        wanted = np.array(hashes, np.uint64)
        places = np.minimum(np.searchsorted(self._sorted["name"], wanted), len(self._sorted) - 1)
        rows = self._sorted[places]
        found = np.where(rows["name"] == wanted, rows["identity"], 0).tolist()
        return [self._recent.get(one, old) for one, old in zip(hashes, found, strict=True)]

    def remember(self, memory: Any, entries: Sequence[tuple[int, int]]) -> Any:
        """The memory with files that a window has read. Writes a segment if it would be large otherwise."""
        segments = [] if memory is None else memory["segments"]
        recent = [*([] if memory is None else memory["recent"]), *map(list, entries)]
        if self._files is None or len(recent) <= _RECENT:
            return {"recent": recent, "segments": segments}
        segments = [*segments, self._write(0, _array((name, found) for name, found in recent))]
        level = 0
        while len(own := [one for one in segments if one[0] == level]) >= _FANOUT:
            merged = np.concatenate([self._load(name, count) for _, name, count in own])
            segments = [one for one in segments if one[0] != level] + [self._write(level + 1, merged)]
            level += 1
        return {"recent": [], "segments": segments}

    def _sort(self, parts: Sequence[npt.NDArray[Any]]) -> None:
        """Add to the sorted hashes; of several identities of a file the last one counts."""
        every = np.concatenate([*(part[::-1] for part in reversed(parts)), self._sorted])
        _, first = np.unique(every["name"], return_index=True)
        self._sorted = every[first]

    def _write(self, level: int, entries: npt.NDArray[Any]) -> list[Any]:
        """Write a segment, and sync it. Returns its level, name and length."""
        files = self._files
        assert files is not None  # noqa: S101  the caller has looked
        if not self._made:
            files.make_folder(files.root)
            files.sync_above(files.root)
            self._made = True
        name = f"{uuid.uuid4().hex}.seen"
        with files.writing(f"{files.root}/{name}") as out:
            out.write(entries.tobytes())
        files.sync(files.root)
        return [level, name, len(entries)]

    def _load(self, name: str, count: int) -> npt.NDArray[Any]:
        """Read a segment. Raises RidgelineError if it is gone, or has another length."""
        files = self._files
        assert files is not None  # noqa: S101  there are segments
        path = f"{files.root}/{name}"
        try:
            found = np.frombuffer(files.read(path), np.uint8)
        except OSError as error:
            msg = f"`{path}`, the list of files that were read, cannot be read: {error}; restore it"
            raise RidgelineError(msg) from error
        if len(found) != count * _KIND.itemsize:
            msg = f"`{path}`, the list of files that were read, has {len(found)} bytes, it had "
            msg += f"{count * _KIND.itemsize}; restore it"
            raise RidgelineError(msg)
        return found.view(_KIND)


def _array(entries: Iterable[tuple[int, int]]) -> npt.NDArray[Any]:
    numbers = np.fromiter(itertools.chain.from_iterable(entries), np.uint64)
    return numbers.astype("<u8").view(_KIND)

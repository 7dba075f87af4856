"""Finds keys that stand twice in a long file, in bounded memory: by hashes in a temporary folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

_IN_MEMORY = 1 << 18
"""The most hashes that are kept before they go to files."""
_BUCKETS = 256
_AT_LEAST = 10_000
"""Rows whose keys are compared in one go, if there are so many."""
Rows = npt.NDArray[np.int64]


class HashedRows:
    """The hashes of rows, in `with`. With 16 bytes a row on the disk where temporary files are."""

    def __init__(self) -> None:
        self._rows = 0
        self._kept: list[Rows] = []
        self._held = 0
        self._folder: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, keys: Sequence[Any]) -> None:
        """Add the keys of the next rows. Raises TypeError for one without a hash, OSError."""
        pairs = np.empty((len(keys), 2), np.int64)
        pairs[:, 0] = np.fromiter(map(hash, keys), np.int64, len(keys))
        pairs[:, 1] = np.arange(self._rows, self._rows + len(keys))
        self._rows += len(keys)
        self._kept.append(pairs)
        self._held += len(keys)
        if self._held >= _IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        """Write what is in memory to a file for each bucket. Raises OSError."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="ridgeline-keys-")
        pairs = np.concatenate(self._kept)
        self._kept, self._held = [], 0
        mixed = pairs[:, 0].astype(np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )  # whole numbers hash to themselves
        buckets = (mixed >> np.uint64(56)).astype(np.int64)
        order = np.argsort(buckets, kind="stable")
        ends = np.searchsorted(buckets[order], np.arange(_BUCKETS + 1))
        for bucket in range(_BUCKETS):
            part = pairs[order[ends[bucket] : ends[bucket + 1]]]
            if len(part):
                with (Path(self._folder.name) / str(bucket)).open("ab") as file:
                    file.write(part.tobytes())

    def alike(self) -> Iterator[Rows]:
        """Rows with a hash that another row has, too: in ascending order, those of one hash in one part.

        Few rows are one part. Of many, each has at least 10,000, and no more than a bucket beyond that.
        Raises OSError.
        """
        part: list[Rows] = []
        for pairs in self._buckets():
            part.append(_alike(pairs))
            if sum(map(len, part)) >= _AT_LEAST:
                yield np.sort(np.concatenate(part))
                part = []
        if any(map(len, part)):
            yield np.sort(np.concatenate(part))

    def _buckets(self) -> Iterator[Rows]:
        """Pairs (hash, row), all of one hash at a time."""
        if self._folder is None:
            yield from [np.concatenate(self._kept)] if self._kept else []
            return
        self._spill_rest()
        for file in sorted(Path(self._folder.name).iterdir()):
            yield np.fromfile(file, np.int64).reshape(-1, 2)

    def _spill_rest(self) -> None:
        if self._kept:
            self._spill()


def _alike(pairs: Rows) -> Rows:
    """The rows of pairs (hash, row) whose hash is there more than once."""
    if len(pairs) == 0:
        return np.empty(0, np.int64)
    order = np.argsort(pairs[:, 0], kind="stable")
    hashes = pairs[order, 0]
    same = hashes[1:] == hashes[:-1]
    which = np.zeros(len(hashes), np.bool_)
    which[1:] |= same
    which[:-1] |= same
    return pairs[order[which], 1]

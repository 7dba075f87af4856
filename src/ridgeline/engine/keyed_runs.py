"""Keyed state too big for memory: runs, which are immutable sorted files that are mapped, newest last, and how they are made.

A cell of the state is `attach`ed to its runs and holds what changed since. A compactor, outside of any window, `apply`s deltas to such a
cell and asks `compact` to write what it holds as one more run. Small runs are merged into the new one on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

from ridgeline.api.keyed_overlay import KeyedBase, Mask
from ridgeline.api.state import KeyedCell

RUN_KEYS = 50_000
"""A cell with fewer keys stays a dict."""

Write = Callable[[Iterable[bytes]], str]
"""Writes one new file of these pieces, one after the other as they come (each at most some MB), and returns its name."""


class RunsChange(NamedTuple):
    """What stands in a snapshot file for a keyed cell that is held in runs, where a small cell has its full change."""

    application_window: int
    names: tuple[str, ...]
    """The files of its runs, oldest first."""
    changed: list[Any]
    """The keys that the application window changed so far."""


class Run:
    """One opened run: a file of entries sorted by the hash of their key. Picklable it is not; threads may share it."""

    def __init__(self, buffer: Any, name: str) -> None:
        """`buffer`: the whole file, mapped or as bytes; `name`: how errors call it. Reads all of it once, for its checksum.

        Raises StateError naming the file if it is truncated or corrupt.
        """
        self.name = name
        self.keys = 0
        """Number of its entries, those that say that a key was removed included."""
        self.size_bytes = 0
        raise NotImplementedError


class Runs(KeyedBase):
    """The runs of one cell, oldest first, as one mapping: what `KeyedCell.attach` takes."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = tuple(runs)

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def find_many(self, keys: Sequence[Any] | npt.NDArray[Any]) -> tuple[Mask, npt.NDArray[Any]]:
        """For each key, whether it is there, and its value."""
        raise NotImplementedError


def compact(cell: KeyedCell[Any], write: Write) -> RunsChange | None:
    """Write what a cell holds beside its runs as a new run, merged with the small ones of them. The cell stays as it is.

    To use what it returns: `cell.reset()`, then `cell.attach(Runs([the opened files of names]), application_window, changed)`, or the same
    with a new cell of the declaration. Returns None, having written nothing, if the cell has less than `RUN_KEYS` keys, or a key that has
    not the same hash in every process: then `cell.snapshot()` is what to write. Nothing is written either if nothing changed since the
    runs: then `names` are theirs. Raises what `write` raises.
    """
    raise NotImplementedError

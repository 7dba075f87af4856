"""Keyed state too big for memory: runs, which are immutable sorted files that are mapped, newest last, and how they are made.

A cell of the state is `attach`ed to its runs and holds what changed since. A compactor, outside of any window, `apply`s deltas to such a
cell and asks `compact` to write what it holds as one more run. Small runs are merged into the new one on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.api.keyed_overlay import KeyedBase, Mask
from ridgeline.api.keyed_state import Held, KeyedCell
from ridgeline.engine.state import keyed_hash
from ridgeline.engine.state.keyed_columns import EXACT, Places, encode, kind_of, zero
from ridgeline.engine.state.keyed_hash import Keys, UnstableKeyError
from ridgeline.engine.state.keyed_merge import Entries, Merge, Source
from ridgeline.engine.state.keyed_run import NOWHERE, REMOVED, Run, Wanted

__all__ = ["RUN_KEYS", "Run", "Runs", "RunsChange", "Write", "compact"]

RUN_KEYS = 50_000
"""A cell with fewer keys stays a dict; one that lies in runs becomes a dict again with half as many."""
_TIER = 4  # a run is merged into a newer one that has more than this part of its keys
_CHUNK = 1 << 14  # so many entries are looked at at once

Write = Callable[[Callable[[str], Iterable[bytes]]], str]
"""Writes one new file and returns its name. Its pieces are what the argument gives for the name, one after the other (some MB each)."""


class RunsChange(NamedTuple):
    """What stands in a snapshot file for a keyed cell that is held in runs, where a small cell has its full change."""

    application_window: int
    names: tuple[str, ...]
    """The files of its runs, oldest first."""
    changed: list[Any]
    """The keys that the application window changed so far."""


class Runs(KeyedBase):
    """The runs of one cell, oldest first, as one mapping: what `KeyedCell.attach` takes."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = tuple(runs)
        self._newest_first = self.runs[::-1]
        self._lookups = [(run.place_of, run.value_column.one) for run in self._newest_first]

    @property
    def next_order(self) -> int:
        """The place of the next new key."""
        return self.runs[-1].next_order

    def __len__(self) -> int:
        return self.runs[-1].live

    def __contains__(self, key: object) -> bool:
        try:
            hashed = keyed_hash.hash_one(key)
        except UnstableKeyError:
            return False
        for place_of, _ in self._lookups:
            place = place_of(hashed, key)
            if place != NOWHERE:
                return place != REMOVED
        return False

    def find(self, key: Any, default: Any) -> Any:
        """The value of a key, a new object if it can change in place; `default` if there is none."""
        try:
            hashed = keyed_hash.hash_one(key)
        except UnstableKeyError:
            return default
        for place_of, value_at in self._lookups:
            place = place_of(hashed, key)
            if place != NOWHERE:
                return default if place == REMOVED else value_at(place)
        return default

    def has_many(self, keys: Keys) -> Mask:
        """For each key, whether it is there."""
        there = np.zeros(len(keys), np.bool_)
        for _, which, _ in self._entries(keys):
            there[which] = True
        return there

    def find_many(self, keys: Keys) -> tuple[Mask, npt.NDArray[Any]]:
        """For each key, whether it is there, and its value."""
        there = np.zeros(len(keys), np.bool_)
        parts = []
        for run, which, places in self._entries(keys):
            there[which] = True
            parts.append((which, run.value_column.many(places)))
        return there, _merged(parts, len(keys))

    def _entries(self, keys: Keys) -> Iterator[tuple[Run, Places, Places]]:
        """Where keys are: (run, which of the keys, the places of their entries)."""
        wanted, rest = Wanted(keys), np.arange(len(keys))
        for run in self._newest_first:
            places = run.places_of(wanted, rest)
            found = places >= 0
            here = found.copy()
            here[found] = run.orders[places[found]] != REMOVED
            if here.any():
                yield run, rest[here], places[here]
            rest = rest[~found]

    def orders_and_keys(self, keys: Sequence[Any]) -> tuple[npt.NDArray[np.int64], list[Any]]:
        """The places of keys, all of which are there, in the order of insertion, and the keys as they were first set."""
        orders, exact = np.empty(len(keys), np.int64), list(keys)
        kind = kind_of(keys)
        for run, which, places in self._entries(keys):
            orders[which] = run.orders[places]
            if run.key_column.kind != kind or kind not in EXACT:
                for one, key in zip(which.tolist(), run.key_column.many(places).tolist(), strict=True):
                    exact[one] = key
        return orders, exact

    def __iter__(self) -> Iterator[Any]:
        for run_numbers, places in self._in_order():
            yield from self._gathered(run_numbers, places, [run.key_column.many for run in self.runs])

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All keys and values, in the order of insertion."""
        for run_numbers, places in self._in_order():
            keys = self._gathered(run_numbers, places, [run.key_column.many for run in self.runs])
            yield from zip(keys, self._gathered(run_numbers, places, [run.value_column.many for run in self.runs]), strict=True)

    def _in_order(self) -> Iterator[tuple[Places, Places]]:
        """The entries in the order of insertion: (number of the run, place in it). Holds some 30 bytes a key."""
        visible = [run.orders != REMOVED for run in self.runs]
        for number, run in enumerate(self.runs):
            for start in range(0, run.keys if number else 0, _CHUNK):
                stop = min(start + _CHUNK, run.keys)
                wanted = Wanted(run.key_column.part(start, stop, run.key_column.kind), run.hashes[start:stop])
                every = np.arange(len(wanted.hashes))
                for older, seen in zip(self.runs[:number], visible, strict=False):
                    places = older.places_of(wanted, every)
                    seen[places[places >= 0]] = False
        places = np.concatenate([np.flatnonzero(seen) for seen in visible])
        numbers = np.repeat(np.arange(len(self.runs), dtype=np.int8), [np.count_nonzero(seen) for seen in visible])
        order = np.argsort(np.concatenate([run.orders[seen] for run, seen in zip(self.runs, visible, strict=True)]))
        for start in range(0, len(order), _CHUNK):
            chunk = order[start : start + _CHUNK]
            yield numbers[chunk], places[chunk]

    def _gathered(self, numbers: Places, places: Places, columns: Sequence[Callable[[Places], npt.NDArray[Any]]]) -> list[Any]:
        parts = [(which, many(places[which])) for number, many in enumerate(columns) if len(which := np.flatnonzero(numbers == number))]
        return _merged(parts, len(places)).tolist()


def _merged(parts: Sequence[tuple[Places, npt.NDArray[Any]]], size: int) -> npt.NDArray[Any]:
    """One array of values that stand at some places each."""
    types = {values.dtype for _, values in parts}
    whole = np.empty(size, types.pop() if len(types) == 1 else object)
    for which, values in parts:
        whole[which] = values if whole.dtype == values.dtype else np.fromiter(values.tolist(), object, len(values))
    return whole


def compact(cell: KeyedCell[Any], write: Write) -> RunsChange | None:
    """Write what a cell holds beside its runs as a new run, merged with the small ones of them. The cell stays as it is.

    To use what it returns: `attach` a new or reset cell of the declaration to `Runs` of the opened files `names`, with `application_window`
    and `changed`. `names` are what `write` returned and, of runs that stay, what stands after the last `/` of their `name`.

    Returns None, having written nothing, if the cell has less than `RUN_KEYS` keys, or a key that has not the same hash in every process:
    then `cell.snapshot()` is what to write. Nothing is written either if nothing changed since the runs: then `names` are theirs.
    Raises what `write` raises.

    Memory: for each key held beside the runs some 100 bytes and its value encoded; for each key merged 12 bytes; and some 100 MB.
    """
    held = cell.held()
    runs = held.base if isinstance(held.base, Runs) else None
    if len(cell) < (RUN_KEYS // 2 if runs else RUN_KEYS):
        return None
    stay = list(runs.runs) if runs else []
    names: tuple[str, ...] = ()
    if held.values or held.removed:
        try:
            new = _entries(held, runs)
        except UnstableKeyError:
            return None
        sources: list[Source] = [new]
        while stay and stay[-1].keys < _TIER * sum(len(source.hashes) for source in sources):
            sources.append(stay.pop())
        added = len(held.values) - len(held.updated)
        merge, next_order = Merge(sources, oldest=not stay), (runs.next_order if runs else 0) + added
        names = (write(lambda name: merge.file(name, len(cell), next_order)),)
    return RunsChange(held.application_window, (*(run.name.rpartition("/")[2] for run in stay), *names), held.changed)


def _entries(held: Held, runs: Runs | None) -> Entries:
    """What a cell holds, as entries. Raises UnstableKeyError."""
    keys, values = list(held.values), list(held.values.values())
    removed = [key for key in held.removed if key not in held.values]
    orders = np.full(len(keys) + len(removed), REMOVED, np.int64)
    updated = np.fromiter(map(held.updated.__contains__, keys), np.bool_, len(keys))
    if runs:
        places = np.flatnonzero(updated).tolist()
        orders[places], exact = runs.orders_and_keys([keys[place] for place in places])
        for place, key in zip(places, exact, strict=True):
            keys[place] = key
    new = np.flatnonzero(~updated)
    orders[new] = np.arange(len(new)) + (runs.next_order if runs else 0)
    keys += removed
    hashes = keyed_hash.hash_many(keys)
    sorted_ = np.argsort(hashes, kind="stable")
    kind = kind_of(values)
    columns = encode(keys, kind_of(keys)), encode([*values, *[zero(kind)] * len(removed)], kind)
    key_column, value_column = (column.gathered(sorted_) for column in columns)
    size = 16 * len(keys) + key_column.size_bytes + value_column.size_bytes
    return Entries(hashes[sorted_], orders[sorted_], key_column, value_column, size)

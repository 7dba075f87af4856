"""Counts how tuples that are divided by key are spread over keys: all by cell, and a sample key by key."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

from ridgeline.api.codec import FunctionCodec, Hashes, StreamCodec
from ridgeline.api.columns.tuples import Tuples
from ridgeline.plan.protocol import KeyCounts

MOST_SAMPLED = 2_048
"""The most tuples of a port that are looked at one by one in a window."""
_MOST_HEAVY = 48
_MOST_TEXT = 60
_SEED = 7


class KeyCounters:
    """Counts of one container in one attempt at a window: bounded in memory, a few nanoseconds a tuple."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._counters: dict[tuple[int, ...], _Counter] = {}

    def add(self, sinks: tuple[int, ...], codec: StreamCodec, hashes: Hashes, part: Tuples) -> None:
        """Count a sequence of tuples that are divided among operators."""
        counter = self._counters.get(sinks)
        if counter is None:
            counter = self._counters[sinks] = _Counter(self._bits)
        counter.add(codec, hashes, part)

    def counts(self) -> tuple[KeyCounts, ...]:
        """The counts."""
        return tuple(counter.counts(sinks) for sinks, counter in self._counters.items())


class _Counter:
    """Counts of one port. The sample has each tuple with the same chance, which halves as it grows full."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._cells = np.zeros(1 << bits, np.int64)
        self._mask = np.uint64((1 << bits) - 1)
        self._random = np.random.default_rng(_SEED)
        self._chance = 1.0
        self._hashes: Hashes = np.empty(0, np.uint64)
        self._places: npt.NDArray[np.intp] = np.empty((0, 2), np.intp)
        """Of each sampled tuple: which of `_parts`, and the position in it."""
        self._parts: list[tuple[StreamCodec, Tuples]] = []

    def add(self, codec: StreamCodec, hashes: Hashes, part: Tuples) -> None:
        """Count a sequence of tuples."""
        self._cells += np.bincount((hashes & self._mask).astype(np.intp), minlength=len(self._cells))
        while len(self._hashes) + len(hashes) * self._chance > MOST_SAMPLED:
            self._chance /= 2
            stays = self._random.random(len(self._hashes)) < 0.5  # noqa: PLR2004  half of them
            self._hashes, self._places = self._hashes[stays], self._places[stays]
        if self._chance == 1.0:
            positions = np.arange(len(hashes))
        else:
            many = min(self._random.binomial(len(hashes), self._chance), MOST_SAMPLED)
            positions = np.sort(self._random.integers(0, len(hashes), many))
        if not len(positions):
            return
        self._hashes = np.concatenate([self._hashes, hashes[positions]])
        place = np.column_stack([np.full(len(positions), len(self._parts)), np.arange(len(positions))])
        self._places = np.concatenate([self._places, place])
        self._parts.append((codec, part if len(positions) == len(part) else part.take(positions)))

    def counts(self, sinks: tuple[int, ...]) -> KeyCounts:
        """The counts, with the texts of the keys that the sample has most of."""
        known, first, many = np.unique(self._hashes, return_index=True, return_counts=True)
        most = np.argsort(-many, kind="stable")[:_MOST_HEAVY].tolist()
        heavy = tuple((int(known[one]), self._text(int(first[one])), int(many[one])) for one in most)
        tuples = int(self._cells.sum())
        return KeyCounts(sinks, self._bits, packed_cells(self._cells), tuples, len(self._hashes), heavy)

    def _text(self, sampled: int) -> str:
        """The key of a sampled tuple."""
        place, position = self._places[sampled].tolist()
        codec, part = self._parts[place]
        return key_text(codec, part.take(np.array([position])))


def key_text(codec: StreamCodec, one: Tuples) -> str:
    """The key of one tuple for people; of a codec that does not say what the key is, the tuple."""
    row = one.rows[0]
    try:
        names = codec.key_columns(one.schema.arrow)
        if names is not None:
            values = [row[name] if isinstance(row, dict) else getattr(row, name) for name in names]
            text = ", ".join(map(str, values))
        elif isinstance(codec, FunctionCodec):
            text = str(codec.function(row))
        else:
            text = str(row)
    except Exception:  # noqa: BLE001  what users wrote may raise anything, and the key counts without a text
        text = f"a {type(row).__name__}"
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 3] + "..."


def packed_cells(cells: npt.NDArray[np.int64]) -> bytes:
    """Counts by cell as bytes: most are small, and many are 0."""
    return zlib.compress(cells.astype("<u4").tobytes(), 1)


def unpacked_cells(data: bytes) -> npt.NDArray[np.int64]:
    """What `packed_cells` has packed.

    >>> unpacked_cells(packed_cells(np.array([0, 3, 0, 0]))).tolist()
    [0, 3, 0, 0]
    """
    return np.frombuffer(zlib.decompress(data), "<u4").astype(np.int64)

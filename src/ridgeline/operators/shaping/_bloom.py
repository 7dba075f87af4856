"""A Bloom filter on numpy, and the hashes of keys that it takes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.codec import hash_column
from ridgeline.api.columns.casting import is_bytes, is_text

Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Shape:
    """How many bits and hashes a filter has for so many keys and this share of false positives."""

    def __init__(self, keys: int, error_rate: float) -> None:
        each = -math.log(error_rate) / math.log(2) ** 2
        self.bits = max(64, math.ceil(keys * each / 8) * 8)
        self.hashes = max(1, round(each * math.log(2)))


class Bloom:
    """A set of hashes that never loses one, and now and then holds one that it was not given.

    Example:
        >>> bloom = Bloom.empty(Shape(1000, 0.01))
        >>> numbers = mixed(np.arange(10, dtype=np.uint64))
        >>> bloom.add(numbers[:5])
        >>> bloom.holds(numbers).tolist()
        [True, True, True, True, True, False, False, False, False, False]
    """

    def __init__(self, hashes: int, octets: npt.NDArray[np.uint8]) -> None:
        self.hashes = hashes
        self._octets = octets

    @classmethod
    def empty(cls, shape: Shape) -> Bloom:
        """A filter without a hash."""
        return cls(shape.hashes, np.zeros(shape.bits // 8, np.uint8))

    @classmethod
    def of(cls, bits: bytes, hashes: int) -> Bloom:
        """The filter of bits, to which nothing can be added; nothing is copied."""
        return cls(hashes, np.frombuffer(bits, np.uint8))

    def add(self, hashes: Hashes) -> None:
        """Add hashes."""
        for places in self._places(hashes):
            np.bitwise_or.at(self._octets, places >> np.int64(3), (1 << (places & 7)).astype(np.uint8))

    def holds(self, hashes: Hashes) -> Mask:
        """True of each that was added, and of a few others."""
        found = np.ones(len(hashes), np.bool_)
        for places in self._places(hashes):
            found &= (self._octets[places >> np.int64(3)] >> (places & 7).astype(np.uint8) & 1).astype(
                np.bool_
            )
        return found

    def bits(self) -> bytes:
        """The bits, eight in a byte."""
        return self._octets.tobytes()

    def _places(self, hashes: Hashes) -> Sequence[npt.NDArray[np.int64]]:
        """The bits of each hash, by double hashing."""
        size = np.uint64(8 * len(self._octets))
        with np.errstate(over="ignore"):
            step = mixed(hashes ^ _GOLDEN) | np.uint64(1)
            return [
                ((hashes + np.uint64(number) * step) % size).astype(np.int64) for number in range(self.hashes)
            ]


def mixed(value: Hashes) -> Hashes:
    """Spread all bits over all bits."""
    with np.errstate(over="ignore"):
        value = value + _GOLDEN
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return value ^ (value >> np.uint64(31))


def wide_hashes(batch: pa.RecordBatch, names: Sequence[str]) -> Hashes:
    """A hash of 64 bits of each row's key, the same in all processes.

    Those that divide streams have 32 bits of a text.
    """
    total = np.zeros(len(batch), np.uint64)
    with np.errstate(over="ignore"):
        for name in names:
            total = mixed(total * np.uint64(31) + _wide(batch.column(name)))
    return total


def _wide(column: pa.Array) -> Hashes:
    """A hash of 64 bits of each value; equal values have equal ones, null has 0."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if not (is_text(kind) or is_bytes(kind)):
        return hash_column(column)
    encoded = column.cast(pa.large_binary()).dictionary_encode()
    words = [hashlib.blake2b(word, digest_size=8).digest() for word in encoded.dictionary.to_pylist()]
    table = np.append(np.frombuffer(b"".join(words), np.uint64), np.uint64(0))
    found: Hashes = table[encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)]
    return found

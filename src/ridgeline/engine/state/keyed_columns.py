"""Columns of keys or values: typed arrays where all are of one plain type, else a pickle each.

A kind is a code: `i` int (of 64 bits), `f` float, `b` bool, `s` str, `y` bytes, `p` pickles, `-` nothing at
all. The kind of a tuple is the codes of its items in brackets. A column is made of leaves, one for each code;
a leaf lies in the file as one array, or as offsets and bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import eq
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.support.pickling import dumps, loads

Places = npt.NDArray[Any]
"""Positions of entries, as integers."""
Values = npt.NDArray[Any]
"""Values of entries, as numbers or objects."""
NOTHING = "-"
_LETTERS = {int: "i", float: "f", bool: "b", str: "s", bytes: "y"}
_DTYPES: dict[str, type[np.generic]] = {"i": np.int64, "f": np.float64, "b": np.bool_}
_ZEROS = {"i": 0, "f": 0.0, "b": False, "s": "", "y": b"", "p": None}
_DECODERS: dict[str, Callable[[memoryview], object]] = {
    "s": lambda raw: str(raw, "utf-8"),
    "y": bytes,
    "p": loads,
}
_MOST_ITEMS = 16  # of a tuple that gets a column for each item


def codes(kind: str) -> str:
    """The type codes of a kind's leaves."""
    return kind.strip(f"(){NOTHING}")


def dtype_of(code: str) -> type[np.generic] | None:
    """Numpy's type of a leaf of numbers, None for one of bytes."""
    return _DTYPES.get(code)


def kind_of(values: Sequence[Any]) -> str:
    """The kind that holds these values as they are."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return "p" if kinds else NOTHING
    kind = kinds.pop()
    if kind is int:
        return "i" if min(values) >= -(1 << 63) and max(values) < 1 << 63 else "p"
    if kind is str:
        try:
            "".join(values).encode()
        except UnicodeEncodeError:  # half a character
            return "p"
    if kind is tuple and len(sizes := set(map(len, values))) == 1 and 0 < sizes.pop() <= _MOST_ITEMS:
        parts = "".join(map(kind_of, zip(*values, strict=True)))
        return "p" if "p" in parts or "(" in parts else f"({parts})"
    return _LETTERS.get(kind, "p")


def common_kind(kinds: Iterable[str]) -> str:
    """The kind that holds values of all these kinds."""
    several = set(kinds) - {NOTHING}
    return (several.pop() if several else NOTHING) if len(several) < 2 else "p"  # noqa: PLR2004  one or none


class FixedLeaf:
    """An immutable array of numbers, each as wide as the other.

    `size_bytes`: what it holds. `one`: a function of a place, the value there.
    """

    def __init__(self, array: Values) -> None:
        self.array = array
        self.size_bytes = array.nbytes
        self.one = array.data.__getitem__

    def many(self, places: Places) -> Values:
        """The numbers at some places."""
        return self.array[places]

    def gather(self, others: Sequence[Any], places: Places) -> FixedLeaf:
        """The leaf of the entries at `places` in `others`, concatenated; all leaves have this leaf's code."""
        return FixedLeaf(np.concatenate([other.array for other in others])[places])

    def part(self, start: int, stop: int) -> FixedLeaf:
        """A view."""
        return FixedLeaf(self.array[start:stop])

    def same(self, places: Places, other: Any, others: Places) -> npt.NDArray[np.bool_]:
        """Vectorised."""
        return self.array[places] == other.array[others]


class VaryingLeaf:
    """The same of strings, bytes or pickles: an Arrow array of them."""

    def __init__(self, code: str, array: pa.Array) -> None:
        self.code = code
        self.array = array
        self.size_bytes = array.nbytes
        _, bounds, data = array.buffers()
        self._bounds = memoryview(bounds or bytes(8)).cast("B").cast("q")[array.offset :][: len(array) + 1]
        self._data = memoryview(data or b"").cast("B")
        self._decode = _DECODERS[code]

    @classmethod
    def over(cls, code: str, offsets: Any, data: object) -> VaryingLeaf:
        """A leaf that lies in a file: offsets (int64, one more than there are values) and bytes."""
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return cls(code, pa.Array.from_buffers(_arrow(code), len(offsets) // 8 - 1, buffers))

    def one(self, place: int) -> Any:
        """Decoded alone."""
        return self._decode(self._data[self._bounds[place] : self._bounds[place + 1]])

    def many(self, places: Places) -> Values:
        """Arrow's `take`."""
        values = self.array.take(pa.array(places)).to_pylist()
        return np.fromiter(map(loads, values) if self.code == "p" else values, object, len(values))

    def gather(self, others: Sequence[Any], places: Places) -> VaryingLeaf:
        """Arrow's `take`."""
        return VaryingLeaf(
            self.code, pa.concat_arrays([other.array for other in others]).take(pa.array(places))
        )

    def part(self, start: int, stop: int) -> VaryingLeaf:
        """A view."""
        return VaryingLeaf(self.code, self.array.slice(start, stop - start))

    def same(self, places: Places, other: Any, others: Places) -> npt.NDArray[np.bool_]:
        """By their bytes; pickles with other bytes may still be equal."""
        found = pc.equal(self.array.take(pa.array(places)), other.array.take(pa.array(others)))
        equal = np.array(found.to_numpy(zero_copy_only=False))
        if self.code == "p":
            for place in np.flatnonzero(~equal).tolist():
                equal[place] = bool(self.one(places[place]) == other.one(others[place]))
        return equal

    @property
    def lengths(self) -> FixedLeaf:
        """How many bytes each is."""
        bounds = np.frombuffer(self._bounds, np.int64)
        return FixedLeaf(bounds[1:] - bounds[:-1])

    @property
    def raw(self) -> memoryview:
        """The bytes of all, one after the other."""
        return self._data[self._bounds[0] : self._bounds[-1]]


Leaf = FixedLeaf | VaryingLeaf
"""An array of one code. Methods that take others take those of the same code."""


class EntryColumn:
    """Keys or values of one kind."""

    def __init__(self, kind: str, leaves: Sequence[Leaf]) -> None:
        self.kind = kind
        self.leaves = tuple(leaves)
        self.one: Callable[[int], Any] = leaves[0].one if len(kind) == 1 and leaves else self._tuple

    def _tuple(self, place: int) -> tuple[Any, ...]:
        return tuple([leaf.one(place) for leaf in self.leaves])

    def many(self, places: Places) -> Values:
        """The values at some places: numbers, or objects."""
        if len(self.kind) == 1:
            return self.leaves[0].many(places) if self.leaves else np.empty(len(places), object)
        parts = [leaf.many(places).tolist() for leaf in self.leaves]
        return np.fromiter(zip(*parts, strict=True), object, len(places))

    def same(self, places: Places, other: EntryColumn, others: Places) -> npt.NDArray[np.bool_]:
        """Whether entries at some places equal entries at places of another column of this kind."""
        return np.logical_and.reduce(
            [one.same(places, leaf, others) for one, leaf in zip(self.leaves, other.leaves, strict=True)]
        )

    def equal(self, places: Places, values: Sequence[object]) -> npt.NDArray[np.bool_]:
        """Whether what stands at some places is equal to these values, as Python says."""
        return np.fromiter(map(bool, map(eq, self.many(places).tolist(), values)), np.bool_, len(values))

    @property
    def size_bytes(self) -> int:
        """Its size in bytes."""
        return sum(leaf.size_bytes for leaf in self.leaves)

    def gathered(self, places: Places) -> EntryColumn:
        """The rows at some places, as a column."""
        return EntryColumn(self.kind, [leaf.gather([leaf], places) for leaf in self.leaves])

    def part(self, start: int, stop: int, kind: str) -> EntryColumn:
        """What stands from `start` to `stop`, as a column of another kind that holds it."""
        if kind == self.kind:
            return EntryColumn(kind, [leaf.part(start, stop) for leaf in self.leaves])
        nothing = self.kind == NOTHING
        return encode(
            [zero(kind)] * (stop - start) if nothing else self.many(np.arange(start, stop)).tolist(), kind
        )


def zero(kind: str) -> object:
    """A value of a kind that takes little room, where there is none."""
    return tuple(_ZEROS[code] for code in codes(kind)) if kind.startswith("(") else _ZEROS.get(kind)


def encode(values: Sequence[object], kind: str) -> EntryColumn:
    """A column of values that are of that kind."""
    parts = zip(*values, strict=True) if kind.startswith("(") and values else [values] * len(codes(kind))
    return EntryColumn(kind, [_leaf(code, part) for code, part in zip(codes(kind), parts, strict=True)])


def numbers(array: Values) -> EntryColumn:
    """A column of what an array of int64, float64 or bool holds."""
    [code] = (code for code, dtype in _DTYPES.items() if array.dtype == dtype)
    return EntryColumn(code, [FixedLeaf(array)])


def _leaf(code: str, values: Sequence[Any]) -> Leaf:
    if code in _DTYPES:
        return FixedLeaf(np.array(values, _DTYPES[code]))
    return VaryingLeaf(code, pa.array(list(map(dumps, values)) if code == "p" else values, _arrow(code)))


def _arrow(code: str) -> pa.DataType:
    return pa.large_string() if code == "s" else pa.large_binary()

"""Made-up records: the columns that `EventGenerator` fills.

A value depends on a seed and the number of its record only.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ParamSpec

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.codec import mix
from ridgeline.api.errors import did_you_mean
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.times import to_times

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_DIGITS = 2.0**-53
_OTHER = 0x2545F4914F6CDD1D
_LARGEST = 2**62
Make = Callable[[int, int, int], Any]
"""Makes values: of a seed, for the numbers of the first record and of the one after the last."""
_Given = ParamSpec("_Given")


@dataclass(frozen=True)
class Column:
    """A column of made-up values, as `integers`, `choice` and others return it: their name and arguments.

    `values(seed, start, stop)` gives those of the records `start` to `stop` - 1.

    Example:
        >>> sequence(1)
        Column(function='sequence', given={'first': 1})
        >>> sequence(1).values(0, 0, 3).to_pylist()
        [1, 2, 3]
    """

    function: str
    given: dict[str, Any]

    def __post_init__(self) -> None:
        """Raise ValueError for what makes no column."""
        if self.function not in _FUNCTIONS:
            raise ValueError(
                f"no column is made by `{self.function}`; {did_you_mean(self.function, _FUNCTIONS)}"
            )
        try:
            self._made()
        except TypeError as error:
            raise ValueError(f"`{self.function}` does not take {self.given}; {error}") from error

    def _made(self) -> tuple[pa.DataType, Make]:
        return _FUNCTIONS[self.function](**self.given)

    @property
    def kind(self) -> pa.DataType:
        """The type of the values."""
        return self._made()[0]

    def values(self, seed: int, start: int, stop: int) -> pa.Array:
        """The values of the records `start` to `stop` - 1."""
        kind, make = self._made()
        return pa.array(make(seed, start, stop)).cast(kind)


_FUNCTIONS: dict[str, Callable[..., tuple[pa.DataType, Make]]] = {}


def _column(function: Callable[_Given, tuple[pa.DataType, Make]]) -> Callable[_Given, Column]:
    """The function that returns a column, of one that returns its type and what makes its values."""
    name, takes = function.__name__, inspect.signature(function)
    _FUNCTIONS[name] = function

    @functools.wraps(function)
    def column(*args: _Given.args, **kwargs: _Given.kwargs) -> Column:
        return Column(name, takes.bind(*args, **kwargs).arguments)

    return column


def _random(minimum: int, maximum: int, seed: int, start: int, stop: int) -> npt.NDArray[np.int64]:
    """The random integers with the numbers `start` to `stop` - 1 of a seed, both bounds included.

    Number i is a hash of seed and i, modulo the size of the range. The hash is SplitMix64 (Steele, Lea and
    Flood, OOPSLA 2014), advanced to its i-th value. The bias is less than size / 2^64. So each number can be
    computed without those before it.
    """
    values = mix(np.arange(start, stop, dtype=np.uint64) * _GAMMA + np.uint64(seed % 2**64))
    return (values % np.uint64(maximum - minimum + 1)).astype(np.int64) + np.int64(minimum)


def _shares(seed: int, start: int, stop: int) -> npt.NDArray[np.float64]:
    """Floats from 0 to 1, exclusively."""
    return _random(0, 2**53 - 1, seed, start, stop).astype(np.float64) * _DIGITS


@_column
def integers(minimum: int, maximum: int) -> tuple[pa.DataType, Make]:
    """Random integers, both bounds included. Raises ValueError for bounds in the wrong order."""
    if not -_LARGEST <= minimum <= maximum <= _LARGEST:
        raise ValueError(
            f"`minimum` and `maximum` are integers in this order; got {minimum!r} and {maximum!r}"
        )
    return pa.int64(), lambda *numbers: _random(minimum, maximum, *numbers)


@_column
def uniform(low: float, high: float) -> tuple[pa.DataType, Make]:
    """Random floats, each as likely as another. Raises ValueError for bounds in the wrong order."""
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"`low` and `high` are numbers in this order; got {low!r} and {high!r}")
    return pa.float64(), lambda *numbers: low + (high - low) * _shares(*numbers)


@_column
def normal(mean: float, deviation: float) -> tuple[pa.DataType, Make]:
    """Random floats of a normal distribution (Box and Muller, 1958).

    Raises ValueError for a negative deviation.
    """
    if not (math.isfinite(mean) and math.isfinite(deviation) and deviation >= 0):
        raise ValueError(
            f"a normal distribution has a mean and a deviation of 0 or more; got {mean!r}, {deviation!r}"
        )

    def make(seed: int, start: int, stop: int) -> npt.NDArray[np.float64]:
        radius = np.sqrt(-2.0 * np.log1p(-_shares(seed, start, stop)))
        angle = 2.0 * math.pi * _shares(seed ^ _OTHER, start, stop)
        return mean + deviation * radius * np.cos(angle)

    return pa.float64(), make


@_column
def choice(options: Sequence[Any], weights: Sequence[float] | None = None) -> tuple[pa.DataType, Make]:
    """Values of a list, each as often as its weight says; without weights, as often as another.

    Raises ValueError without values, and for weights that do not fit.
    """
    weights = [1.0] * len(options) if weights is None else weights
    if not options or len(weights) != len(options) or min(weights) < 0 or not 0 < sum(weights) < math.inf:
        raise ValueError(
            f"`choice` takes values, and a weight for each, 0 or more; got {options!r} and {weights!r}"
        )
    every, borders = pa.array(options), np.cumsum(weights, dtype=np.float64)

    def make(*numbers: int) -> pa.Array:
        return every.take(pa.array(np.searchsorted(borders, _shares(*numbers) * borders[-1], "right")))

    return every.type, make


@_column
def sequence(first: int = 0, step: int = 1) -> tuple[pa.DataType, Make]:
    """Numbers one after the other: 0, 1, 2."""
    return pa.int64(), lambda _, start, stop: first + step * np.arange(start, stop)


@_column
def times(begin: datetime | str, *, every: float | str, late_by: float | str = 0) -> tuple[pa.DataType, Make]:
    """Times of records: one `every` so often, each earlier by a random time up to `late_by`.

    `begin`: that of the first; without a zone UTC. Raises ValueError for what is no time or duration.
    """
    first = int(to_times([datetime.fromisoformat(begin) if isinstance(begin, str) else begin])[0])
    step, most = (round(parse_duration(one) * 1_000_000) for one in (every, late_by))

    def make(seed: int, start: int, stop: int) -> npt.NDArray[np.int64]:
        return first + step * np.arange(start, stop) - _random(0, most, seed, start, stop)

    return pa.timestamp("us", "UTC"), make

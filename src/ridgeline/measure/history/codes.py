"""Figures in two bytes each: their logarithms, so that any size has the same relative error."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint16]

_UNKNOWN, _NOTHING, _FIRST, _LAST = 0, 1, 2, 65_535
_PER_OCTAVE = 1024  # so a figure is off by 0.034 % at most
_LEAST_OCTAVE = -20  # the least figure is a microsecond, the greatest some 10 ** 13


def encode(figures: Floats) -> Codes:
    """The codes of figures that are not negative; NaN: not known.

    Figures below a microsecond (or a millionth) become 0, as negative ones do. Those that are too large
    become the greatest.

    >>> decode(encode(np.array([0.0, 1.0, 250.0, np.nan]))).round(1).tolist()
    [0.0, 1.0, 250.0, nan]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = np.round((np.log2(figures) - _LEAST_OCTAVE) * _PER_OCTAVE) + _FIRST
    small = np.isnan(numbers) | (numbers < _FIRST)
    codes = np.where(small, _NOTHING, np.minimum(np.where(small, _FIRST, numbers), _LAST))
    return np.where(np.isnan(figures), _UNKNOWN, codes).astype(np.uint16)


def decode(codes: Codes) -> Floats:
    """The figures of codes; NaN: not known."""
    figures = np.exp2((codes.astype(np.float64) - _FIRST) / _PER_OCTAVE + _LEAST_OCTAVE)
    return np.where(codes == _UNKNOWN, math.nan, np.where(codes == _NOTHING, 0.0, figures))

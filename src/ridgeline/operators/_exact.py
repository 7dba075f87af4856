"""Sums without rounding: the same for any order of the values, and however they are divided.

A sum is an int, a Decimal, or the sum of floats. That is a float, if a float is exactly as large, or if it is
not finite. Else it is a pair of integers `(mantissa, exponent)`: `mantissa * 2**exponent`. Only `rounded` and
`divided` round, once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

Sum = Any
Index = npt.NDArray[np.int64]
EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Decimals are added, and scaled, in it: the default context has 28 digits."""
_BITS = 53
_WIDEST = 50
"""Bits of a part: two less than would reach the next one when parts are split off."""
_CHUNK = 16_384
_MOST_PARTS = 4
_FAR = 900
"""No power of two that is as far from 1 overflows, or loses digits."""
_MOST_ROWS = 1 << 20
_LEAST_EXPONENT = -1074
_GREATEST = 1024
_LEAST_SQUARE, _GREATEST_SQUARE = 2.0**-900, 2.0**990


def added(one: Sum, other: Sum) -> Sum:
    """The sum of two sums of the same kind."""
    kinds = {type(one), type(other)}
    if kinds == {int}:
        return one + other
    if kinds == {tuple}:
        return _added_pairs(*one, *other)
    if isinstance(one, (float, tuple)) or isinstance(other, (float, tuple)):
        return _added_floats(one, other)
    return EXACT.add(one, other) if Decimal in kinds else one + other


def _added_floats(one: Sum, other: Sum) -> Sum:
    """The sum of a float and another float, or a pair."""
    if type(one) is float and type(other) is float:
        total = one + other
        if math.isfinite(total):
            back = total - one
            if (one - (total - back)) + (other - back) == 0:  # what was lost (Knuth, TAOCP 4.2.2)
                return total
        elif not (math.isfinite(one) and math.isfinite(other)):
            return total
    for some in (one, other):
        if isinstance(some, float) and not math.isfinite(some):
            return some
    return _added_pairs(*_pair(one), *_pair(other))


def _added_pairs(mantissa: int, exponent: int, second: int, least: int) -> Sum:
    """The sum of two pairs."""
    if exponent < least:
        mantissa, exponent, second, least = second, least, mantissa, exponent
    total = (mantissa << (exponent - least)) + second
    if total & 1 and total.bit_length() > _BITS:
        return total, least
    return _least(total, least)


def rounded(total: Sum) -> Any:
    """The number that is nearest to a sum.

    Raises OverflowError if the sum of finite floats is beyond the largest float.
    """
    if not isinstance(total, tuple):
        return total
    mantissa, exponent = total
    return float(mantissa << exponent) if exponent >= 0 else mantissa / (1 << -exponent)


def divided(total: Sum, count: int) -> Any:
    """The number that is nearest to a sum over a count: a float; of Decimals a Fraction."""
    if isinstance(total, Decimal):
        return Fraction(total) / count
    if isinstance(total, (int, np.integer)):
        return int(total) / count
    if isinstance(total, float) and not math.isfinite(total):
        return total
    mantissa, exponent = _pair(total)
    if exponent >= 0:
        return (mantissa << exponent) / count
    return mantissa / (count << -exponent)


def to_scale(value: Fraction, scale: int) -> Decimal:
    """The Decimal with this many digits after the point that is nearest; of two the even one."""
    return EXACT.scaleb(Decimal(round(value * 10**scale)), -scale)


def float_sums(values: npt.NDArray[np.float64], index: Index, groups: int) -> list[Sum]:
    """The sum of each group of floats."""
    if len(values) > _MOST_ROWS:
        halves = (slice(None, _MOST_ROWS), slice(_MOST_ROWS, None))
        first, rest = (float_sums(values[part], index[part], groups) for part in halves)
        return list(map(added, first, rest))
    if not len(values):
        return [0.0] * groups
    finite = np.isfinite(values)
    if not finite.all():
        found = float_sums(values[finite], index[finite], groups)
        for group, value in zip(index[~finite].tolist(), values[~finite].tolist(), strict=True):
            found[group] = added(found[group], value)
        return found
    close = _close_sums(values, float(values.min()), float(values.max()), index, groups)
    return _finite_sums(values, index, groups) if close is None else close


def _close_sums(
    values: npt.NDArray[np.float64], lowest: float, highest: float, index: Index, groups: int
) -> list[Sum] | None:
    """Add floats of similar exponents in parts of so few bits that no sum of parts is rounded.

    `lowest`, `highest`: of the values. None if exponents differ too much.
    """
    greatest = max(highest, -lowest)
    if not greatest:
        return [0.0] * groups
    least = lowest if lowest > 0 else -highest if highest < 0 else _least_size(values)
    top = math.frexp(greatest)[1]
    grid = math.frexp(least)[1] - _BITS
    width = min(_BITS - len(values).bit_length(), _WIDEST)
    count = -(-(top - grid) // width)
    if count > _MOST_PARTS or grid < -_FAR or top > _FAR:
        return None
    shifts = [grid + part * width for part in range(count)]
    sums = np.zeros((count, groups))
    for begin in range(0, len(values), _CHUNK):  # so that nothing leaves the cache
        rest, chosen = values[begin : begin + _CHUNK], index[begin : begin + _CHUNK]
        for part in reversed(range(1, count)):
            # the sum has no bits below those of the part: the nearest multiple of it is left
            whole = rest + 1.5 * 2.0 ** (shifts[part] + _BITS - 1)
            whole -= 1.5 * 2.0 ** (shifts[part] + _BITS - 1)
            np.add.at(sums[part], chosen, whole)
            rest = rest - whole
        np.add.at(sums[0], chosen, rest)
    return _joined(sums, shifts)


def _least_size(values: npt.NDArray[np.float64]) -> float:
    """The least absolute value that is not 0."""
    sizes = np.abs(values)
    return float(sizes.min()) or float(sizes[sizes > 0].min())


def _joined(parts: npt.NDArray[np.float64], shifts: Sequence[int]) -> list[Sum]:
    """The sums of the rows of parts: a column each. Row i has multiples of `2.0 ** shifts[i]`."""
    totals, exact = parts[0], np.ones(parts.shape[1], np.bool_)
    for part in parts[1:]:
        both = totals + part
        back = both - totals
        exact &= (totals - (both - back)) + (part - back) == 0  # nothing was lost, see `added`
        totals = both
    found: list[Sum] = totals.tolist()
    inexact = np.flatnonzero(~exact)
    if len(inexact):
        grid = shifts[0]
        columns = [(part[inexact] * 2.0**-shift).tolist() for part, shift in zip(parts, shifts, strict=True)]
        for group, *numbers in zip(inexact.tolist(), *columns, strict=True):
            total = 0
            for number, shift in zip(numbers, shifts, strict=True):
                total += int(number) << (shift - grid)
            found[group] = _least(total, grid)
    return found


def _finite_sums(values: npt.NDArray[np.float64], index: Index, groups: int) -> list[Sum]:
    """Add mantissas as Python's integers at the least exponent, which overflow nowhere."""
    fractions, exponents = np.frexp(values)
    least = int(exponents.min(initial=0))
    totals = [0] * groups
    whole = zip(
        index.tolist(),
        (fractions * 2.0**_BITS).astype(np.int64).tolist(),
        (exponents - least).tolist(),
        strict=True,
    )
    for group, mantissa, shift in whole:
        totals[group] += mantissa << shift
    return [_least(total, least - _BITS) for total in totals]


def _pair(total: Sum) -> tuple[int, int]:
    """A finite sum of floats as `(mantissa, exponent)`."""
    if isinstance(total, tuple):
        return total[0], total[1]
    mantissa, divisor = float(total).as_integer_ratio()
    return mantissa, 1 - divisor.bit_length()


def _least(mantissa: int, exponent: int) -> Sum:
    """A sum as a float, if it is exactly one; else as a pair without zeros at the end."""
    if not mantissa:
        return 0.0
    zeros = (mantissa & -mantissa).bit_length() - 1
    mantissa, exponent = mantissa >> zeros, exponent + zeros
    size = mantissa.bit_length()
    if size <= _BITS and exponent >= _LEAST_EXPONENT and exponent + size <= _GREATEST:
        return math.ldexp(mantissa, exponent)
    return mantissa, exponent


def float_square_sums(values: npt.NDArray[np.float64], index: Index, groups: int) -> list[Sum]:
    """The sum of the squares of each group.

    A square is the sum of two floats, but for very large and very small ones (Dekker, 1971).
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        squares = values * values
        split = ((squares > _LEAST_SQUARE) & (squares < _GREATEST_SQUARE)) | (values == 0)
        wide = values * 134_217_729.0
        high = wide - (wide - values)  # half of the digits (Veltkamp)
        low = values - high
        errors = (high * high - squares) + 2 * high * low + low * low
    rest = np.flatnonzero(~split)
    squares[rest] = errors[rest] = 0.0
    # each alone: together their exponents differ too much for the quick way
    found = list(map(added, float_sums(squares, index, groups), float_sums(errors, index, groups)))
    for group, value in zip(index[rest].tolist(), values[rest].tolist(), strict=True):
        square: Sum = value * value
        if math.isfinite(value):
            mantissa, exponent = _pair(value)
            square = _least(mantissa * mantissa, 2 * exponent)
        found[group] = added(found[group], square)
    return found


def rolling_sums(values: Sequence[Sum], bounds: Sequence[tuple[int, int]]) -> list[Sum] | None:
    """The sums of slices of values, `(begin, end)` each; None for Decimals, and if a value is not finite.

    Values are integers at one scale, so the sum of a slice is the difference of two sums from the first on.
    """
    kinds = set(map(type, values))
    if kinds <= {int}:
        totals = list(accumulate(values, initial=0))
        return [totals[end] - totals[begin] for begin, end in bounds]
    if not kinds <= {float, tuple} or not all(type(one) is tuple or math.isfinite(one) for one in values):
        return None
    pairs = list(map(_pair, values))
    least = min((exponent for _, exponent in pairs), default=0)
    totals = list(accumulate((mantissa << (exponent - least) for mantissa, exponent in pairs), initial=0))
    return [_least(totals[end] - totals[begin], least) for begin, end in bounds]


def exact(total: Sum) -> Fraction:
    """A sum as a fraction. Raises ValueError or OverflowError of one that is not finite."""
    if isinstance(total, (Decimal, float)):
        return Fraction(total)
    mantissa, exponent = total if isinstance(total, tuple) else (int(total), 0)
    return Fraction(mantissa << exponent) if exponent >= 0 else Fraction(mantissa, 1 << -exponent)

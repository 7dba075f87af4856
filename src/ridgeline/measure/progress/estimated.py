"""Arrays of numbers that say how well they are known: `Estimate` for many operators at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.measure.progress.estimate import Basis, Estimate

Numbers = npt.NDArray[np.float64]
Ranks = npt.NDArray[np.int8]
Places = npt.NDArray[np.intp]
EXACT, ESTIMATED, LOWER_BOUND, NOT_KNOWN = range(4)
"""Ranks: the places of `Basis`, the best first."""
BASES = tuple(Basis)


class Estimates(NamedTuple):
    """Several estimates. `value`: NaN for what is unknown. `rank`: of each basis, `NOT_KNOWN` for these."""

    value: Numbers
    rank: Ranks

    def at(self, places: Places | npt.NDArray[np.bool_]) -> Estimates:
        """Those at these places."""
        return Estimates(self.value[places], self.rank[places])

    def put(self, places: Places, others: Estimates) -> None:
        """Replace those at these places."""
        self.value[places], self.rank[places] = others

    def followed_by(self, others: Estimates) -> Estimates:
        """These, then the others."""
        return Estimates(np.concatenate((self.value, others.value)), np.concatenate((self.rank, others.rank)))

    def one(self, place: int) -> Estimate:
        """One of them by itself."""
        return Estimate(float(self.value[place]), BASES[self.rank[place]])

    @property
    def infinite(self) -> npt.NDArray[np.bool_]:
        """Where the number is infinite."""
        return np.isposinf(self.value)

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Where there is a number."""
        return ~np.isnan(self.value)


def estimates(value: Numbers, rank: int | Ranks = EXACT) -> Estimates:
    """Numbers on a basis, corrected as those of `Estimate` are: none is negative."""
    value = np.where(value < 0, 0.0, value)
    return Estimates(value, np.where(np.isnan(value), NOT_KNOWN, rank).astype(np.int8))


def nothing(size: int) -> Estimates:
    """Exact zeros."""
    return Estimates(np.zeros(size), np.zeros(size, np.int8))


def chosen(where: npt.NDArray[np.bool_], these: Estimates, others: Estimates) -> Estimates:
    """These where it is true, the others elsewhere."""
    return Estimates(np.where(where, these.value, others.value), np.where(where, these.rank, others.rank))


def plus(these: Estimates, others: Estimates) -> Estimates:
    """Sums, on the weaker basis; what is known plus what is unknown is a lower bound."""
    first, second = these.known, others.known
    both = first & second
    value = np.where(both, these.value + others.value, np.where(first, these.value, others.value))
    known_rank = np.where(both, np.maximum(these.rank, others.rank), LOWER_BOUND)
    return Estimates(value, np.where(first | second, known_rank, NOT_KNOWN).astype(np.int8))


def times(these: Estimates, others: Estimates) -> Estimates:
    """Products, on the weaker basis; a certain 0 times anything, unknown or infinite, is that 0."""
    first = (these.value == 0) & (these.rank != LOWER_BOUND)
    second = (others.value == 0) & (others.rank != LOWER_BOUND)
    unknown = ~(these.known & others.known)
    empty = (these.value == 0) | (others.value == 0)
    product = np.where(empty, 0.0, these.value * np.where(empty, 0.0, others.value))
    value = np.where(first | second, 0.0, np.where(unknown, np.nan, product))
    rank = np.where(unknown, NOT_KNOWN, np.maximum(these.rank, others.rank))
    rank = np.where(first, these.rank, np.where(second, others.rank, rank))
    return Estimates(value, rank.astype(np.int8))


def less(these: Estimates, amounts: Numbers) -> Estimates:
    """The rests after these amounts have gone, at least 0; an exact number becomes an estimated one."""
    goes = these.known & (amounts != 0)
    value = np.where(goes, np.maximum(0.0, these.value - amounts), these.value)
    return Estimates(value, np.where(goes, np.maximum(these.rank, ESTIMATED), these.rank).astype(np.int8))


def sums(owners: Places, size: int, values: Numbers) -> Numbers:
    """The sum of each owner's numbers."""
    return np.asarray(np.bincount(owners, values, minlength=size), np.float64)


def totals(owners: Places, size: int, given: Estimates) -> Estimates:
    """The sum of each owner's estimates, as `total`. `owners`: whose each is, below `size`."""
    known = given.known
    value = sums(owners[known], size, given.value[known])
    return _combined(owners, size, given, known, value)


def greatest_of(owners: Places, size: int, given: Estimates) -> Estimates:
    """The greatest of each owner's estimates, as `greatest`."""
    known = given.known
    value = np.zeros(size)
    np.maximum.at(value, owners[known], given.value[known])
    return _combined(owners, size, given, known, value)


def _combined(
    owners: Places, size: int, given: Estimates, known: npt.NDArray[np.bool_], value: Numbers
) -> Estimates:
    """Values of owners, on the weakest basis; a lower bound if some are unknown."""
    some = np.bincount(owners[known], minlength=size) > 0
    rank = np.zeros(size, np.int8)
    for one in (ESTIMATED, LOWER_BOUND, NOT_KNOWN):
        rank[owners[given.rank == one]] = one
    missing = rank == NOT_KNOWN
    rank[missing & some] = LOWER_BOUND
    return Estimates(np.where(missing & ~some, np.nan, value), rank)

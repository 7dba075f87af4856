"""Finds those of many rows that do not fit, where only all of them together can be tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Row = TypeVar("Row")


def take_fitting(
    rows: Sequence[Row],
    take: Callable[[Sequence[Row]], Any],
    refuse: Callable[[Row, Exception], None],
    errors: type[Exception] | tuple[type[Exception], ...],
) -> None:
    """Take rows in order, as many at once as fit; `refuse` gets the others, so a few of them cost little.

    `take`: raises one of `errors` if a row does not fit, and has taken none of them then.

    >>> taken, refused = [], []
    >>> take_fitting(
    ...     ["1", "x", "3"],
    ...     lambda rows: taken.extend(list(map(int, rows))),
    ...     lambda row, error: refused.append(row),
    ...     ValueError,
    ... )
    >>> taken, refused
    ([1, 3], ['x'])
    """
    if not rows:
        return
    try:
        take(rows)
    except errors as error:
        if len(rows) == 1:
            refuse(rows[0], error)
            return
        half = len(rows) // 2
        take_fitting(rows[:half], take, refuse, errors)
        take_fitting(rows[half:], take, refuse, errors)


class Unread(NamedTuple):
    """A row that cannot be read: its number in the chunk, what it is, and what is wrong with it."""

    row: int
    text: str
    error: str


class Sifted(NamedTuple):
    """The rows of a chunk that can be read, and those that cannot. `rows`: the numbers of the former."""

    batches: list[Any]
    rows: npt.NDArray[np.int64]
    unread: list[Unread]

    @property
    def reasons(self) -> dict[int, str]:
        """Why rows cannot be read, by their numbers."""
        return {one.row: one.error for one in self.unread}


def sift(
    numbers: npt.NDArray[np.int64],
    parse: Callable[[int, int], Any],
    describe: Callable[[int, Exception], tuple[str, str]],
    wrong: tuple[type[Exception], ...],
    strict: Callable[[str, str, Exception], Exception] | None = None,
) -> Sifted:
    """Parse rows that have these numbers, by halves where they fail, so a few that fail cost little.

    `parse(begin, end)` parses some of them, and raises one of `wrong`. `describe` gives text and error of one
    that cannot be parsed, by its place and what was raised for it. `strict`: what is raised for the first of
    them, made of these; None: they are left out.
    """
    batches: list[Any] = []
    rows: list[npt.NDArray[np.int64]] = []
    unread: list[Unread] = []

    def take(places: Sequence[int]) -> None:
        begin, end = places[0], places[-1] + 1
        batches.append(parse(begin, end))
        rows.append(numbers[begin:end])

    def refuse(place: int, error: Exception) -> None:
        found = Unread(int(numbers[place]), *describe(place, error))
        if strict is not None:
            raise strict(found.text, found.error, error) from error
        unread.append(found)

    take_fitting(range(len(numbers)), take, refuse, wrong)
    return Sifted(batches, np.concatenate([np.empty(0, np.int64), *rows]), unread)

"""Finds those of many rows that do not fit, where only all of them together can be tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

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

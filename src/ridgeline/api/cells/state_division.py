"""How a state that is not kept by key moves when the number of an operator's partitions changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ridgeline.api.errors import StateError, shorten

Way = Literal["same", "sum", "least", "greatest"]
StateMoves: TypeAlias = Way | Callable[[Sequence[Any], int], Sequence[Any]]
"""`"same"`: all partitions hold the same, such as a table that all get, and so do those after.

`"sum"`: the values of all are added (lists are joined), the first partition has the sum, and others their
default. `"least"`, `"greatest"`: all have the least or the greatest value. A function of the values, in the
order of partitions, and of the new number of partitions returns the value of each.
"""

Owns: TypeAlias = Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.bool_]]
"""Takes stable hashes of keys, and returns a mask of those that one partition gets."""
MovesTo: TypeAlias = Callable[[Sequence[Any], Sequence[Owns]], Sequence[Any]]
"""Divides what some partitions hold among others; see `KeyedState` and `ListState`."""


def checked_moves(moves: StateMoves | None) -> StateMoves | None:
    """How a declaration says that it moves. Raises StateError for a way that does not exist."""
    if moves is None or callable(moves) or moves in get_args(Way):
        return moves
    ways = ", ".join(f'"{way}"' for way in get_args(Way))
    what = "`moves` says what becomes of a state when the number of partitions changes"
    raise StateError(
        f"{what}; got {shorten(moves)}; give {ways} or a function of the values and a number of partitions"
    )


def checked_key(moves_by: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """The function that says by which key something moves. Raises StateError for what cannot be called."""
    if moves_by is None or callable(moves_by):
        return moves_by
    what = "`moves_by` gives the key of the input port, by which it moves to other partitions"
    raise StateError(f"{what}; got {shorten(moves_by)}; give a function of one argument")


def divide(moves: StateMoves, values: Sequence[Any], partitions: int, default: Any) -> Sequence[Any]:
    """Divide the values of a state among partitions: the value of each.

    Raises ValueError if partitions that should hold the same do not, and what a function raises.
    """
    if callable(moves):
        return list(moves(values, partitions))
    if moves == "same":
        other = [value for value in values if value != values[0]]
        if other:
            text = f"{shorten(values[0])} and {shorten(other[0])}"
            raise ValueError(
                f"the partitions hold {text}; it can be divided anew only while they hold the same"
            )
        return [values[0]] * partitions
    if moves == "sum":
        return [reduce(add, values), *([default] * (partitions - 1))]
    return [min(values) if moves == "least" else max(values)] * partitions

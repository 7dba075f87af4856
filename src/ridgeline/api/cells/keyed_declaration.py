"""The declaration of a value per key: how long it lives, and how it is divided among partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import reduce
from operator import add
from types import UnionType
from typing import Any, Generic, Literal, TypeAlias, TypedDict, Unpack, get_args, overload

import numpy as np
import numpy.typing as npt
import typing_extensions

from ridgeline.api.cells.cell import (
    MISSING,
    Declaration,
    Kind,
    StateScope,
    cell_of,
    checked_scope,
    chosen,
)
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.cells.timer_cell import TimerCell
from ridgeline.api.errors import StateError, shorten
from ridgeline.api.support.duration import parse_duration

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


K = typing_extensions.TypeVar("K", default=Any)
V = typing_extensions.TypeVar("V", default=Any)

TimeBase: TypeAlias = Literal["record", "clock"]
"""Which time counts: that of the records, as the watermark says, or that of the clock."""


Duration: TypeAlias = float | str | timedelta
"""Seconds, a text such as "1h", or a timedelta."""


def _microseconds(ttl: Duration) -> int:
    """A time to live in microseconds. Raises StateError for what is none."""
    try:
        seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else parse_duration(ttl)
    except ValueError as error:
        raise StateError(f"the `ttl` of a state is how long a key lives; {error}") from None
    if (microseconds := round(seconds * 1_000_000)) <= 0:
        raise StateError(
            f"the `ttl` of a state is how long a key lives; got {shorten(ttl)}; give more than 0"
        )
    return microseconds


class _Options(TypedDict, total=False):
    scope: StateScope
    ttl: Duration | None
    ttl_by: TimeBase
    moves_by: Callable[[Any], Any] | None
    moves_to: MovesTo | None
    moves: Literal["same"] | None


class KeyedState(Declaration[KeyedCell[K, V]], Generic[K, V]):
    """A value per key: `totals = KeyedState(int, key=str, default=0)`.

    A mutable mapping, split by key on repartition. Where its key is not that of the input port, but holds it,
    `moves_by=lambda key: key[0]` says which part that is.

    Where a value belongs to many keys of the port, `moves_to(held, owns)` divides the whole state. `held` has
    the mapping of each partition, `owns` a function for each partition of then. That takes an array of stable
    hashes of keys and returns a mask of its own ones. The mappings of the partitions of then are returned.
    `moves="same"`: all partitions hold the same keys and values, as of a port that all get.

    `type` is the values' type. `key`, the keys' type, is for type checkers: keys are not checked when the
    operator runs. `default` (a value, copied, or a callable without arguments) is what a missing key starts
    from. `scope="window"`: all keys are gone when the application window of its operator has ended.

    `ttl` (seconds, a text such as "1h", or a timedelta) is the time to live. A key is gone once so much time
    has passed since the window that last wrote it; reading does not count. `ttl_by="clock"`: by the time at
    which windows begin. `ttl_by="record"`: by the operator's watermark. Keys go when a window begins, at the
    cost of those that go. Raises StateError for what is no time to live.

    It reads as a dict does, and can hold more keys than fit into memory. From some 50,000 keys on, most of
    them lie in files that are mapped into memory, and come in any order. For that, keys must have the same
    hash in every process. These have: None, numbers, str, bytes, date, datetime, timedelta, UUID, members of
    an Enum, and tuples of these. With any other key (or a NaN) the state stays in memory. Values of one plain
    type (int, float, bool, str, bytes, or tuples of these) are held in columns, others as pickles.

    Keys that are equal are one key: 1, 1.0 and True, 0.0 and -0.0. So are all NaN. In a key that is a tuple,
    a NaN must be `math.nan` or come from a float column. Any other NaN raises StateError at the end of the
    window. A value that is not of `type` raises StateError when it is set. An int is accepted as a float;
    numpy's scalars become Python's.

    Example:
        >>> from ridgeline import KeyedState, Operator
        >>> class Count(Operator):
        ...     totals = KeyedState(int, key=str, default=0)
        >>> count = Count()
        >>> count.totals["word"] += 1
        >>> dict(count.totals)
        {'word': 1}
    """

    @overload
    def __init__(
        self,
        type: type[V],
        *,
        key: type[K],
        default: V | Callable[[], V] = ...,
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self, type: type[V], *, default: V | Callable[[], V] = ..., **options: Unpack[_Options]
    ) -> None: ...
    @overload
    def __init__(
        self, type: UnionType, *, key: type[K] = ..., default: object = ..., **options: Unpack[_Options]
    ) -> None: ...
    def __init__(  # noqa: PLR0913  each says one thing
        self,
        type: object,  # noqa: A002  what it is
        *,
        key: object = object,
        default: Any = MISSING,
        scope: StateScope = "application",
        ttl: Duration | None = None,
        ttl_by: TimeBase = "clock",
        moves_by: Callable[[Any], Any] | None = None,
        moves_to: MovesTo | None = None,
        moves: Literal["same"] | None = None,
    ) -> None:
        self.type = type
        self.key = key
        self.default = default
        self.scope = checked_scope(scope)
        self.moves_by = checked_key(moves_by)
        self.moves_to = moves_to
        self.moves = (
            None if moves is None else chosen("`moves` says what partitions hold", moves, Literal["same"])
        )
        if (moves_to or moves) is not None and (moves_by is not None or ttl is not None):
            raise StateError("`moves_to` and `moves` divide the whole state; leave `moves_by` and `ttl` out")
        self.ttl_microseconds = 0 if ttl is None else _microseconds(ttl)
        self.ttl_by = chosen("`ttl_by` says which time counts", ttl_by, TimeBase)

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        if self.ttl_microseconds:
            lifetimes = Lifetimes(self, f"_{name}_ends")
            setattr(owner, lifetimes.name, lifetimes)

    def cell(self) -> KeyedCell[K, V]:
        """A new cell without keys."""
        return KeyedCell(Kind(self.type, self.name), self.default)

    def __set__(self, instance: object, value: object) -> None:
        if value is not cell_of(instance, self):  # which `|=` assigns
            what = f"`{type(instance).__name__}.{self.name}`"
            raise AttributeError(f"{what} is keyed state; assign to its keys, or `clear()` it")


class Lifetimes(Declaration[TimerCell[Any]]):
    """When the keys of a state with a `ttl` end: declared beside it, by the state itself."""

    def __init__(self, state: KeyedState[Any, Any], name: str) -> None:
        self.state = state.name
        self.microseconds = state.ttl_microseconds
        self.by = state.ttl_by
        self.moves_by = state.moves_by
        self.scope = state.scope
        self.name = name
        self._read()

    def cell(self) -> TimerCell[Any]:
        """A new cell without keys."""
        return TimerCell(self.name, object)

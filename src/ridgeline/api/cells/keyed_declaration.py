"""The declaration of a value per key, and of how long a value lives that is not written again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, get_args, overload

import typing_extensions

from ridgeline.api.cells.cell import MISSING, Declaration, StateScope, cell_of, checked_merge, checked_scope
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.cells.kind import Kind
from ridgeline.api.cells.state_division import MovesTo, checked_key
from ridgeline.api.cells.timer_cell import TimerCell
from ridgeline.api.errors import StateError, shorten
from ridgeline.api.support.duration import parse_duration

K = typing_extensions.TypeVar("K", default=Any)
V = typing_extensions.TypeVar("V", default=Any)

TimeBase: TypeAlias = Literal["record", "clock"]
"""Which time counts: that of the records, as the watermark says, or that of the clock."""


def checked_base(name: str, base: TimeBase) -> TimeBase:
    """The time that a declaration goes by. Raises StateError for one that does not exist."""
    if base not in get_args(TimeBase):
        raise StateError(f'`{name}` says which time counts; got {shorten(base)}; give "record" or "clock"')
    return base


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


class KeyedState(Declaration, Generic[K, V]):
    """A value per key: `totals = KeyedState(int, key=str, default=0)`.

    A mutable mapping, split by key on repartition. Where its key is not that of the input port, but holds it,
    `moves_by=lambda key: key[0]` says which part that is.

    Where a value belongs to many keys of the port, `moves_to(held, owns)` divides the whole state. `held` has
    the mapping of each partition, `owns` a function for each partition of then. That takes an array of stable
    hashes of keys and returns a mask of its own ones. The mappings of the partitions of then are returned.

    `type` is the values' type. `key`, the keys' type, is for type checkers: keys are not checked when the
    operator runs. `default` (a value, copied, or a callable without arguments) is what a missing key starts
    from. `scope="window"`: all keys are gone when the application window of its operator has ended.
    `merge(older, newer)`: as of `State`, for the values of a key.

    `ttl` (seconds, a text such as "1h", or a timedelta) is the time to live. A key is gone once so much time
    has passed since the window that last wrote it; reading does not count. `ttl_by="clock"`: by the time at
    which windows begin. `ttl_by="record"`: by the operator's watermark. Keys go when a window begins, at the
    cost of those that go. Raises StateError for what is no time to live.

    It reads as a dict does, order included, and can hold more keys than fit into memory. From some 50,000
    keys on, most of them lie in files that are mapped into memory. For that, keys must have the same hash in
    every process. These have: None, numbers, str, bytes, date, datetime, timedelta, UUID, members of an Enum,
    and tuples of these. With any other key (or a NaN) the state stays in memory. Values of one plain type
    (int, float, bool, str, bytes, or tuples of these) are held in columns, others as pickles.

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
        scope: StateScope = ...,
        ttl: Duration | None = ...,
        ttl_by: TimeBase = ...,
        merge: Callable[[Any, Any], Any] | None = ...,
        moves_by: Callable[[Any], Any] | None = ...,
        moves_to: MovesTo | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        type: type[V],
        *,
        default: V | Callable[[], V] = ...,
        scope: StateScope = ...,
        ttl: Duration | None = ...,
        ttl_by: TimeBase = ...,
        merge: Callable[[Any, Any], Any] | None = ...,
        moves_by: Callable[[Any], Any] | None = ...,
        moves_to: MovesTo | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        type: UnionType,
        *,
        key: type[K] = ...,
        default: object = ...,
        scope: StateScope = ...,
        ttl: Duration | None = ...,
        ttl_by: TimeBase = ...,
        merge: Callable[[Any, Any], Any] | None = ...,
        moves_by: Callable[[Any], Any] | None = ...,
        moves_to: MovesTo | None = ...,
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
        merge: Callable[[Any, Any], Any] | None = None,
        moves_by: Callable[[Any], Any] | None = None,
        moves_to: MovesTo | None = None,
    ) -> None:
        self.type = type
        self.key = key
        self.default = default
        self.scope = checked_scope(scope)
        self.merge = checked_merge(merge, self.scope)
        self.moves_by = checked_key(moves_by)
        self.moves_to = moves_to
        if moves_to is not None and (moves_by is not None or ttl is not None):
            raise StateError("`moves_to` divides the whole state; leave `moves_by` and `ttl` out")
        if merge is not None and ttl is not None:
            raise StateError("a state that merges lives as long as its application window; leave `ttl` out")
        self.ttl_microseconds = 0 if ttl is None else _microseconds(ttl)
        self.ttl_by = checked_base("ttl_by", ttl_by)

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        if self.ttl_microseconds:
            lifetimes = Lifetimes(self, f"_{name}_ends")
            setattr(owner, lifetimes.name, lifetimes)

    def cell(self) -> KeyedCell[K, V]:
        """A new cell without keys."""
        return KeyedCell(Kind(self.type, self.name), self.default)

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __get__(self, instance: None, owner: type) -> KeyedState[K, V]: ...
        @overload
        def __get__(self, instance: object, owner: type) -> KeyedCell[K, V]: ...
        def __get__(self, instance: object, owner: type) -> KeyedState[K, V] | KeyedCell[K, V]: ...

    def __set__(self, instance: object, value: object) -> None:
        if value is not cell_of(instance, self):  # which `|=` assigns
            what = f"`{type(instance).__name__}.{self.name}`"
            raise AttributeError(f"{what} is keyed state; assign to its keys, or `clear()` it")


class Lifetimes(Declaration):
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

"""Timers: a callback by key once a time has passed, by the watermark or by the clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime  # also for the annotations of the example
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import typing_extensions

from ridgeline.api.cells.cell import chosen
from ridgeline.api.cells.keyed_declaration import KeyedState, TimeBase
from ridgeline.api.cells.per_instance import OWN
from ridgeline.api.cells.timer_cell import KeyTimers, TimerCell
from ridgeline.api.errors import StateError, shorten
from ridgeline.api.support.handlers import mark

K = typing_extensions.TypeVar("K", default=Any)
Op = TypeVar("Op")


class Timers(KeyedState[K, Any], Generic[K]):
    """A timer per key, declared like state: `silence = Timers(key=str, by="record")`.

    `self.silence.set(key, when)` sets a key's timer, in the place of its earlier one; `delete(key)` removes
    it. The method that `@silence.expired` decorates gets (key, when) once the time has passed, exactly once,
    and may emit. `by="record"`: once the watermark has reached it. `by="clock"`: once the window's time has,
    see `OperatorContext.window_time`.

    Timers expire in every streaming window after its tuples, also when none came. They expire in the order of
    their times; of equal times the one that was set first comes first. Those by record come before those by
    clock. A timer that is set to a time that has passed expires in the same window. When all inputs of the
    operator have finished, all timers by record expire; those by clock that are not due do not.

    Timers are state: they survive crashes and move with their keys. `key` is the type of the keys. Raises
    StateError for keys without a hash and for another time.

    Example:
        >>> from datetime import datetime, timedelta
        >>> from typing import NamedTuple
        >>> from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort, Timers
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Click(NamedTuple):
        ...     user: str
        ...     time: datetime
        >>> class Silent(Operator):
        ...     clicks = InputPort(Click, key="user")
        ...     silent = OutputPort(Click)
        ...     silence = Timers(key=str, by="record")
        ...
        ...     @clicks.process
        ...     def click(self, click: Click) -> None:
        ...         self.silence.set(click.user, click.time + timedelta(minutes=5))
        ...
        ...     @silence.expired
        ...     def expire(self, user: str, when: datetime) -> None:
        ...         self.silent.emit(Click(user, when))
        >>> app = Application("silent")
        >>> noon = datetime(2026, 1, 1, 12)
        >>> clicks = ListInput(Click, [("ann", noon), ("bob", noon)], timestamp="time", lateness="1s")
        >>> source = app.add_operator("source", clicks)
        >>> silent = app.add_operator("silent", Silent())
        >>> sink = app.add_operator("sink", CollectorSink(Click))
        >>> app.add_stream("clicks", source.output, silent.clicks)
        >>> app.add_stream("silent", silent.silent, sink.input)
        >>> [f"{user} {time:%H:%M}" for user, time in run_local(app).collected("sink")]
        ['ann 12:05', 'bob 12:05']
    """

    @overload
    def __init__(self, *, key: type[K], by: TimeBase = ...) -> None: ...
    @overload
    def __init__(self, *, by: TimeBase = ...) -> None: ...
    def __init__(self, *, key: Any = object, by: TimeBase = "record") -> None:
        super().__init__(tuple, key=key)
        self.by = chosen("`by` says which time counts", by, TimeBase)
        self.doubled: tuple[str, ...] = ()
        self.handler = ""
        """The name of the method that is called with what expires; empty if there is none."""
        if isinstance(key, type) and key.__hash__ is None:
            raise StateError(
                f"the keys of timers must have a hash; got `key={key.__name__}`; give a type such as `str`"
            )
        if not isinstance(key, type) and not hasattr(key, "__origin__"):
            raise StateError(
                f"`key` is the type of the keys of timers; got {shorten(key)}; give a type such as `str`"
            )

    def expired(self, function: Callable[[Op, K, datetime], None]) -> Callable[[Op, K, datetime], None]:
        """Decorate the method that gets the key and the time of each timer that expires.

        In a subclass too: `@Base.silence.expired`.
        """
        mark(self, "handler", function)
        return function

    def cell(self) -> TimerCell[K]:
        """A new cell without timers."""
        return TimerCell(self.name, self.key)

    def _read(self) -> None:
        """An instance reads the object that sets timers, not the cell with their times."""
        property.__init__(self, attrgetter(f"{OWN}{self.name}.timers"), doc=type(self).__doc__)

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __get__(self, instance: None, owner: type) -> Timers[K]: ...
        @overload
        def __get__(self, instance: object, owner: type) -> KeyTimers[K]: ...
        def __get__(self, instance: object, owner: type) -> Timers[K] | KeyTimers[K]: ...

    def __set__(self, instance: object, value: object) -> None:
        what = f"`{type(instance).__name__}.{self.name}` holds timers"
        raise AttributeError(f"{what}; set one by `self.{self.name}.set(key, when)`")

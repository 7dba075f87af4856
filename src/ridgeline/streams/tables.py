"""Steps of streams that need a key: the first of each key, tables, joins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ridgeline.api import OperatorAttributes, RidgelineError
from ridgeline.api.errors import shorten
from ridgeline.operators import (
    AsOfJoin,
    Deduplicate,
    LatestByKey,
    Sliding,
    Sort,
    TableJoin,
    WindowJoin,
    WithinJoin,
)
from ridgeline.operators._divided import Columns, columns_of
from ridgeline.operators._joined import On, right_columns
from ridgeline.streams.connecting import NoStream, Steps, T_co, advise, check_same
from ridgeline.streams.preview import marked_deletions

if TYPE_CHECKING:
    from ridgeline.streams.stream import Stream

Duration = float | str
"""Seconds, or a text such as "1h"."""


class StreamTable(NoStream):
    """A stream that is read as its latest row by key: what `Stream.table` returns, for `Stream.join`.

    `changes`: the stream of the rows that change it. `key`: its columns. `deleted`: the column that deletes.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class User(NamedTuple):
        ...     name: str
        ...     country: str
        >>> app = Application("users")
        >>> users = app.read("users", ListInput(User, [("ann", "CH"), ("ann", "NO")]))
        >>> table = users.table("by_name", key="name")
        >>> table.key
        ('name',)
        >>> sink = table.changes.write("sink", CollectorSink(User))
        >>> [user.country for user in run_local(app).collected("sink")]
        ['CH', 'NO']
    """

    no_stream = (
        "`table(...)` is a table",
        "its rows are a stream: `.changes.{name}(...)`; a stream joins it by `join`",
    )

    def __init__(self, changes: Stream[Any], key: tuple[str, ...], deleted: str | None) -> None:
        self.changes = changes
        self.key = key
        self.deleted = deleted

    def __repr__(self) -> str:
        return f"StreamTable({self.changes.name} by {', '.join(self.key)})"


class KeyedSteps(Steps[T_co]):
    """The steps of `Stream` that need a key."""

    def deduplicate(
        self,
        name: str,
        key: Columns,
        within: Duration | None = None,
        *,
        by: Literal["record", "clock"] = "record",
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[T_co]:
        """The first tuple of each key, or the first within a time; see the operator `Deduplicate`."""
        return self._step(name, Deduplicate(key, within, by), attributes)

    def table(
        self,
        name: str,
        key: Columns,
        *,
        deleted: str | None = None,
        **attributes: Unpack[OperatorAttributes],
    ) -> StreamTable:
        """Read the stream as a table, which has the latest row of each key; see `LatestByKey`.

        Where an input has marked the column of deletions, as `PostgresChanges` does, it need not be named.
        """
        deleted = deleted or marked_deletions(self.app, self.source)
        operator = LatestByKey(key, deleted)
        join = f"`stream.join(..., {name})`"
        changes = self._step(name, operator, attributes)
        remedy = f"join a stream with the table, {join}, or read its stream, `.changes`"
        advise(self.app, operator, output=remedy)
        return StreamTable(changes, columns_of(key), deleted)

    def join(
        self,
        name: str,
        table: StreamTable,
        on: On | None = None,
        how: Literal["inner", "left", "anti"] = "inner",
        *,
        broadcast: bool = False,
        suffix: str = "_right",
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[Any]:
        """The tuples with the row that a table has for each; see the operator `TableJoin`.

        `on`: the columns of the table's key, or a mapping of this stream's columns to them. Default: its key.
        Raises RidgelineError for other columns, and for what is no table.
        """
        check_table(name, table, on)
        check_same(self.app, name, table.changes.app)
        join = TableJoin(
            table.key if on is None else on, how, deleted=table.deleted, broadcast=broadcast, suffix=suffix
        )
        joined = self._step(name, join, attributes)
        table.changes.into(join.table)
        return joined

    def join_within(
        self,
        name: str,
        other: Stream[Any],
        on: On,
        within: Duration,
        how: Literal["inner", "left", "full", "anti"] = "inner",
        *,
        suffix: str = "_right",
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[Any]:
        """Pairs with records of another stream that are at most `within` apart; see `WithinJoin`."""
        join = WithinJoin(on, within, how=how, suffix=suffix)
        return self._pair(name, other, join, attributes)

    def join_in_window(
        self,
        name: str,
        other: Stream[Any],
        on: On,
        windows: Sliding,
        how: Literal["inner", "left", "full", "anti"] = "inner",
        *,
        suffix: str = "_right",
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[Any]:
        """Pairs with records of another stream in the same tumbling window; see `WindowJoin`."""
        check_windows(name, windows, "tumbling")
        join = WindowJoin(on, windows, how=how, suffix=suffix)
        return self._pair(name, other, join, attributes)

    def join_as_of(
        self,
        name: str,
        other: Stream[Any],
        on: On,
        within: Duration | None = None,
        how: Literal["left", "inner"] = "left",
        *,
        suffix: str = "_right",
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[Any]:
        """Each record with the newest one of another stream that is not later; see `AsOfJoin`."""
        join = AsOfJoin(on, within, how=how, suffix=suffix)
        return self._pair(name, other, join, attributes)

    def sort_within(
        self, name: str, key: Columns | None = None, **attributes: Unpack[OperatorAttributes]
    ) -> Stream[T_co]:
        """The records in the order of their times, within the lateness of the inputs; see `Sort`."""
        return self._step(name, Sort(key), attributes)

    def _pair(
        self,
        name: str,
        other: Stream[Any],
        join: AsOfJoin | WindowJoin | WithinJoin,
        attributes: OperatorAttributes,
    ) -> Stream[Any]:
        """Add a join of two streams."""
        if isinstance(other, StreamTable) or not hasattr(other, "source"):
            what = f"step `{name}` joins two streams by their times, but got {other!r}"
            raise RidgelineError(f"{what}; give a stream, or use `join` for a table")
        check_same(self.app, name, other.app)
        joined = self._step(name, join, attributes, "left")
        other.into(join.right)
        return joined


def check_windows(name: str, windows: object, kinds: str = "tumbling or sliding") -> None:
    """Raise RidgelineError for windows that are neither tumbling nor sliding by time."""
    if not isinstance(windows, Sliding | Mapping):
        what = f"the windows of step `{name}` must be {kinds} ones by time, the same for all keys"
        raise RidgelineError(f'{what}; got {shorten(windows)}; give such as `tumbling("1m")`')


def check_table(name: str, table: object, on: On | None) -> None:
    """Raise RidgelineError for what is no table, and for columns that are not its key."""
    if not isinstance(table, StreamTable):
        what = f"step `{name}` joins with a table, but got {table!r}"
        raise RidgelineError(
            f"{what}; make it one: `other.table(name, key=...)`, or use `join_within` for two streams"
        )
    theirs = right_columns(table.key if on is None else on)
    if sorted(theirs) != sorted(table.key):
        what = f"step `{name}` joins on the columns {list(theirs)} of the table"
        raise RidgelineError(
            f"{what}, whose key is {list(table.key)}; join on the key, or make a table by other columns"
        )

"""`Application.sql`: one SELECT over streams as a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypeVar

from ridgeline.api import Application, RidgelineError
from ridgeline.api.errors import did_you_mean, shorten
from ridgeline.operators import Sql
from ridgeline.operators.sql import MOST_TABLES
from ridgeline.streams.stream import Stream
from ridgeline.streams.tables import StreamTable, check_windows

T_co = TypeVar("T_co", covariant=True, default=Any)
_OPTIONS = ("windows", "timestamp", "memory_mb")


class Queried(Stream[T_co]):
    """The rows that SQL makes of streams.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Order = NamedTuple("Order", [("country", str), ("cents", int)])
        >>> app = Application("shop")
        >>> orders = app.read("orders", ListInput(Order, [("ch", 5), ("no", 7), ("ch", 3)]))
        >>> sql = "select country, sum(cents) as cents from orders group by country"
        >>> sink = app.sql("sums", sql, orders=orders).write("sink", CollectorSink())
        >>> sorted(row["cents"] for row in run_local(app).collected("sink"))
        [7, 8]
    """

    def late(self, table: str) -> Stream[Any]:
        """The records of a table that came too late for their windows. Raises RidgelineError for no table."""
        operator: Any = self.point.operator
        if table not in operator.tables:
            raise RidgelineError(f"the SQL has no table `{table}`; {did_you_mean(table, operator.tables)}")
        return self._other(f"late_{operator.tables.index(table) + 1}")


def sql(app: Application, name: str, text: str, schema: Any, given: Mapping[str, Any]) -> Queried[Any]:
    """Do the work of `Application.sql`."""
    streams = {table: one for table, one in given.items() if isinstance(one, Stream)}
    for table, one in given.items():
        if isinstance(one, StreamTable):
            what = f"`{table}` of step `{name}` is a table"
            raise RidgelineError(f"{what}; give the stream of its changes: `{table}=table.changes`")
    if not 1 <= len(streams) <= MOST_TABLES:
        what = f"step `{name}` reads {len(streams)} streams, but SQL reads 1 to {MOST_TABLES}"
        remedy = "give each by the name that the SQL has for it: `orders=orders`"
        raise RidgelineError(f"{what}; {remedy}; got {shorten(dict(given))}")
    for table, stream in streams.items():
        if stream.app is not app:
            raise RidgelineError(
                f"`{table}` of step `{name}` is a stream of another application; read it in this one"
            )
    others = {key: value for key, value in given.items() if key not in streams}
    options = {key: others.pop(key) for key in _OPTIONS if key in others}
    if options.get("windows") is not None:
        check_windows(name, options["windows"])
    operator = Sql[Any](text, list(streams), schema=schema, **options)
    app.add_operator(name, operator, **others)
    for number, stream in enumerate(streams.values(), 1):
        stream.into(getattr(operator, f"input_{number}"))
    return Queried(app, operator.output)

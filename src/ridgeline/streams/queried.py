"""`Application.sql`: one SELECT over streams as a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.api import Application, RidgelineError
from ridgeline.api.errors import shorten
from ridgeline.operators import Sql
from ridgeline.operators.sql import MOST_TABLES
from ridgeline.streams.stream import Stream
from ridgeline.streams.tables import StreamTable, check_windows

_OPTIONS = ("windows", "timestamp", "memory_mb")


def sql(app: Application, name: str, text: str, schema: Any, given: Mapping[str, Any]) -> Stream[Any]:
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
    return Stream(app, operator.output)

"""The changes of a table of PostgreSQL, as lines of JSON."""

from typing import Literal, NamedTuple

from ridgeline import Application
from ridgeline.connectors.postgres import PostgresChanges
from ridgeline.operators import FileOutput


class Item(NamedTuple):
    key: int
    number: int
    deleted: bool
    lsn: int


def application(
    dsn: str, output: str, partitions: int = 1, until: Literal["end"] | None = None
) -> Application:
    app = Application("from_postgres", window="20ms")
    changes = PostgresChanges("items", dsn=dsn, schema=Item, metadata={"lsn": "lsn"}, until=until)
    rows = app.read("items", changes, partitions=partitions)
    rows.write("lines", FileOutput(output, format="jsonl", roll_seconds=0))
    return app

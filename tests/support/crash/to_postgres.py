"""Numbered rows into two tables of PostgreSQL: all of them, and the last one of each key."""

from queued import PassOn, Rows

from ridgeline import Application
from ridgeline.connectors.postgres import PostgresOutput


def application(dsn: str, partitions: int = 2) -> Application:
    app = Application("to_postgres", window="20ms")
    rows = app.add_operator("rows", Rows())
    pass_on = app.add_operator("pass_on", PassOn(), partitions=partitions)
    every = app.add_operator("every", PostgresOutput(dsn=dsn, table="every"), partitions=partitions)
    last = app.add_operator("last", PostgresOutput(dsn=dsn, table="last", key="key"), partitions=partitions)
    app.add_stream("rows", rows.output, pass_on.rows)
    app.add_stream("passed", pass_on.passed, every.input, last.input)
    return app

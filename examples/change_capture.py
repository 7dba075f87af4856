"""Change capture: a table of PostgreSQL and its copy, a Delta table, which follows it row by row.

    SALES_DSN=postgresql://reader@localhost/sales ridgeline run examples/change_capture.py --table lake/customers

First it copies the rows that are there. Then each insert, update and deletion of `customers` (id, name, cents;
`id` is the primary key) reaches the Delta table once, in the order of commits. Kill it and start it again
with the same `--checkpoint`: nothing is lost, and nothing comes twice.
It needs `pip install 'ridgeline[postgres,lake]'`, and `wal_level = logical` at the server.
"""

from typing import Literal, NamedTuple

from ridgeline import Application
from ridgeline.connectors.lake import DeltaOutput
from ridgeline.connectors.postgres import PostgresChanges


class Customer(NamedTuple):
    id: int
    name: str
    cents: int | None


def application(table: str, dsn: str = "env:SALES_DSN", until: Literal["end"] | None = None) -> Application:
    app = Application("change_capture", window="1s")
    changes = app.read("changes", PostgresChanges("customers", dsn=dsn, schema=Customer, until=until))
    changes.write("lake", DeltaOutput(table, key="id", delete="deleted"))
    return app

"""Tables of databases, by SQL: MariaDB and MySQL, SQLite, DuckDB; and what they share with PostgreSQL."""

from ridgeline.connectors.sql.duckdb import DuckDbInput, DuckDbOutput
from ridgeline.connectors.sql.mariadb import MariaDbInput, MariaDbOutput
from ridgeline.connectors.sql.sqlite import SqliteInput, SqliteOutput

__all__ = ["DuckDbInput", "DuckDbOutput", "MariaDbInput", "MariaDbOutput", "SqliteInput", "SqliteOutput"]

"""Tables of databases, by SQL: MariaDB and MySQL, SQLite, DuckDB; and what they share with PostgreSQL."""

from ridgeline.connectors.sql.files.duckdb_output import DuckDbOutput
from ridgeline.connectors.sql.files.inputs import DuckDbInput, SqliteInput
from ridgeline.connectors.sql.files.sqlite_output import SqliteOutput
from ridgeline.connectors.sql.mariadb.input import MariaDbInput
from ridgeline.connectors.sql.mariadb.output import MariaDbOutput

__all__ = ["DuckDbInput", "DuckDbOutput", "MariaDbInput", "MariaDbOutput", "SqliteInput", "SqliteOutput"]

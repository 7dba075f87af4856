"""Databases that are a file: SQLite and DuckDB."""

from ridgeline.operators.sql_files.duckdb_output import DuckDbOutput
from ridgeline.operators.sql_files.inputs import DuckDbInput, SqliteInput
from ridgeline.operators.sql_files.sqlite_output import SqliteOutput

__all__ = ["DuckDbInput", "DuckDbOutput", "SqliteInput", "SqliteOutput"]

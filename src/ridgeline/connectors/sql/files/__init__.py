"""Databases in files: SQLite and DuckDB, inputs and outputs."""

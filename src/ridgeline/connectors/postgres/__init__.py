"""PostgreSQL: an output that writes each window once, and inputs of tables and of their changes."""

from ridgeline.connectors.postgres.changes import PostgresChanges
from ridgeline.connectors.postgres.tables import PostgresInput, PostgresOutput

__all__ = ["PostgresChanges", "PostgresInput", "PostgresOutput"]

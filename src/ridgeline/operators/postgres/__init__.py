"""PostgreSQL: an output that writes each window once, and inputs of tables and of their changes."""

from ridgeline.operators.postgres.changes import PostgresChanges
from ridgeline.operators.postgres.input import PostgresInput
from ridgeline.operators.postgres.output import PostgresOutput

__all__ = ["PostgresChanges", "PostgresInput", "PostgresOutput"]

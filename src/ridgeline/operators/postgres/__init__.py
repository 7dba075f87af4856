"""PostgreSQL: an output that writes each window once, and an input of tables that are appended to."""

from ridgeline.operators.postgres.input import PostgresInput
from ridgeline.operators.postgres.output import PostgresOutput

__all__ = ["PostgresInput", "PostgresOutput"]

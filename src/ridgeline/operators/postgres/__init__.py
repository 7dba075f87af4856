"""PostgreSQL: an output that writes each window once, by COPY."""

from ridgeline.operators.postgres.output import PostgresOutput

__all__ = ["PostgresOutput"]

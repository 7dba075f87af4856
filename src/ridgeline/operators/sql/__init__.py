"""SQL as a step: one SELECT over the tuples of a window."""

from ridgeline.operators.sql.sql import Sql

__all__ = ["Sql"]

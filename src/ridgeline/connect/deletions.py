"""The mark of a column that says which rows are deleted, so that tables of streams find it."""

from __future__ import annotations

import pyarrow as pa

DELETIONS = {b"ridgeline": b"deleted"}
"""The metadata of such a column, a field of booleans of a `pyarrow.Schema`."""


def deletions_of(schema: pa.Schema) -> str | None:
    """The column that says which rows are deleted; None if none is marked.

    >>> deletions_of(pa.schema([pa.field("gone", pa.bool_(), metadata=DELETIONS)]))
    'gone'
    """
    marked = [field.name for field in schema if (field.metadata or {}).items() >= DELETIONS.items()]
    return marked[0] if marked else None

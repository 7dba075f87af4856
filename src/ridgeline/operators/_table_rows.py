"""The base of outputs that write rows into a table of a database, by a key or without."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.connect.partitioned_output import PartitionedOutput
from ridgeline.operators._divided import Columns, DividedOperator, columns_of

DELETED = "ridgeline_deleted"
"""The column of encoded rows that says whether the row of their key is to be deleted."""
_DELETES = ("d", "delete", "DELETE", "D")


class TableRows(DividedOperator, PartitionedOutput):
    """Writes rows of the stream into a table.

    With `key` a row replaces the one with its key. `delete` names the column that says which rows are
    deleted. `create`: a table that is missing is made.
    """

    key: Columns | None = Field(default=None, kw_only=True)
    delete: str | None = Field(default=None, kw_only=True)
    create: bool = Field(default=True, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, and `delete` without one."""
        faults = super().property_faults() + self.key_faults("key")
        if self.delete is not None and not self.key:
            faults.append(("delete", self.delete, "needs `key`: which rows are to be deleted"))
        return faults

    def keyed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with `DELETED` in place of the column `delete`. Raises ValueError for a null key."""
        for name in columns_of(self.key):
            column = batch.column(name)
            if column.null_count:
                row = batch.slice(pc.index(column.is_null(), True).as_py(), 1).to_pylist()[0]
                msg = f"column `{name}` of the key is null in row {row}; leave such rows out upstream"
                raise ValueError(msg)
        if self.delete is None:
            return batch
        place = batch.schema.get_field_index(self.delete)
        return batch.set_column(place, DELETED, _deleted(batch.column(place)))


def _deleted(column: Any) -> Any:
    """Which rows are to be deleted: those where a column is true, or `d` or `delete`."""
    if pa.types.is_boolean(column.type):
        return pc.fill_null(column, False)  # noqa: FBT003  the value
    texts = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return pc.fill_null(pc.is_in(texts.cast(pa.string()), pa.array(_DELETES)), False)  # noqa: FBT003  the value

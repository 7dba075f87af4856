"""The base of outputs that write rows into a table of a database, by a key or without."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.api.errors import RidgelineError
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

    nan_keys: ClassVar[str] = ""
    """Why a row whose key is NaN is refused; "": it is not."""

    key: Columns | None = Field(default=None, kw_only=True)
    delete: str | None = Field(default=None, kw_only=True)
    create: bool = Field(default=True, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, and `delete` without one."""
        faults = super().property_faults()
        if self.delete is not None and not self.key:
            faults.append(("delete", self.delete, "needs `key`: which rows are to be deleted"))
        return faults

    def keyed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with `DELETED` in place of the column `delete`.

        Raises ValueError for a key of null, or of NaN where the table cannot have one. Raises RidgelineError
        for another column of that name.
        """
        if DELETED in batch.schema.names and self.delete != DELETED:
            msg = (
                f"the stream has a column `{DELETED}`, a name that the output uses itself; rename it upstream"
            )
            raise RidgelineError(msg)
        for name in columns_of(self.key):
            column = batch.column(name)
            if column.null_count:
                row = batch.slice(pc.index(column.is_null(), True).as_py(), 1).to_pylist()[0]
                msg = f"column `{name}` of the key is null in row {row}; leave such rows out upstream"
                raise ValueError(msg)
            if self.nan_keys and pa.types.is_floating(column.type):
                place = pc.index(pc.is_nan(column.cast(pa.float64())), True).as_py()
                if place >= 0:
                    row = batch.slice(place, 1).to_pylist()[0]
                    msg = f"column `{name}` of the key is NaN in row {row}: {self.nan_keys}; "
                    raise ValueError(msg + "leave such rows out upstream")
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

"""The base of outputs that write into a table of a database in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.api.support.files import local_path
from ridgeline.connect.partitioned_output import PartitionedOutput
from ridgeline.operators._divided import Columns, DividedOperator, columns_of

DELETED = "ridgeline_deleted"
"""The column that says whether the row of a key is to be deleted."""
_DELETES = ("d", "delete", "DELETE", "D")


class Table(NamedTuple):
    """A table of a file, and how rows are written. `delete`: the column that says which are deleted."""

    path: str
    name: str
    key: tuple[str, ...]
    delete: str | None
    create: bool

    @property
    def place(self) -> str:
        """For people."""
        return f"table {self.name} of {self.path}"

    def written(self, schema: pa.Schema) -> list[pa.Field]:
        """The columns of a stream that the table has."""
        return [field for field in schema if field.name != self.delete]

    def compare(self, operator: str, schema: pa.Schema, found: Sequence[str]) -> None:
        """Raise RidgelineError for a stream whose columns the table or `key` do not fit. `found`: its own."""
        what = f"`{operator}` cannot write to {self.place}"
        for name in (*self.key, *([self.delete] if self.delete else ())):
            if name not in schema.names:
                msg = f"{what}: the stream has no column `{name}`; {did_you_mean(name, schema.names)}"
                raise RidgelineError(msg)
        for field in self.written(schema):
            if field.name not in found:
                msg = f"{what}: the table has no column `{field.name}`; add it, or leave it out upstream"
                raise RidgelineError(msg)

    def missing(self, operator: str) -> RidgelineError:
        """The error for a table that is not there."""
        msg = f"`{operator}` cannot write to {self.place}: the table does not exist; "
        return RidgelineError(f"{msg}create it, or leave `create` as it is")


class TableOutput(DividedOperator, PartitionedOutput):
    """Writes rows of the stream into a table, by a key or without."""

    path: str | Path
    table: str = Field(min_length=1)
    key: Columns | None = Field(default=None, kw_only=True)
    delete: str | None = Field(default=None, kw_only=True)
    create: bool = Field(default=True, kw_only=True)

    def settle_properties(self) -> None:
        """Make a relative path absolute."""
        self.path = local_path(str(self.path))

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, and `delete` without one."""
        faults = self.key_faults("key")
        if self.delete is not None and not self.key:
            faults.append(("delete", self.delete, "needs `key`: which rows are to be deleted"))
        return faults

    @classmethod
    def keys_of(cls, given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """The columns of `key`."""
        return {"input": columns_of(given.get("key"))}

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Check keys, and say which rows are deleted. Raises ValueError for a key that is null."""
        for name in columns_of(self.key):
            column = batch.column(name)
            if column.null_count:
                row = batch.slice(pc.index(column.is_null(), True).as_py(), 1).to_pylist()[0]
                msg = f"column `{name}` of the key is null in row {row}; leave such rows out upstream"
                raise ValueError(msg)
        if self.delete is None:
            return batch
        place = batch.schema.get_field_index(self.delete)
        return batch.set_column(place, DELETED, deleted_rows(batch.column(place)))

    @property
    def target(self) -> Table:
        """The table, as the driver's half takes it."""
        return Table(str(self.path), self.table, columns_of(self.key), self.delete, self.create)


def deleted_rows(column: pa.Array) -> pa.Array:
    """Which rows are to be deleted: those where a column is true, or `d` or `delete`."""
    if pa.types.is_boolean(column.type):
        return pc.fill_null(column, False)  # noqa: FBT003  the value
    texts = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return pc.fill_null(pc.is_in(texts.cast(pa.string()), pa.array(_DELETES)), False)  # noqa: FBT003  the value


def quoted(name: str) -> str:
    """A name as SQL quotes it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def listed(names: Sequence[str]) -> str:
    """Names as a list of SQL."""
    return ", ".join(map(quoted, names))

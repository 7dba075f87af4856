"""The base of outputs that write into a table of a database in a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pydantic import Field

from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.api.support.files import local_path
from ridgeline.connect.datasets import Dataset, file_datasets
from ridgeline.operators._divided import columns_of
from ridgeline.operators._table_rows import TableRows


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

    def check(self, operator: str, schema: pa.Schema) -> None:
        """Raise RidgelineError for a stream that lacks a column of `key`, or has two of one name."""
        what = f"`{operator}` cannot write to {self.place}"
        for name in (*self.key, *([self.delete] if self.delete else ())):
            if name not in schema.names:
                msg = f"{what}: the stream has no column `{name}`; {did_you_mean(name, schema.names)}"
                raise RidgelineError(msg)
        names: dict[str, str] = {}
        for field in self.written(schema):
            if (other := names.setdefault(folded(field.name), field.name)) != field.name:
                msg = (
                    f"{what}: `{other}` and `{field.name}` are one column there, where upper and lower case "
                )
                raise RidgelineError(msg + "are the same; rename one of them upstream")

    def compare(self, operator: str, schema: pa.Schema, found: Iterable[str]) -> None:
        """Raise RidgelineError for a stream with a column that the table lacks. `found`: its own."""
        known = set(map(folded, found))
        for field in self.written(schema):
            if folded(field.name) not in known:
                msg = f"`{operator}` cannot write to {self.place}: the table has no column `{field.name}`; "
                raise RidgelineError(msg + "add it, or leave it out upstream")

    def missing(self, operator: str) -> RidgelineError:
        """The error for a table that is not there."""
        msg = f"`{operator}` cannot write to {self.place}: the table does not exist; "
        return RidgelineError(f"{msg}create it, or leave `create` as it is")


class TableOutput(TableRows):
    """Writes rows of the stream into a table of a file, by a key or without."""

    path: str | Path
    table: str = Field(min_length=1)

    def settle_properties(self) -> None:
        """Make a relative path absolute."""
        self.path = local_path(str(self.path))

    def datasets(self) -> list[Dataset]:
        """The table in its file, as `ridgeline.connect.datasets` names it."""
        return [Dataset(place, f"{path}/{self.table}") for place, path in file_datasets(self.path)]

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Check keys, and say which rows are deleted. Raises ValueError for a key that is null."""
        return self.keyed(batch)

    @property
    def target(self) -> Table:
        """The table, as the driver's half takes it."""
        return Table(str(self.path), self.table, columns_of(self.key), self.delete, self.create)


def quoted(name: str) -> str:
    """A name as SQL quotes it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def folded(name: str) -> str:
    """A name as the databases compare it: upper and lower case of ASCII are the same."""
    return name.encode().lower().decode()


def listed(names: Sequence[str]) -> str:
    """Names as a list of SQL."""
    return ", ".join(map(quoted, names))

"""The base of outputs that write into a table of a database in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import Field

from ridgeline.api.support.files import local_path
from ridgeline.connect.datasets import Dataset, file_datasets
from ridgeline.operators.databases.tables import TableRows, TableSink, Target


class FileSink(TableSink):
    """The driver's half: it writes into a table of a file on its host."""

    def __init__(self, path: str, target: Target) -> None:
        super().__init__(target)
        self.path = path

    def place(self) -> str:
        """The table and the file."""
        return f"table {self.target.name} of {self.path}"

    def written(self, schema: pa.Schema) -> list[Any]:
        """As `TableSink.written`. Refuses a stream with two columns of one name."""
        fields, names = super().written(schema), dict[str, str]()
        for field in fields:
            if (other := names.setdefault(folded(field.name), field.name)) != field.name:
                what = f"`{other}` and `{field.name}` are one column there, where upper and lower case are "
                self.fault(f"{what}the same", "rename one of them upstream")
        return fields

    def compare_folded(
        self, fields: Sequence[Any], found: Mapping[str, str], fits: Callable[..., bool] = lambda *_: True
    ) -> None:
        """Compare the stream's columns with the table's, whose names are folded."""
        there = {field.name: found[name] for field in fields if (name := folded(field.name)) in found}
        self.compare(fields, there, fits=fits, add=lambda _: "add it")


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

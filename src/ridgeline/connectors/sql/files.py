"""What inputs and outputs of databases in files share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.operator import Operator
from ridgeline.api.support.files import local_path
from ridgeline.connect.datasets import Dataset, file_datasets
from ridgeline.connectors.sql.increasing import IncreasingInput, IncreasingSource, Rows
from ridgeline.connectors.sql.tables import DatabaseSink, TableRows, Target, quoted


class FileSink(DatabaseSink):
    """The driver's half: it writes into a table of a file on its host."""

    def __init__(self, path: str, target: Target) -> None:
        super().__init__(target)
        self.path = path

    def place(self) -> str:
        """The table and the file."""
        return f"table {self.target.name} of {self.path}"

    @property
    def table(self) -> str:
        """The table in SQL; its name may have a dot in it."""
        return quoted(self.target.name)

    def written(self, schema: pa.Schema) -> list[Any]:
        """As `TableSink.written`. Refuses a stream with two columns of one name."""
        fields, names = super().written(schema), dict[str, str]()
        for field in fields:
            if (other := names.setdefault(folded(field.name), field.name)) != field.name:
                what = f"`{other}` and `{field.name}` are one column there, where upper and lower case are "
                self.fault(f"{what}the same", "rename one of them upstream")
        return fields

    def fits(self, kind: pa.DataType, column: str) -> bool:
        """Whether values of a type can be written to a column of a declared type."""
        return True

    def compare_table(self, fields: Sequence[pa.Field], found: Mapping[str, str]) -> None:
        """Compare the columns. Raises RidgelineError."""
        declared = {folded(name): kind for name, kind in found.items()}
        there = {field.name: declared[name] for field in fields if (name := folded(field.name)) in declared}
        self.compare(fields, there, fits=self.fits, add=lambda _: "add it")


class InFile(Operator):
    """A mixin of inputs and outputs: the file that the table is in."""

    path: str | Path

    def settle_properties(self) -> None:
        """Make a relative path absolute."""
        super().settle_properties()
        self.path = local_path(str(self.path))

    def datasets(self) -> list[Dataset]:
        """The table in its file, as `ridgeline.connect.datasets` names it."""
        name = getattr(self, "table", None) or "(query)"
        return [Dataset(place, f"{path}/{name}") for place, path in file_datasets(self.path)]


class TableOutput(InFile, TableRows):
    """Writes rows of the stream into a table of a file, by a key or without."""

    path: str | Path
    table: str = Field(min_length=1)

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Check keys, and say which rows are deleted. Raises ValueError for a key that is null."""
        return self.keyed(batch)


def folded(name: str) -> str:
    """A name as the databases compare it: upper and lower case of ASCII are the same."""
    return name.encode().lower().decode()


T = TypeVar("T", default=Any)
CHUNK_ROWS = 10_000


@dataclass(frozen=True)
class FileRows(Rows):
    """Rows of a database in a file, which is opened read-only for each question and closed again."""

    dots: ClassVar[bool] = False
    path: str

    @property
    def base(self) -> str:
        """The file."""
        return self.path

    def source(self) -> IncreasingSource:
        """The driver's half of the input."""
        return FileSource(self)


class FileSource(IncreasingSource):
    """Asks for numbers: writers of a file take turns, so what is committed is in order."""

    poll_seconds: ClassVar[float] = 0.5


class FileInput(InFile, IncreasingInput[T]):
    """Reads a table, or a query, of a database in a file."""

    path: str | Path = Field(kw_only=True)

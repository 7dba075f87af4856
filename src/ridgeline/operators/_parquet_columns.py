"""Columns of numbers and times in local Parquet files, which polars decodes in half of the time of Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.errors import SchemaError
from ridgeline.api.support.files import is_local
from ridgeline.operators._replay_files import ReplayFile
from ridgeline.operators.frames._expressions import imported, refuse_other
from ridgeline.operators.frames._types import array_of

_LEAST_ROWS = 32_768
"""Row groups of fewer rows are not worth that polars reads the footer of the file again."""
_MOST_BYTES = 1 << 26
"""A row group is decoded as a whole; larger ones are read in batches, by Arrow."""
_MOST_GROUPS = 256
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY"})
"""Of others polars passes damage that Arrow finds: it checks neither the checksums of gzip nor all sizes."""

Identity = tuple[int, int, int, int]


class PolarsColumns:
    """The columns of a file that polars decodes.

    Columns that it cannot decode are left to Arrow: to its result, and to its faults.
    """

    def __init__(self, path: str, identity: Identity, file: pq.ParquetFile, names: list[str]) -> None:
        self._path, self._identity, self._metadata = path, identity, file.metadata
        types = {field.name: field.type for field in file.schema_arrow}
        self._types = {name: types[name] for name in names if _is_plain(types[name])}

    @property
    def names(self) -> list[str]:
        """The names of the columns; none are left once polars has failed."""
        return list(self._types)

    def read(self, group: int, begin: int) -> dict[str, pa.Array]:
        """The columns of a row group that begins at a row of the file; empty if Arrow is to read it."""
        about = self._metadata.row_group(group)
        rows = about.num_rows
        if rows < _LEAST_ROWS or rows * 8 * len(self._types) > _MOST_BYTES or not _is_checked(about):
            return {}
        try:
            polars = imported()
            query = polars.scan_parquet(self._path, glob=False, hive_partitioning=False, cache=False)
            frame = query.select(self.names).slice(begin, rows).collect()
            columns = {name: array_of(frame[name]) for name in frame.columns}
        except BaseException as error:  # noqa: BLE001  of polars
            refuse_other(error)
            columns = {}
        whole = identity(self._path) == self._identity and all(
            name in columns and len(columns[name]) == rows and columns[name].type == kind
            for name, kind in self._types.items()
        )
        if not whole:
            self._types = {}
            return {}
        return columns


def columns_of(
    file: ReplayFile | Any, before: Identity | None, opened: pq.ParquetFile, names: list[str]
) -> PolarsColumns | None:
    """The columns of a file that polars decodes; None if there are none.

    `before`: the identity of the file before it was opened.
    """
    about = opened.metadata
    if before is None or before != identity(file.path) or about.num_row_groups > _MOST_GROUPS:
        return None
    if all(about.row_group(number).num_rows < _LEAST_ROWS for number in range(about.num_row_groups)):
        return None
    try:
        imported()
    except SchemaError:
        return None
    return PolarsColumns(file.path, before, opened, names)


def identity_of(file: ReplayFile | Any) -> Identity | None:
    """The identity of a local file; None of any other, and of one that is gone."""
    return identity(file.path) if isinstance(file, ReplayFile) and is_local(file.entry) else None


def identity(path: str) -> Identity | None:
    """Device, number, size and time of change of a local file; None if it is gone."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _is_checked(group: pq.RowGroupMetaData) -> bool:
    """True if polars finds the damage in a row group that Arrow finds."""
    return all(group.column(number).compression in _CODECS for number in range(group.num_columns))


def _is_plain(kind: pa.DataType) -> bool:
    """True of types whose values polars has in the same bytes."""
    if pa.types.is_timestamp(kind):
        return kind.unit in ("ms", "us") and kind.tz in (None, "UTC")
    return pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)

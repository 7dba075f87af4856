"""Write into a Delta table, exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from ridgeline.connect.datasets import Dataset, file_datasets
from ridgeline.connect.secrets import Secret
from ridgeline.connect.sink import Sink
from ridgeline.operators._divided import Columns, columns_of
from ridgeline.operators._table_rows import TableRows
from ridgeline.operators.lake.columns import converted, delta_type
from ridgeline.operators.lake.delta_sink import DeltaSink
from ridgeline.operators.lake.storage import Store, delta_faults, table_uri
from ridgeline.operators.lake.target import Target, target_faults


class DeltaOutput(TableRows):
    """Write the stream into a Delta table, exactly once.

    Rows of a window and its mark, two transaction identifiers of Delta, are one version of the table, after
    the window's commit. Windows that wait are written together. Other writers may be at work.

    `path`: a folder, or a URI such as `s3://shop/totals`. `storage`: options of its store as deltalake has
    them, such as `aws_endpoint_url`; secrets better as `env:NAME` or `file:PATH`.

    Without `key` rows are appended. With `key` a row replaces the one with its key: the last in the stream
    counts. `delete` names a column that is not written. Where it is true, or the text `d` or `delete`, the
    row of the key is deleted. With `overwrite` the rows of a window replace all rows of the partitions (by
    `partition_by`) in which it has rows.

    A table that is missing is made, partitioned by the columns `partition_by`, unless `create` is False. The
    columns of a table that is there are compared at the start.

    Timestamps are microseconds; those with a time zone are UTC. A time of day is text, a duration
    microseconds. An unsigned integer gets the next larger type; one that does not fit is a dead letter. So is
    a row whose key is NaN: deltalake takes a NaN for another number of its file in a merge.

    A row that the table refuses, by NOT NULL or CHECK, ends the run, with window, row and reason. With
    `on_error=SKIP` it is left out and written to a file beside the segments.

    Partitions: by `key`, else round robin.

    Example:
        >>> import tempfile
        >>> from typing import NamedTuple
        >>> from deltalake import DeltaTable
        >>> from ridgeline import Application
        >>> from ridgeline.operators.lake import DeltaOutput
        >>> from ridgeline.testing import ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> folder = tempfile.TemporaryDirectory()
        >>> app = Application("prices")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.3), ("IBM", 13.0)]))
        >>> table = app.add_operator("table", DeltaOutput(f"{folder.name}/prices", key="symbol"))
        >>> app.add_stream("prices", prices.output, table.input)
        >>> run = run_local(app)
        >>> DeltaTable(f"{folder.name}/prices").to_pyarrow_table().to_pylist()
        [{'symbol': 'IBM', 'price': 13.0}]
        >>> folder.cleanup()
    """

    path: str | Path
    partition_by: Columns = Field(default=(), kw_only=True)
    overwrite: bool = Field(default=False, kw_only=True)
    storage: dict[str, Secret] = Field(default={}, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse ways of writing that exclude each other, and a host without deltalake."""
        faults = super().property_faults() + target_faults(self._target)
        return faults + delta_faults(str(self.path), self.storage)

    def settle_properties(self) -> None:
        """Make a relative path absolute."""
        self.path = table_uri(str(self.path))

    @property
    def _target(self) -> Target:
        return Target(
            columns_of(self.key), self.delete, columns_of(self.partition_by), self.overwrite, self.create
        )

    nan_keys: ClassVar[str] = "a merge would change rows by it"

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the types of Delta. Raises ValueError for a value that it cannot hold."""
        return converted(self.keyed(batch), delta_type)

    def datasets(self) -> list[Dataset]:
        """The table, as `ridgeline.connect.datasets` names it."""
        return file_datasets(self.path)

    def sink(self) -> Sink:
        """The driver's half."""
        return DeltaSink(Store(str(self.path), self.storage), self._target)

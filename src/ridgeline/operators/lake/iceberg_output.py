"""Write into an Iceberg table, exactly once."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import urlsplit

import pyarrow as pa
from pydantic import Field

from ridgeline.connect.datasets import Dataset
from ridgeline.connect.secrets import Secret, secret_value
from ridgeline.connect.sink import Sink
from ridgeline.operators._divided import Columns, columns_of
from ridgeline.operators._table_rows import TableRows
from ridgeline.operators.lake.columns import converted, iceberg_type, refuse_null_lists
from ridgeline.operators.lake.iceberg import IcebergTable, iceberg_faults
from ridgeline.operators.lake.iceberg_sink import IcebergSink
from ridgeline.operators.lake.target import Target, target_faults


class IcebergOutput(TableRows):
    """Write the stream into an Iceberg table, exactly once.

    Rows of a window and its mark, a property of the table, are one commit, after the window's commit. Windows
    that wait are written together. Other writers may be at work.

    `table`: its name with the namespace, such as `shop.totals`. `catalog` and `properties`: name and
    properties of the catalog as pyiceberg has them, such as `{"type": "sql", "uri": ..., "warehouse": ...}`;
    secrets better as `env:NAME` or `file:PATH`. Without `properties` pyiceberg's own configuration counts.

    `key`, `delete`, `overwrite`, `partition_by` (of values, without transformation) and `create` are those of
    `DeltaOutput`. An upsert rewrites the files that have the keys.

    Timestamps are microseconds; those with a time zone are UTC. Small and unsigned integers get the next
    larger type, a duration is microseconds. A list of structs that is null is refused: pyiceberg would write
    an empty one. So is a NaN in the key. A row that lacks a required value ends the run; with `on_error=SKIP`
    it is left out and written to a file beside the segments.

    Partitions: by `key`, else round robin.

    Example:
        >>> import tempfile
        >>> from typing import NamedTuple
        >>> from pyiceberg.catalog import load_catalog
        >>> from ridgeline import Application
        >>> from ridgeline.operators.lake import IcebergOutput
        >>> from ridgeline.testing import ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> folder = tempfile.TemporaryDirectory()
        >>> catalog = {
        ...     "type": "sql",
        ...     "uri": f"sqlite:///{folder.name}/catalog.db",
        ...     "warehouse": f"file://{folder.name}",
        ... }
        >>> app = Application("prices")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.3), ("SAP", 9.5)]))
        >>> output = IcebergOutput("shop.prices", catalog="shop", properties=catalog)
        >>> table = app.add_operator("table", output)
        >>> app.add_stream("prices", prices.output, table.input)
        >>> run = run_local(app)
        >>> with load_catalog("shop", **catalog) as shop:
        ...     shop.load_table("shop.prices").scan().to_arrow().to_pylist()
        [{'symbol': 'IBM', 'price': 12.3}, {'symbol': 'SAP', 'price': 9.5}]
        >>> folder.cleanup()
    """

    table: str = Field(min_length=1)
    catalog: str = Field(default="default", kw_only=True)
    properties: dict[str, Secret] = Field(default={}, kw_only=True)
    partition_by: Columns = Field(default=(), kw_only=True)
    overwrite: bool = Field(default=False, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse ways of writing that exclude each other, and a host without pyiceberg."""
        return super().property_faults() + target_faults(self._target) + iceberg_faults(self.table)

    @property
    def _target(self) -> Target:
        return Target(
            columns_of(self.key), self.delete, columns_of(self.partition_by), self.overwrite, self.create
        )

    nan_keys: ClassVar[str] = "pyiceberg does not find such a row"

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the types of Iceberg. Raises ValueError for a value that it cannot hold."""
        rows = converted(self.keyed(batch), iceberg_type)
        refuse_null_lists(rows)
        return rows

    def datasets(self) -> list[Dataset]:
        """The table, as `ridgeline.connect.datasets` names it."""
        parts = urlsplit(secret_value(self.properties.get("uri", ""), "properties.uri"))
        known = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""
        return [Dataset(known or f"iceberg://{self.catalog}", self.table)]

    def sink(self) -> Sink:
        """The driver's half."""
        return IcebergSink(IcebergTable(self.table, self.catalog, self.properties), self._target)

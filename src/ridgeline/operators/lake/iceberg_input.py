"""Read an Iceberg table as it grows."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.columns.schema_types import SchemaType
from ridgeline.connect._enumerating import Settings, begin_of
from ridgeline.connect.partitioned_input import PartitionedInput
from ridgeline.connect.secrets import Secret
from ridgeline.connect.source import Source
from ridgeline.operators.lake.iceberg import IcebergTable, iceberg_faults
from ridgeline.operators.lake.iceberg_log import IcebergFiles, IcebergLog
from ridgeline.operators.lake.lake_reader import LakeReader
from ridgeline.operators.lake.lake_source import LakeSource

T = TypeVar("T", default=Any)


class IcebergInput(PartitionedInput[T]):
    """Emit the rows of an Iceberg table, and those that are added, each once.

    `table`: its name with the namespace, such as `shop.totals`. `catalog` and `properties`: name and
    properties of the catalog as pyiceberg has them; secrets better as `env:NAME` or `file:PATH`. `schema`:
    the rows' type, columns by name; the table may have more.

    `begin`, `until` and `pass_over_changes` are those of `DeltaInput`; a version is the id of a snapshot of
    the main branch. Snapshots that only rewrite files without a change of rows are passed over.

    Refused are tables with columns that were renamed, or removed and added again. So are rows that delete
    files have removed, and files that are not Parquet. Snapshots that have expired before they were read end
    the run.

    Partitions: each file is read by one.

    Example:
        >>> import tempfile
        >>> from typing import NamedTuple
        >>> import pyarrow as pa
        >>> from pyiceberg.catalog import load_catalog
        >>> from ridgeline import Application
        >>> from ridgeline.operators.lake import IcebergInput
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> folder = tempfile.TemporaryDirectory()
        >>> catalog = {
        ...     "type": "sql",
        ...     "uri": f"sqlite:///{folder.name}/catalog.db",
        ...     "warehouse": f"file://{folder.name}",
        ... }
        >>> rows = pa.table({"symbol": ["IBM"], "price": [12.3]})
        >>> with load_catalog("shop", **catalog) as shop:
        ...     shop.create_namespace("shop")
        ...     shop.create_table("shop.prices", rows.schema).append(rows)
        >>> app = Application("prices")
        >>> source = IcebergInput("shop.prices", Price, catalog="shop", properties=catalog, until="end")
        >>> prices = app.add_operator("prices", source)
        >>> sink = app.add_operator("sink", CollectorSink(Price))
        >>> app.add_stream("prices", prices.output, sink.input)
        >>> run_local(app).collected("sink")
        [Price(symbol='IBM', price=12.3)]
        >>> folder.cleanup()
    """

    waits_for_unread: ClassVar[bool] = False
    needs_until: ClassVar[bool] = True

    table: str = Field(min_length=1)
    schema: SchemaType[T]
    pass_over_changes: bool = Field(default=False, kw_only=True)
    catalog: str = Field(default="default", kw_only=True)
    properties: dict[str, Secret] = Field(default={}, kw_only=True)
    discover_every: float | str = Field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        """Give the output port its schema."""
        if "schema" in vars(self):
            self.declare_schema("output", self.schema)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a `begin` that is no place in a table, and a host without pyiceberg."""
        faults = super().property_faults() + iceberg_faults(self.table)
        if isinstance(self.begin, dict) and not (
            self.begin.keys() == {"version"} and isinstance(self.begin["version"], int)
        ):
            faults.append(("begin", self.begin, 'must be "earliest", "latest", {"version": 7} or a time'))
        return faults

    def _window_settings(self) -> Settings:
        return super()._window_settings()._replace(begin="earliest", until=None)

    @property
    def _named(self) -> IcebergTable:
        return IcebergTable(self.table, self.catalog, self.properties)

    def source(self) -> Source:
        """The half that reads the metadata."""
        log = IcebergLog(self._named, passes=self.pass_over_changes)
        return LakeSource(log, begin_of(self.begin), self.until)

    def reader(self) -> LakeReader:
        """The half that reads files."""
        named = self._named
        return LakeReader(lambda: IcebergFiles(named))

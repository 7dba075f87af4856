"""Write into an Iceberg table, exactly once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.connect.datasets import Dataset
from ridgeline.connect.extras import Secret, library, library_faults, secret_value
from ridgeline.connect.sink import Batch, Mark, Sink
from ridgeline.connectors.lake.target import (
    LakeColumns,
    LakeOutput,
    LakeSink,
    converted,
    iceberg_type,
    last_of_each,
    refuse_null_lists,
)
from ridgeline.connectors.sql.tables import DELETED, Target

_AWAY = (
    "CommitFailedException",
    "CommitStateUnknownException",
    "OperationalError",  # of a database that is gone, or locked
    "ServerError",
    "ServiceUnavailableError",
    "TooManyRequestsError",
    "ValidationException",  # another writer has changed the same files
    "WaitingForLockException",
)
_HOPELESS = ("ACCESS_DENIED", "AccessDenied", "NO_SUCH_BUCKET", "NoSuchBucket", "INVALID_ACCESS_KEY_ID")
_NO_MATCH = "Delete operation did not match any records"


def pyiceberg() -> Any:
    """The library. Raises RidgelineError if it is not installed."""
    what = "Iceberg tables need pyiceberg, which cannot be imported"
    for module in ("pyiceberg.catalog", "pyiceberg.exceptions"):
        library(module, what, "lake")
    warnings.filterwarnings("ignore", message=_NO_MATCH)  # keys that are new are the rule
    return library("pyiceberg", what, "lake")


class IcebergTable:
    """A table's name, its catalog, and the properties of that, of which some are secrets."""

    def __init__(self, name: str, catalog: str, properties: Mapping[str, Secret]) -> None:
        self.name = name
        self._catalog, self._properties = catalog, properties

    @property
    def place(self) -> str:
        """For people, without secrets."""
        return f"Iceberg table {self.name} of catalog {self._catalog}"

    def catalog(self) -> Any:
        """The catalog. Raises RidgelineError for a secret that is not there."""
        given = {}
        for name, value in self._properties.items():
            is_uri = isinstance(value, str) and value.startswith("file://")
            given[name] = value if is_uri else secret_value(value, f"properties.{name}")
        return pyiceberg().catalog.load_catalog(self._catalog, **given)


_MARK = "ridgeline.mark."
_RETRIES = "commit.retry.num-retries"


class IcebergSink(LakeSink):
    """Commits each write on the metadata whose mark was read: if these change meanwhile, it fails."""

    reached_by: ClassVar[str] = "`table` and `properties`"

    def __init__(self, table: IcebergTable, target: Target) -> None:
        super().__init__(target, iceberg_type)
        self._named = table
        self._catalog: Any = None

    def place(self) -> str:
        """The table and its catalog."""
        return self._named.place

    # The library --------------------------------------------------------------------------------------------

    def loaded(self) -> Any:
        """The table; None if it is missing."""
        self._catalog = self._named.catalog()
        try:
            return self._catalog.load_table(self._named.name)
        except pyiceberg().exceptions.NoSuchTableError:
            return None

    def made(self, fields: Sequence[pa.Field]) -> Any:
        """Make the table with its partitions, in one commit."""
        self._catalog.create_namespace_if_not_exists(self._named.name.rpartition(".")[0])
        try:
            with self._catalog.create_table_transaction(self._named.name, pa.schema(fields)) as making:
                if self.target.partition_by:
                    with making.update_spec() as spec:
                        for name in self.target.partition_by:
                            spec.add_identity(name)
        except pyiceberg().exceptions.TableAlreadyExistsError:
            pass  # another driver has just made it
        return self._catalog.load_table(self._named.name)

    def refresh(self) -> None:
        """Read the newest metadata."""
        self.table.refresh()

    def text_of(self, error: Exception) -> str:
        """The text of an error, without the statement of SQL that the library may add."""
        return str(error).partition("\n[SQL:")[0].strip() or type(error).__name__

    def is_hopeless(self, error: Exception) -> bool:
        """Whether rights are missing, or a bucket."""
        refused = type(error).__name__ in {"UnauthorizedError", "ForbiddenError"}
        return refused or any(part in str(error) for part in _HOPELESS)

    def is_away(self, error: Exception) -> bool:
        """Whether catalog or store cannot be reached now."""
        return isinstance(error, OSError) or type(error).__name__ in _AWAY

    def is_conflict(self, error: Exception) -> bool:
        """Whether the table has changed since it was read."""
        library = pyiceberg().exceptions
        return isinstance(error, library.CommitFailedException | library.ValidationException)

    def look(self) -> None:
        """Read the table's columns. Its metadata here say that a commit is not repeated by the library."""
        table = self.table
        schema = table.schema()
        fields = tuple(pa.field(one.name, iceberg_type(one.type)) for one in schema.as_arrow())
        needed = tuple(field.name for field in schema.fields if field.required)
        identity = tuple(
            schema.find_column_name(field.source_id)
            for field in table.spec().fields
            if str(field.transform) == "identity"
        )
        self.columns = LakeColumns(fields, identity, needed)
        table.metadata.properties[_RETRIES] = "0"

    def found_mark(self) -> Mark | None:
        """The property of this run, as of the metadata that were read last."""
        text = self.table.properties.get(_MARK + self.context.mark_name)
        if text is None:
            return None
        window, epoch = map(int, text.split())
        return Mark(window, epoch)

    def commit(self, batches: Sequence[Batch], rows: pa.Table, mark: Mark) -> None:
        """Write rows and mark in one commit."""
        with self.table.transaction() as transaction:
            self._change(transaction, rows)
            transaction.set_properties({_MARK + self.context.mark_name: f"{mark.window} {mark.epoch}"})

    def _change(self, transaction: Any, rows: pa.Table) -> None:
        """Write rows. There is a snapshot in any case: its parent is compared at the commit."""
        if self.target.key:
            from pyiceberg.expressions import AlwaysFalse
            from pyiceberg.table.upsert_util import create_match_filter

            rows = last_of_each(rows, self.target.key)
            same = create_match_filter(rows, list(self.target.key)) if len(rows) else AlwaysFalse()
            if self.target.delete is not None:
                rows = rows.filter(pc.invert(rows.column(DELETED)))
            transaction.overwrite(self._written(rows), overwrite_filter=same)
        else:
            transaction.append(self._written(rows))

    def _written(self, rows: pa.Table) -> pa.Table:
        """The columns that the table has, as it has them: those that need a value say so."""
        fields = [
            pa.field(field.name, field.type, field.name not in self.columns.needed)
            for field in self.columns.fields
        ]
        return rows.select([field.name for field in fields]).cast(pa.schema(fields))

    def close(self) -> None:
        """Let go of table and catalog."""
        catalog, self._catalog, self.table = self._catalog, None, None
        if catalog is not None:
            catalog.close()


class IcebergOutput(LakeOutput):
    """Write the stream into an Iceberg table, exactly once.

    Rows of a window and its mark, a property of the table, are one commit, after the window's commit. Windows
    that wait are written together. Other writers may be at work.

    `table`: its name with the namespace, such as `shop.totals`. `catalog` and `properties`: name and
    properties of the catalog as pyiceberg has them, such as `{"type": "sql", "uri": ..., "warehouse": ...}`;
    secrets better as `env:NAME` or `file:PATH`. Without `properties` pyiceberg's own configuration counts.

    `key`, `delete`, `partition_by` (of values, without transformation) and `create` are those of
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
        >>> from ridgeline.connectors.lake import IcebergOutput
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

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a host without pyiceberg, and a table without its namespace."""
        faults = super().property_faults() + library_faults("table", self.table, pyiceberg)
        if "." not in self.table:
            faults.append(("table", self.table, "must name the namespace, too: `shop.totals`"))
        return faults

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
        return IcebergSink(IcebergTable(self.table, self.catalog, self.properties), self.target)

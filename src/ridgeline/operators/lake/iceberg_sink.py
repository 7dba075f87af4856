"""The driver's half of `IcebergOutput`: a window's rows and its mark are one commit of the table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.connect.sink import Batch, Mark, SinkContext
from ridgeline.operators._table_rows import DELETED
from ridgeline.operators.lake.columns import iceberg_type, last_of_each, last_parts
from ridgeline.operators.lake.iceberg import IcebergTable, explaining, pyiceberg
from ridgeline.operators.lake.lake_sink import LakeSink
from ridgeline.operators.lake.target import Columns, Target

_MARK = "ridgeline.mark."
_RETRIES = "commit.retry.num-retries"


class IcebergSink(LakeSink):
    """Commits each write on the metadata whose mark was read: if these change meanwhile, it fails."""

    def __init__(self, table: IcebergTable, target: Target) -> None:
        super().__init__(target, iceberg_type)
        self._named = table
        self._catalog: Any = None
        self._table: Any = None

    def place(self) -> str:
        """The table and its catalog."""
        return self._named.place

    def open(self, context: SinkContext) -> None:
        """Make the table if it is missing, compare the columns. Raises RidgelineError."""
        super().open(context)
        with self.explaining():
            self._catalog = self._named.catalog()
            self._table = self._found(context.schema)
            if self._table is None:
                return
            self._look()
            if context.schema is not None:
                self.check.table(self.fields(context.schema), self.columns)

    def _found(self, schema: pa.Schema | None) -> Any:
        """The table, which is made if it is missing; None if no columns are known yet."""
        try:
            return self._catalog.load_table(self._named.name)
        except pyiceberg().exceptions.NoSuchTableError:
            return None if schema is None else self._make(schema)

    def _make(self, schema: pa.Schema) -> Any:
        """Make the table for a stream, with its partitions, in one commit."""
        fields = self.fields(schema)
        if not self.target.create:
            raise self.check.missing()
        namespace = self._named.name.rpartition(".")[0]
        self._catalog.create_namespace_if_not_exists(namespace)
        try:
            with self._catalog.create_table_transaction(self._named.name, pa.schema(fields)) as making:
                if self.target.partition_by:
                    with making.update_spec() as spec:
                        for name in self.target.partition_by:
                            spec.add_identity(name)
        except pyiceberg().exceptions.TableAlreadyExistsError:
            pass  # another driver has just made it
        return self._catalog.load_table(self._named.name)

    def _look(self) -> None:
        """Read the table's columns. Its metadata here say that a commit is not repeated by the library."""
        table = self._table
        schema = table.schema()
        fields = tuple(pa.field(one.name, iceberg_type(one.type)) for one in schema.as_arrow())
        needed = tuple(field.name for field in schema.fields if field.required)
        identity = tuple(
            schema.find_column_name(field.source_id)
            for field in table.spec().fields
            if str(field.transform) == "identity"
        )
        self.columns = Columns(fields, identity, needed)
        table.metadata.properties[_RETRIES] = "0"

    def found_mark(self) -> Mark | None:
        """The property of this run, as of the metadata that were read last."""
        if self._table is None:
            return None
        text = self._table.properties.get(_MARK + self.context.mark_name)
        if text is None:
            return None
        window, epoch = map(int, text.split())
        return Mark(window, epoch)

    def explaining(self) -> AbstractContextManager[None]:
        """As pyiceberg has errors."""
        return explaining(self.context.operator, self.place())

    def is_conflict(self, error: Exception) -> bool:
        """Whether the table has changed since it was read."""
        library = pyiceberg().exceptions
        return isinstance(error, library.CommitFailedException | library.ValidationException)

    def attempt(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Read the newest metadata, compare the mark, and commit the next."""
        if self._table is None:
            self._table = self._make(batches[0].schema)
        self._table.refresh()
        self._look()
        unwritten = self.unwritten(batches)
        if unwritten:
            rows = self.with_values(unwritten, self.united(unwritten))
            with self._table.transaction() as transaction:
                self._change(transaction, unwritten, rows)
                transaction.set_properties({_MARK + self.context.mark_name: f"{mark.window} {mark.epoch}"})

    def _change(self, transaction: Any, batches: Sequence[Batch], rows: pa.Table) -> None:
        """Write rows. There is a snapshot in any case: its parent is compared at the commit."""
        if self.target.key:
            from pyiceberg.expressions import AlwaysFalse
            from pyiceberg.table.upsert_util import create_match_filter

            rows = last_of_each(rows, self.target.key)
            same = create_match_filter(rows, list(self.target.key)) if len(rows) else AlwaysFalse()
            if self.target.delete is not None:
                rows = rows.filter(pc.invert(rows.column(DELETED)))
            transaction.overwrite(self._written(rows), overwrite_filter=same)
        elif self.target.overwrite and len(rows):
            windows = self.windows_of(batches, rows)
            rows, _ = last_parts(rows, windows, self.target.partition_by)
            transaction.dynamic_partition_overwrite(self._written(rows))
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
        catalog, self._catalog, self._table = self._catalog, None, None
        if catalog is not None:
            catalog.close()

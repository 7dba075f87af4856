"""The driver's half of `DeltaOutput`: a window's rows and its mark are one version of the table."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.connect.sink import Batch, Mark, SinkContext
from ridgeline.operators._table_rows import DELETED
from ridgeline.operators.lake.columns import delta_type, last_of_each, last_parts
from ridgeline.operators.lake.lake_sink import NUMBER, LakeSink
from ridgeline.operators.lake.storage import Store, deltalake, explaining, is_conflict, place
from ridgeline.operators.lake.target import Columns, Target

_UNFIT = set(" ,;{}()\n\t=")
"""The characters that no column's name has: Delta's readers refuse them."""
_REFUSED = "Invalid data found"
_CONSTRAINTS = "delta.constraints."


class DeltaSink(LakeSink):
    """Writes each version on the one whose mark was read: if that changes meanwhile, the commit fails."""

    def __init__(self, store: Store, target: Target) -> None:
        super().__init__(target, delta_type)
        self._store = store
        self._table: Any = None
        self._version = -1
        """The version whose columns were compared last."""

    def place(self) -> str:
        """The table's URI."""
        return place("Delta", self._store.uri)

    def open(self, context: SinkContext) -> None:
        """Make the table if it is missing, compare the columns. Raises RidgelineError."""
        super().open(context)
        with self.explaining():
            self._table = self._found(context.schema)
            if self._table is None:
                return
            self._version = -1
            self._look()
            if context.schema is not None:
                self.check.table(self.fields(context.schema), self.columns)

    def _found(self, schema: pa.Schema | None) -> Any:
        """The table, which is made if it is missing; None if no columns are known yet."""
        try:
            return self._store.load()
        except deltalake().exceptions.TableNotFoundError:
            return None if schema is None else self._make(schema)

    def fields(self, schema: pa.Schema) -> list[pa.Field]:
        """The columns of the stream as the table has them. Raises RidgelineError."""
        fields = super().fields(schema)
        for field in fields:
            if not field.name or set(field.name) & _UNFIT:
                raise self.check.fault(
                    f"`{field.name}` is no name of a column in Delta", "give it another name upstream"
                )
        return fields

    def _make(self, schema: pa.Schema) -> Any:
        """Make the table for a stream."""
        library = deltalake()
        fields = self.fields(schema)
        if not self.target.create:
            raise self.check.missing()
        return library.DeltaTable.create(
            self._store.uri,
            schema=library.Schema.from_arrow(pa.schema(fields)),
            mode="error",
            partition_by=list(self.target.partition_by),
            storage_options=self._store.options(),
        )

    def _look(self) -> None:
        """Read the table's columns, if it has changed."""
        if self._table.version() == self._version:
            return
        schema = pa.schema(self._table.schema().to_arrow())
        fields = tuple(pa.field(field.name, delta_type(field.type)) for field in schema)
        needed = tuple(field.name for field in schema if not field.nullable)
        partition_by = tuple(self._table.metadata().partition_columns)
        self.columns = Columns(fields, partition_by, needed)
        self._version = self._table.version()

    # The mark -----------------------------------------------------------------------------------------------

    def found_mark(self) -> Mark | None:
        """The transaction identifiers of this run, as of the version that was read last."""
        if self._table is None:
            return None
        name = self.context.mark_name
        window, epoch = map(self._table.transaction_version, (name, f"{name}/epoch"))
        if window is None or epoch is None:
            return None
        return Mark(window, epoch)

    def _properties(self, mark: Mark) -> Any:
        """Of a commit that sets the mark, and fails if another has set it since the table was read."""
        library, name = deltalake(), self.context.mark_name
        names = ((name, mark.window), (f"{name}/epoch", mark.epoch))
        return library.CommitProperties(
            app_transactions=[library.Transaction(one, number) for one, number in names]
        )

    # Writing ------------------------------------------------------------------------------------------------

    def explaining(self) -> AbstractContextManager[None]:
        """As deltalake has errors."""
        return explaining(self.context.operator, self.place())

    def is_conflict(self, error: Exception) -> bool:
        """Whether the table has changed since it was read."""
        return is_conflict(error)

    def attempt(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Read the newest version, compare its mark, and write the next one."""
        if self._table is None:
            self._table = self._make(batches[0].schema)
        self._table.update_incremental()
        self._look()
        unwritten = self.unwritten(batches)
        if unwritten:
            self._write(unwritten, mark)

    def _write(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Write batches that are not in the table yet."""
        rows = self.with_values(batches, self.united(batches))
        try:
            self._commit(batches, rows, mark)
        except Exception as error:
            if _REFUSED not in str(error):
                raise
            self._commit(batches, self._sifted(batches, rows), mark)

    def _commit(self, batches: Sequence[Batch], rows: pa.Table, mark: Mark) -> None:
        """Write one version of the table."""
        properties = self._properties(mark)
        if not len(rows):
            self._table.create_write_transaction(
                [],
                mode="append",
                schema=self._table.schema(),
                partition_by=list(self.columns.partition_by),
                commit_properties=properties,
            )
        elif self.target.key:
            self._merge(last_of_each(rows, self.target.key).drop_columns([NUMBER]), properties)
        else:
            more: dict[str, Any] = {"mode": "append"}
            if self.target.overwrite:
                own = self.windows_of(batches, rows)
                rows, parts = last_parts(rows, own, self.target.partition_by)
                kinds = [rows.schema.field(name).type for name in self.target.partition_by]
                more = {"mode": "overwrite", "predicate": predicate(self.target.partition_by, kinds, parts)}
            rows = rows.drop_columns([NUMBER])
            deltalake().write_deltalake(self._table, rows, commit_properties=properties, **more)

    def _merge(self, rows: pa.Table, properties: Any) -> None:
        """Replace, insert and delete rows by key."""
        names = [field.name for field in self.columns.fields]
        values = {_quoted(name): f"stream.{_quoted(name)}" for name in names}
        same = (f"kept.{_quoted(name)} = stream.{_quoted(name)}" for name in self.target.key)
        merger = self._table.merge(
            rows,
            predicate=" and ".join(same),
            source_alias="stream",
            target_alias="kept",
            streamed_exec=False,
            commit_properties=properties,
        )
        stays = None
        if self.target.delete is not None:
            merger = merger.when_matched_delete(f"stream.{DELETED}")
            stays = f"not stream.{DELETED}"
        merger.when_matched_update(values, stays).when_not_matched_insert(values, stays).execute()

    # Rows that the table refuses ----------------------------------------------------------------------------

    def _sifted(self, batches: Sequence[Batch], rows: pa.Table) -> pa.Table:
        """The rows without those that a constraint refuses, which a table beside shows that has the same."""
        library = deltalake()
        deletes = [False] * len(rows)
        if self.target.delete is not None:
            deletes = rows.column(DELETED).to_pylist()
        with tempfile.TemporaryDirectory() as folder:
            beside = library.DeltaTable.create(folder, schema=self._table.schema())
            known = self._table.metadata().configuration.items()
            for name, text in known:
                if name.startswith(_CONSTRAINTS):
                    beside.alter.add_constraint({name.removeprefix(_CONSTRAINTS): text})
            kept, parts = [], [np.arange(len(rows))]
            while parts:
                part = parts.pop()
                try:
                    checked = rows.take(pa.array([number for number in part if not deletes[number]]))
                    checked = checked.select([field.name for field in self.columns.fields])
                    library.write_deltalake(beside, checked, mode="append")
                    kept.append(part)
                except library.exceptions.DeltaError as error:
                    if _REFUSED not in str(error):
                        raise
                    if len(part) == 1:
                        names = ", ".join(f"{name} ({text})" for name, text in known if "constraint" in name)
                        self.refuse(batches, rows.take(pa.array(part)), f"a constraint refuses it: {names}")
                        continue
                    half = len(part) // 2
                    parts += [part[half:], part[:half]]
        return rows.take(pa.array(np.sort(np.concatenate([np.empty(0, np.int64), *kept]))))

    def close(self) -> None:
        """Let go of the table."""
        self._table = None


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def predicate(names: Sequence[str], kinds: Sequence[pa.DataType], parts: Sequence[tuple[object, ...]]) -> str:
    """Which rows are in these partitions, as SQL. `parts`: the values of the columns `names`."""
    name, kind = _quoted(names[0]), kinds[0]
    if len(names) == 1:
        values = [_literal(value, kind) for (value,) in parts if value is not None]
        cases = [f"{name} IN ({', '.join(values)})"] if values else []
        cases += [f"{name} IS NULL"] if len(values) < len(parts) else []
        return " OR ".join(cases)
    below: dict[object, list[tuple[object, ...]]] = {}
    for value, *others in parts:
        below.setdefault(value, []).append(tuple(others))
    cases = []
    for value, rest in below.items():
        own = f"{name} IS NULL" if value is None else f"{name} = {_literal(value, kind)}"
        cases.append(f"({own} AND ({predicate(names[1:], kinds[1:], rest)}))")
    return " OR ".join(cases)


def _literal(value: object, kind: pa.DataType) -> str:
    """A value as SQL of the library has it."""
    if isinstance(value, bool | int):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS DECIMAL({kind.precision}, {kind.scale}))"
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(dt.UTC)
            return f"'{value:%Y-%m-%dT%H:%M:%S.%fZ}'"
        return f"'{value:%Y-%m-%dT%H:%M:%S.%f}'"
    text = str(value).replace("'", "''")
    return f"'{text}'"

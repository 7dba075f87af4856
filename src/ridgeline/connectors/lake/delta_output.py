"""Write into a Delta table, exactly once."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pyarrow as pa
from pydantic import Field

from ridgeline.api.support.files import is_local, local_path
from ridgeline.api.support.masking import mask_text
from ridgeline.connect.datasets import Dataset, file_datasets
from ridgeline.connect.extras import Secret, library, library_faults, secret_value
from ridgeline.connect.sink import Batch, Mark, Sink, SinkContext
from ridgeline.connectors.lake.target import (
    NUMBER,
    LakeColumns,
    LakeOutput,
    LakeSink,
    converted,
    delta_type,
    last_of_each,
)
from ridgeline.connectors.sql.tables import DELETED, Target
from ridgeline.operators._halving import take_fitting

_PATIENCE = {"max_retries": "3", "retry_timeout": "20s", "connect_timeout": "5s"}
"""The client of stores asks again by itself; ours says meanwhile that the store is unavailable."""
_UNSAFE = ("aws_s3_allow_unsafe_rename", "allow_unsafe_rename")
_HOPELESS = (
    "accessdenied",
    "403 forbidden",
    "401 unauthorized",
    "invalidaccesskeyid",
    "signaturedoesnotmatch",
    "nosuchbucket",
    "permission denied",
    "unknown configuration key",
)
_AWAY = (
    "Generic S3 error",
    "Generic GCS error",
    "Generic MicrosoftAzure error",
    "Generic HTTP error",
    "error sending request",
    "AWS Error NETWORK_CONNECTION",
    "No space left",
)
_PAINT = re.compile(r"\x1b\[[\d;]*m")
_CONFLICTS = ("concurrent", "already exists", "conflict", "commit attempts")


def deltalake() -> Any:
    """The library. Raises RidgelineError if it is not installed."""
    return library("deltalake", "Delta tables need deltalake, which cannot be imported", "lake")


def table_uri(path: str) -> str:
    """A relative path made absolute; a URI as it is."""
    return local_path(path) if is_local(path) else path


class Store:
    """A Delta table's place and the options of its store, of which some are secrets."""

    def __init__(self, path: str, storage: Mapping[str, Secret]) -> None:
        self.uri = table_uri(path)
        self._storage = storage

    def options(self) -> dict[str, str]:
        """The options with the values of secrets. Raises RidgelineError for one that is not there."""
        if is_local(self.uri):
            return {}
        given = {name: secret_value(value, f"storage.{name}") for name, value in self._storage.items()}
        known = {name.lower() for name in given}
        made = dict(_PATIENCE)
        if urlsplit(self.uri).scheme.startswith("s3") and not known & {
            "aws_conditional_put",
            "conditional_put",
            "aws_s3_locking_provider",
        }:
            made["conditional_put"] = "etag"
        endpoint = next((given[name] for name in given if "endpoint" in name.lower()), "")
        if endpoint.startswith("http://"):
            made["allow_http"] = "true"
        return {**{name: value for name, value in made.items() if name not in known}, **given}


_UNFIT = set(" ,;{}()\n\t=")
"""The characters that no column's name has: Delta's readers refuse them."""
_REFUSED = "Invalid data found"
_CONSTRAINTS = "delta.constraints."


class _RefusedError(Exception):
    """A constraint refuses one of some rows."""


class DeltaSink(LakeSink):
    """Writes each version on the one whose mark was read: if that changes meanwhile, the commit fails."""

    reached_by: ClassVar[str] = "`path` and `storage`"

    def __init__(self, store: Store, target: Target) -> None:
        super().__init__(target, delta_type)
        self._store = store
        self._version = -1
        """The version whose columns were compared last."""

    def place(self) -> str:
        """The table's URI, without secrets."""
        return f"Delta table {mask_text(self._store.uri)}"

    def open(self, context: SinkContext) -> None:
        """Make the table if it is missing, compare the columns. Raises RidgelineError."""
        self._version = -1
        super().open(context)

    # The library --------------------------------------------------------------------------------------------

    def loaded(self) -> Any:
        """The table; None if it is missing."""
        library = deltalake()
        try:
            return library.DeltaTable(self._store.uri, storage_options=self._store.options())
        except library.exceptions.TableNotFoundError:
            return None

    def made(self, fields: Sequence[pa.Field]) -> Any:
        """Make the table."""
        library = deltalake()
        return library.DeltaTable.create(
            self._store.uri,
            schema=library.Schema.from_arrow(pa.schema(fields)),
            mode="error",
            partition_by=list(self.target.partition_by),
            storage_options=self._store.options(),
        )

    def refresh(self) -> None:
        """Read the newest version of the table."""
        self.table.update_incremental()

    def text_of(self, error: Exception) -> str:
        """The text of an error, without the stack that the library may add."""
        text = _PAINT.sub("", str(error)).partition("\n   0: ")[0]
        lines = (line.strip(" \u21b3") for line in text.splitlines())
        return ": ".join(line for line in lines if line) or type(error).__name__

    def is_hopeless(self, error: Exception) -> bool:
        """Whether a store refuses: the library has no codes of that."""
        text = str(error).lower()
        return any(part in text for part in _HOPELESS)

    def is_away(self, error: Exception) -> bool:
        """Whether a store cannot be reached now, or is full, whatever the library has made of it."""
        return isinstance(error, OSError) or any(part in str(error) for part in _AWAY)

    def is_conflict(self, error: Exception) -> bool:
        """Whether another writer has committed meanwhile."""
        if not isinstance(error, deltalake().exceptions.DeltaError):
            return False
        text = str(error)
        if text.startswith("Failed to commit transaction: ") and text.rpartition(" ")[2].isdigit():
            return True
        return any(part in text.lower() for part in _CONFLICTS)

    def fields(self, schema: pa.Schema) -> list[pa.Field]:
        """The columns of the stream as the table has them. Raises RidgelineError."""
        fields = super().fields(schema)
        for field in fields:
            if not field.name or set(field.name) & _UNFIT:
                self.fault(f"`{field.name}` is no name of a column in Delta", "give it another name upstream")
        return fields

    def look(self) -> None:
        """Read the table's columns, if it has changed."""
        if self.table.version() == self._version:
            return
        schema = pa.schema(self.table.schema().to_arrow())
        fields = tuple(pa.field(field.name, delta_type(field.type)) for field in schema)
        needed = tuple(field.name for field in schema if not field.nullable)
        partition_by = tuple(self.table.metadata().partition_columns)
        self.columns = LakeColumns(fields, partition_by, needed)
        self._version = self.table.version()

    # The mark -----------------------------------------------------------------------------------------------

    def found_mark(self) -> Mark | None:
        """The transaction identifiers of this run, as of the version that was read last."""
        name = self.context.mark_name
        window, epoch = map(self.table.transaction_version, (name, f"{name}/epoch"))
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

    def commit(self, batches: Sequence[Batch], rows: pa.Table, mark: Mark) -> None:
        """Write rows and mark as one version; without those that a constraint refuses, if one does."""
        try:
            self._commit(rows, mark)
        except Exception as error:
            if _REFUSED not in str(error):
                raise
            self._commit(self._sifted(batches, rows), mark)

    def _commit(self, rows: pa.Table, mark: Mark) -> None:
        """Write one version of the table."""
        properties = self._properties(mark)
        if not len(rows):
            self.table.create_write_transaction(
                [],
                mode="append",
                schema=self.table.schema(),
                partition_by=list(self.columns.partition_by),
                commit_properties=properties,
            )
        elif self.target.key:
            self._merge(last_of_each(rows, self.target.key).drop_columns([NUMBER]), properties)
        else:
            rows = rows.drop_columns([NUMBER])
            deltalake().write_deltalake(self.table, rows, mode="append", commit_properties=properties)

    def _merge(self, rows: pa.Table, properties: Any) -> None:
        """Replace, insert and delete rows by key."""
        names = [field.name for field in self.columns.fields]
        values = {_quoted(name): f"stream.{_quoted(name)}" for name in names}
        same = (f"kept.{_quoted(name)} = stream.{_quoted(name)}" for name in self.target.key)
        merger = self.table.merge(
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
            beside = library.DeltaTable.create(folder, schema=self.table.schema())
            known = self.table.metadata().configuration.items()
            for name, text in known:
                if name.startswith(_CONSTRAINTS):
                    beside.alter.add_constraint({name.removeprefix(_CONSTRAINTS): text})
            names = ", ".join(f"{name} ({text})" for name, text in known if "constraint" in name)
            kept: list[int] = []

            def take(part: Sequence[int]) -> None:
                checked = rows.take(pa.array([row for row in part if not deletes[row]], pa.int64()))
                checked = checked.select([field.name for field in self.columns.fields])
                try:
                    library.write_deltalake(beside, checked, mode="append")
                except library.exceptions.DeltaError as error:
                    if _REFUSED not in str(error):
                        raise
                    raise _RefusedError from error
                kept.extend(part)

            def refuse(row: int, _: Exception) -> None:
                self.refuse_rows(batches, rows.slice(row, 1), f"a constraint refuses it: {names}")

            take_fitting(range(len(rows)), take, refuse, _RefusedError)
        return rows.take(pa.array(kept, pa.int64()))

    def close(self) -> None:
        """Let go of the table."""
        self.table = None


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


class DeltaOutput(LakeOutput):
    """Write the stream into a Delta table, exactly once.

    Rows of a window and its mark, two transaction identifiers of Delta, are one version of the table, after
    the window's commit. Windows that wait are written together. Other writers may be at work.

    `path`: a folder, or a URI such as `s3://shop/totals`. `storage`: options of its store as deltalake has
    them, such as `aws_endpoint_url`; secrets better as `env:NAME` or `file:PATH`.

    Without `key` rows are appended. With `key` a row replaces the one with its key: the last in the stream
    counts. `delete` names a column that is not written. Where it is true, or the text `d` or `delete`, the
    row of the key is deleted.

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
        >>> from ridgeline.connectors.lake import DeltaOutput
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
    storage: dict[str, Secret] = Field(default={}, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a host without deltalake, and options that make commits unsafe."""
        faults = super().property_faults() + library_faults("path", self.path, deltalake)
        rule = "is refused: two writers could overwrite each other's commit"
        return faults + [(f"storage.{name}", "...", rule) for name in self.storage if name.lower() in _UNSAFE]

    def settle_properties(self) -> None:
        """Make a relative path absolute."""
        self.path = table_uri(str(self.path))

    nan_keys: ClassVar[str] = "a merge would change rows by it"

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the types of Delta. Raises ValueError for a value that it cannot hold."""
        return converted(self.keyed(batch), delta_type)

    def datasets(self) -> list[Dataset]:
        """The table, as `ridgeline.connect.datasets` names it."""
        return file_datasets(self.path)

    def sink(self) -> Sink:
        """The driver's half."""
        return DeltaSink(Store(str(self.path), self.storage), self.target)

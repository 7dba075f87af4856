"""Read the changes of a table of PostgreSQL by logical replication."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api import SchemaType
from ridgeline.api.columns.casting import is_text
from ridgeline.api.columns.nulls import optional_columns
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import did_you_mean
from ridgeline.api.ports import OutputPort
from ridgeline.connect._enumerating import PartitionedEnumerator
from ridgeline.connect.deletions import DELETIONS
from ridgeline.connect.partitioned_input import PartitionedInput
from ridgeline.connectors.postgres.change_reader import (
    CHANGE,
    COMMIT_TIME,
    METADATA,
    ChangeReader,
    Layout,
)
from ridgeline.connectors.postgres.change_source import ChangeSource
from ridgeline.connectors.postgres.connecting import AtServer
from ridgeline.connectors.postgres.slot import Watched
from ridgeline.connectors.postgres.staging import Settings

T = TypeVar("T", default=Any)


class PostgresChanges(AtServer, PartitionedInput[T]):
    """Emit the rows of a table, then each change of it, exactly once and in the order of commits.

    It makes a publication and a replication slot, and reads a snapshot of the table as it was then. Then it
    follows the log (`wal_level = logical`). `table`: its name. `schema`: the type of the tuples; its fields
    are columns of the table. `dsn`, `password` and `connection` are those of `PostgresOutput`; the driver
    alone connects.

    A row that is deleted is emitted with `deleted` true. If `schema` has no such column, it is added, and
    tuples are dictionaries. `stream.table(name, key=...)` finds it by itself. The other columns of a deleted
    row are null, or the zero of their type where that is not allowed. With `replica identity full` they are
    those of the row. An update that changes the key is a deletion and an insert. TRUNCATE ends the run, as
    the log does not say which rows there were; `truncate="skip"` passes over it.

    `metadata={"op": "change"}`: the column `op` has the kind of change: "snapshot", "insert", "update" or
    "delete". Others: "commit_time", "lsn", "transaction". Record times are those of commits, unless
    `timestamp` names a column.

    `begin="latest"` leaves the snapshot out. `slot`, `publication`: their names; default: made of application
    and operator. `until="end"` ends with the changes that are committed when the run begins.

    Changes are staged in the checkpoint, and the slot moves once windows are committed. A transaction of
    up to 20,000 changes is in one window. The source partition is the table, so one partition reads. A value
    that does not fit the schema is an error, with `on_error=SKIP` a dead letter.

    Example:
        Without a server nothing is read, but the application can be validated.

        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.connectors.postgres import PostgresChanges
        >>> class Customer(NamedTuple):
        ...     id: str
        ...     country: str
        >>> app = Application("shop")
        >>> customers = app.read("customers", PostgresChanges("customers", schema=Customer))
        >>> customers.schema.names
        ['id', 'country', 'deleted']
        >>> customers.table("by_id", key="id").deleted
        'deleted'
    """

    gives_record_times: ClassVar[bool] = True
    marks_deletions: ClassVar[bool] = True
    """Tables of its stream find the column of deletions by its mark."""
    progress_unit = "bytes"
    output = OutputPort[T](Any)

    table: str = Field(min_length=1)
    schema: SchemaType[T] = Field(kw_only=True)
    deleted: str | None = Field(default="deleted", kw_only=True)
    metadata: dict[str, str] = Field(default={}, kw_only=True)
    truncate: Literal["fail", "skip"] = Field(default="fail", kw_only=True)
    slot: str | None = Field(default=None, pattern="^[a-z0-9_]{1,63}$", kw_only=True)
    publication: str | None = Field(default=None, min_length=1, max_length=63, kw_only=True)

    def __post_init__(self) -> None:
        """Give the output port its schema."""
        if "table" in vars(self):
            self.declare_schema("output", self._declared())

    def _declared(self) -> Any:
        """The schema, with the column of deletions."""
        schema: Any = self.schema
        if schema is object or self.deleted is None or self.deleted in Schema(schema).arrow.names:
            return schema
        optional = optional_columns(Schema(schema))
        fields = [field.with_nullable(field.name in optional) for field in Schema(schema).arrow]
        return pa.schema([*fields, pa.field(self.deleted, pa.bool_(), nullable=False, metadata=DELETIONS)])

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse columns that do not fit, and a `begin` that a slot does not have."""
        faults = super().property_faults()
        if self.begin not in (None, "earliest", "latest"):
            faults.append(("begin", self.begin, "must be earliest or latest: a slot has no other place"))
        if Schema(self.schema).pickled:
            return [*faults, ("schema", "object", "must have columns: a NamedTuple or a dataclass")]
        fields = Schema(self.schema).arrow
        if self.deleted is None and CHANGE not in self.metadata.values():
            rule = "must name a column, unless `metadata` has one for `change`: deletions must be seen"
            faults.append(("deleted", None, rule))
        if self.deleted in fields.names and not pa.types.is_boolean(fields.field(self.deleted).type):
            faults.append(("deleted", self.deleted, "must be a column of booleans"))
        for name, what in self.metadata.items():
            faults += [("metadata", {name: what}, rule) for rule in self._metadata_faults(name, what, fields)]
        if not self._columns:
            faults.append(("schema", self.schema, "must have a column of the table"))
        return faults

    def _metadata_faults(self, name: str, what: str, fields: pa.Schema) -> list[str]:
        """Why a column of the schema cannot hold what `metadata` says, or none."""
        if what not in METADATA:
            return [f"must be one of {', '.join(METADATA)}; {did_you_mean(what, METADATA)}"]
        if name not in fields.names:
            return [f"`schema` has no column `{name}`; {did_you_mean(name, fields.names)}"]
        if name == self.deleted:
            return ["a column has one meaning, and `deleted` names this one"]
        kind = fields.field(name).type
        if what == CHANGE:
            return [] if is_text(kind) else ["must be a column of text"]
        if what == COMMIT_TIME:
            return [] if pa.types.is_timestamp(kind) else ["must be a column of times"]
        return [] if pa.types.is_integer(kind) else ["must be a column of integers"]

    @property
    def _columns(self) -> tuple[str, ...]:
        """The columns of the table."""
        others = {*self.metadata, self.deleted}
        return tuple(name for name in Schema(self.schema).arrow.names if name not in others)

    def source(self) -> ChangeSource:
        """The driver's half."""
        watched = Watched(self.server, self.table, self.publication, self.slot)
        names = Schema(self.schema).arrow.names
        declared = [name for name in names if name == self.deleted]
        begin = "latest" if self.begin == "latest" else "earliest"
        return ChangeSource(
            Settings(
                watched,
                Schema(self.schema).arrow,
                self._columns,
                [*self.metadata, *declared],
                begin,
                self.until,
            )
        )

    def enumerator(self) -> PartitionedEnumerator:
        """The part that runs on the driver."""
        return _ChangeEnumerator(self.source(), self)

    def reader(self) -> ChangeReader:
        """The container's half."""
        return ChangeReader(Layout(self.table, self._columns, self.metadata, self.deleted, self.truncate))


class _ChangeEnumerator(PartitionedEnumerator):
    """Says at the end that the slot need not be read any more."""

    _source: ChangeSource

    def close(self) -> None:
        """End the thread and the connections."""
        self._source.ending.set()
        super().close()

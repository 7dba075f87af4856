"""The input of the changes of a table of PostgreSQL, by logical replication, and its container's half."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api import SchemaType
from ridgeline.api.columns.casting import is_text
from ridgeline.api.columns.column import Column
from ridgeline.api.columns.nulls import optional_columns
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError, did_you_mean, shorten
from ridgeline.api.ports import OutputPort
from ridgeline.connect._enumerating import PartitionedEnumerator
from ridgeline.connect.partitioned_input import PartitionedInput
from ridgeline.connect.reader import DELETIONS, ReaderContext, Records, SourceRange, SourceReader
from ridgeline.connect.window_output import safe_name
from ridgeline.connectors.postgres import pgoutput
from ridgeline.connectors.postgres.change_source import ChangeSource
from ridgeline.connectors.postgres.connecting import AtServer
from ridgeline.connectors.postgres.pgoutput import UNCHANGED, Convert, Relation, Values, convert, converter
from ridgeline.connectors.postgres.replication import Place
from ridgeline.connectors.postgres.slot import Watched, misfit
from ridgeline.connectors.postgres.staging import SNAPSHOT, Settings
from ridgeline.operators._kinds import zero
from ridgeline.operators._staged_source import RowStore

CHANGE, COMMIT_TIME, LSN, TRANSACTION = "change", "commit_time", "lsn", "transaction"
METADATA = (CHANGE, COMMIT_TIME, LSN, TRANSACTION)
"""The values that `metadata` may name."""
_SNAPSHOT, _INSERT, _UPDATE, _DELETE = range(4)
_KINDS = pa.array(["snapshot", "insert", "update", "delete"])


class Layout(NamedTuple):
    """How rows are made. `columns`: those of the table. `metadata`: what other columns hold.

    `deleted`: the column that says that a row is gone. `truncate`: what becomes of a TRUNCATE.
    """

    table: str
    columns: tuple[str, ...]
    metadata: Mapping[str, str]
    deleted: str | None
    truncate: str


class ChangeReader(SourceReader):
    """Reads segments of the checkpoint."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._store: RowStore | None = None

    def open(self, context: ReaderContext) -> None:
        """Folders are opened when they are read."""
        self._context = context
        operator = context.operator
        self._parent = f"{operator.staging}/inputs/{safe_name(operator.name)}-{operator.run_id}"
        self._store = None

    def read(self, part: SourceRange) -> Iterator[Records]:
        """Rows in the order of their commits. Raises RidgelineError for changes that cannot be read."""
        start, end = Place(*part.start), Place(*part.end)
        folder, number = f"{self._parent}/{end.folder}", start.number
        if self._store is None or self._store.folder != folder:
            self._store = RowStore(folder)
        for rows in self._store.read(number, end.number):
            about = rows.schema.metadata
            relation, keys = Relation.of_json(about[b"relation"]), json.loads(about[b"keys"])
            maker = _Maker(self._layout, self._context, relation, keys, part.partition)
            make = maker.snapshot if about[b"columns"] == SNAPSHOT else maker.changes
            if (records := make(rows, number)) is not None:
                yield records
            number += len(rows)


class _Maker:
    """Makes rows of the changes of a segment, which have the same columns."""

    def __init__(
        self,
        layout: Layout,
        context: ReaderContext,
        relation: Relation,
        keys: Sequence[str],
        partition: str,
    ) -> None:
        """`keys`: the table's primary key. Raises RidgelineError for columns that cannot be read."""
        self._layout, self._context, self._partition = layout, context, partition
        self._schema: Schema = context.schema
        self._relation = relation
        self._operator = context.operator.name
        if text := misfit(relation, self._schema.arrow, layout.columns):
            msg = (
                f"`{self._operator}` cannot read changes of table {layout.table}: {text}, then start again: "
            )
            raise RidgelineError(msg + "the changes before it are processed")
        names = [column.name for column in relation.columns]
        self._at = [names.index(name) for name in layout.columns]
        self._key_at = [at for at, column in enumerate(relation.columns) if column.key]
        if relation.identity == "f" and keys and set(keys) <= set(names):  # all columns are the identity
            self._key_at = [names.index(name) for name in keys]
        optional = optional_columns(self._schema)
        self._columns: list[tuple[str, pa.Field, Convert, bool]] = []
        of_schema: dict[str, Column] = dict(zip(self._schema.arrow.names, self._schema.columns, strict=True))
        for name, at in zip(layout.columns, self._at, strict=True):
            field = self._schema.arrow.field(name)
            make = converter(of_schema[name], field, relation.columns[at].oid)
            self._columns.append((name, field, make, name in optional))

    # The snapshot -------------------------------------------------------------------------------------------

    def snapshot(self, rows: pa.Table, number: int) -> Records:
        """Rows of CSV."""
        names = self._layout.columns
        data = b"".join(rows.column("message").to_pylist())
        texts = pa.csv.read_csv(
            pa.BufferReader(data),
            read_options=pa.csv.ReadOptions(column_names=list(names), block_size=len(data) + 1),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
        columns = {name: texts.column(name).combine_chunks() for name in names}
        count = texts.num_rows
        kinds = np.full(count, _SNAPSHOT)
        return self._records(columns, kinds, np.arange(count), np.ones(count, bool), rows, number, {})

    # The stream ---------------------------------------------------------------------------------------------

    def changes(self, rows: pa.Table, number: int) -> Records | None:
        """Rows of changes; None: there are none. Raises RidgelineError for a TRUNCATE."""
        found: list[tuple[Values, int, int, bool]] = []
        for place, message in enumerate(rows.column("message").to_pylist()):
            kind, old, new, whole = pgoutput.change_of(message)
            if kind == pgoutput.TRUNCATE and self._layout.truncate == "fail":
                what = f"`{self._operator}`: table {self._layout.table} was truncated, and the log does not "
                what += "say which rows it had; pass over it by `truncate='skip'`, or start with a fresh "
                raise RidgelineError(what + "`--checkpoint`")
            moves = old is not None and new is not None and any(old[at] != new[at] for at in self._key_at)
            if old is not None and (new is None or moves):  # the key was changed: a row is gone
                found.append((old, _DELETE, place, whole))
            if new is not None:
                stays = kind == pgoutput.UPDATE and not moves
                found.append((new, _UPDATE if stays else _INSERT, place, True))
        return self._made(found, rows, number) if found else None

    def _made(self, found: Sequence[tuple[Values, int, int, bool]], rows: pa.Table, number: int) -> Records:
        """Records of rows: their values, what happened, the row of the segment, and whether all is there.

        Those that cannot be read are left out.
        """
        changed, *others = zip(*found, strict=True)
        every = list(zip(*changed, strict=True))
        columns, bad = {}, {}
        for (name, *_), at in zip(self._columns, self._at, strict=True):
            values: Sequence[Any] = every[at]
            if UNCHANGED in values:
                values = list(values)
                for row, value in enumerate(values):
                    if value is UNCHANGED:
                        values[row] = None
                        bad[row] = (
                            f"column `{name}` was not changed, and such a large value (TOAST) is not in the "
                            f"log; run `alter table {self._layout.table} replica identity full`"
                        )
            columns[name] = pa.array(values, pa.binary()).cast(pa.string())
        kinds, places, whole = map(np.array, others)
        return self._records(columns, kinds, places, whole, rows, number, bad)

    def _records(
        self,
        texts: Mapping[str, pa.Array],
        kinds: npt.NDArray[Any],
        places: npt.NDArray[Any],
        whole: npt.NDArray[Any],
        rows: pa.Table,
        number: int,
        bad: dict[int, str],
    ) -> Records:
        """Columns of texts as rows of the schema, with the times of their commits."""
        arrays: dict[str, Any] = {}
        lacking = (kinds == _DELETE) & ~whole
        for name, field, make, optional in self._columns:
            array = convert(make, texts[name], bad, name)
            if not optional and array.null_count:
                null = np.asarray(array.is_null())
                for row in np.flatnonzero(null & ~lacking).tolist():
                    bad.setdefault(row, f"column `{name}` is null; declare it optional in `schema`")
                fill = np.where(null, len(array), np.arange(len(array)))
                array = pa.concat_arrays([array, pa.array([zero(field.type)], field.type)]).take(
                    pa.array(fill)
                )
            arrays[name] = array
        about = {name: rows.column(name).to_numpy()[places] for name in (LSN, TRANSACTION, "time")}
        for name, what in self._layout.metadata.items():
            arrays[name] = self._metadata(name, what, kinds, about)
        if self._layout.deleted is not None:
            arrays[self._layout.deleted] = pa.array(kinds == _DELETE)
        schema = self._schema.arrow
        batch = pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)
        times = about["time"]
        if bad:
            self._leave_out(bad, texts, number, places)
            good = np.array([row for row in range(len(kinds)) if row not in bad], np.int64)
            batch, times = batch.take(pa.array(good)), times[good]
        return Records(batch, times)

    def _metadata(
        self, name: str, what: str, kinds: npt.NDArray[Any], about: Mapping[str, npt.NDArray[Any]]
    ) -> Any:
        kind = self._schema.arrow.field(name).type
        if what == CHANGE:
            return _KINDS.take(pa.array(kinds)).cast(kind)
        if what == COMMIT_TIME:
            return pa.array(about["time"], pa.timestamp("us", "UTC")).cast(kind)
        return pa.array(about[what]).cast(kind)

    def _leave_out(
        self, bad: Mapping[int, str], texts: Mapping[str, pa.Array], number: int, places: npt.NDArray[Any]
    ) -> None:
        """Leave out changes that cannot be read. Raises RidgelineError unless that is allowed."""
        for row, reason in sorted(bad.items()):
            record = ", ".join(f"{name}={shorten(texts[name][row].as_py())}" for name in self._layout.columns)
            self._context.leave_out(self._partition, number + int(places[row]), record, reason)


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

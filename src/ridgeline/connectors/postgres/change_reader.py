"""The container's half of `PostgresChanges`: staged changes become rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from ridgeline.api.columns.column import Column
from ridgeline.api.columns.nulls import optional_columns
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError, shorten
from ridgeline.connect.reader import ReaderContext, Records, SourceRange, SourceReader
from ridgeline.connect.window_output import safe_name
from ridgeline.connectors.postgres import pgoutput
from ridgeline.connectors.postgres.change_values import Convert, convert, converter
from ridgeline.connectors.postgres.pgoutput import UNCHANGED, Relation, Values
from ridgeline.connectors.postgres.replication import Place
from ridgeline.connectors.postgres.slot import misfit
from ridgeline.connectors.postgres.staging import SNAPSHOT
from ridgeline.operators._kinds import zero
from ridgeline.operators.staged._staged_source import RowStore

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

"""The bases of outputs that write rows into a table, by a key or without, and their sinks; texts of SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.api.errors import RidgelineError, capped, did_you_mean
from ridgeline.connect.partitioned_output import PartitionedOutput
from ridgeline.connect.sink import Batch, Mark, Sink, SinkContext, UnwritableError
from ridgeline.operators._divided import Columns, DividedOperator, columns_of
from ridgeline.operators._halving import take_fitting


def quoted(name: str, mark: str = '"') -> str:
    """A name as SQL quotes it; it may have a dot in it."""
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def dotted(name: str, mark: str = '"') -> str:
    """The name of a table, with a schema or database or without."""
    return ".".join(quoted(part, mark) for part in name.split("."))


def listed(names: Iterable[str], mark: str = '"') -> str:
    """Names of columns as a list of SQL."""
    return ", ".join(quoted(name, mark) for name in names)


def on_conflict(key: Sequence[str], names: Sequence[str]) -> str:
    """The end of an INSERT of columns by which a row replaces the one with its key."""
    changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in key)
    return f"on conflict ({listed(key)}) do {f'update set {changes}' if changes else 'nothing'}"


def merged(table: str, key: Sequence[str], names: Sequence[str], last: str, deleted: str | None) -> list[str]:
    """The statements that bring rows into a table by key, those first that are deleted.

    `last`: the rows in SQL, with the name `last`. `deleted`: their column that says which of them are.
    """
    statements, kept = [], ""
    if deleted is not None:
        same = " and ".join(f"{table}.{quoted(name)} = last.{quoted(name)}" for name in key)
        statements.append(f"delete from {table} using {last} where last.{deleted} and {same}")  # noqa: S608  identifiers
        kept = f" where not last.{deleted}"
    columns = listed(names)
    insert = f"insert into {table} ({columns}) select {columns} from {last}{kept} "  # noqa: S608  identifiers
    return [*statements, insert + on_conflict(key, names)]


DELETED = "ridgeline_deleted"
"""The column of encoded rows that says whether the row of their key is to be deleted."""
_DELETES = ("d", "delete", "DELETE", "D")


class TableRows(DividedOperator, PartitionedOutput):
    """Writes rows of the stream into a table.

    With `key` a row replaces the one with its key. `delete` names the column that says which rows are
    deleted. `create`: a table that is missing is made.
    """

    nan_keys: ClassVar[str] = ""
    """Why a row whose key is NaN is refused; "": it is not."""

    key: Columns | None = Field(default=None, kw_only=True)
    delete: str | None = Field(default=None, kw_only=True)
    create: bool = Field(default=True, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, and `delete` without one."""
        faults = super().property_faults()
        if self.delete is not None and not self.key:
            faults.append(("delete", self.delete, "needs `key`: which rows are to be deleted"))
        return faults

    @property
    def target(self) -> Target:
        """How the driver's half writes rows."""
        return Target(getattr(self, "table", ""), columns_of(self.key), self.delete, self.create)

    def keyed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with `DELETED` in place of the column `delete`.

        Raises ValueError for a key of null, or of NaN where the table cannot have one. Raises RidgelineError
        for another column of that name.
        """
        if DELETED in batch.schema.names and self.delete != DELETED:
            msg = (
                f"the stream has a column `{DELETED}`, a name that the output uses itself; rename it upstream"
            )
            raise RidgelineError(msg)
        for name in columns_of(self.key):
            column = batch.column(name)
            if column.null_count:
                row = batch.slice(pc.index(column.is_null(), True).as_py(), 1).to_pylist()[0]
                msg = f"column `{name}` of the key is null in row {row}; leave such rows out upstream"
                raise ValueError(msg)
            if self.nan_keys and pa.types.is_floating(column.type):
                place = pc.index(pc.is_nan(column.cast(pa.float64())), True).as_py()
                if place >= 0:
                    row = batch.slice(place, 1).to_pylist()[0]
                    msg = f"column `{name}` of the key is NaN in row {row}: {self.nan_keys}; "
                    raise ValueError(msg + "leave such rows out upstream")
        if self.delete is None:
            return batch
        place = batch.schema.get_field_index(self.delete)
        return batch.set_column(place, DELETED, _deleted(batch.column(place)))


def _deleted(column: Any) -> Any:
    """Which rows are to be deleted: those where a column is true, or `d` or `delete`."""
    if pa.types.is_boolean(column.type):
        return pc.fill_null(column, False)  # noqa: FBT003  the value
    texts = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return pc.fill_null(pc.is_in(texts.cast(pa.string()), pa.array(_DELETES)), False)  # noqa: FBT003  the value


class Target(NamedTuple):
    """The table, and how rows are written. `delete`: the column that says which rows are deleted."""

    name: str
    key: tuple[str, ...]
    delete: str | None
    create: bool
    partition_by: tuple[str, ...] = ()


class TableSink(Sink):
    """Compares a stream with its table, and refuses rows. Each fault is a RidgelineError with the remedy."""

    add_value: ClassVar[str] = "give the column a default, or add it upstream"
    """What to do about a column that must have a value, and that the stream does not have."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.appends = not target.key
        self.connection: Any = None
        self._settled: pa.Schema | None = None

    def open(self, context: SinkContext) -> None:
        """Keep the surroundings. A subclass that overrides it calls it first."""
        self.context = context
        self._settled = None

    def settle(self, schema: pa.Schema) -> None:
        """Make the table if it is missing, and compare it with the stream, unless it was compared last."""
        if self._settled is None or not self._settled.equals(schema):
            self.make_or_compare(schema)
            self._settled = schema

    def make_or_compare(self, schema: pa.Schema) -> None:
        """Make the table if it is missing, and compare it with the stream. Raises RidgelineError."""
        raise NotImplementedError

    def fault(self, what: str, remedy: str) -> NoReturn:
        """Raise the error for a stream that cannot be written."""
        raise RidgelineError(f"`{self.context.operator}` cannot write to {self.place()}: {what}; {remedy}")

    def refused(self, why: str) -> RidgelineError:
        """The error for a statement that is refused for reasons that no row has."""
        msg = f"`{self.context.operator}` cannot write to {self.place()}: {why}; fix that, then start it "
        return RidgelineError(msg + "again: nothing that was committed is lost")

    def refuse_missing(self) -> None:
        """Refuse a table that is missing, and that may not be made."""
        if not self.target.create:
            self.fault("the table does not exist", "create it, or leave `create` as it is")

    def written(self, schema: pa.Schema) -> list[Any]:
        """The columns of a stream that the table has. Refuses a stream without those that are named."""
        target = self.target
        named = {"key": target.key, "partition_by": target.partition_by}
        named["delete"] = (target.delete,) if target.delete else ()
        for entry, names in named.items():
            for name in names:
                if name not in schema.names:
                    hint = did_you_mean(name, schema.names)
                    self.fault(f"the stream has no column `{name}`, which `{entry}` names", hint)
        return [field for field in schema if field.name != target.delete]

    def compare(
        self,
        fields: Sequence[pa.Field],
        found: Mapping[str, Any],
        *,
        fits: Callable[[pa.DataType, Any], bool],
        add: Callable[[pa.Field], str],
        shown: Callable[[Any], str] = str,
        needed: Sequence[str] = (),
    ) -> None:
        """Refuse a stream whose columns the table lacks, or has with other types.

        `found`: the table's own. `add`: how a column is added. `needed`: those that must have a value.
        """
        for field in fields:
            if field.name not in found:
                self.fault(
                    f"the table has no column `{field.name}`", f"{add(field)}, or leave it out upstream"
                )
            column = found[field.name]
            if not fits(field.type, column):
                what = f"column `{field.name}` is {shown(column)} in the table and {field.type} in the stream"
                self.fault(what, "convert it upstream, or alter the table")
        names = {field.name for field in fields}
        for name in needed:
            if name not in names:
                what = f"the table needs a value of column `{name}`, which the stream does not have"
                self.fault(what, self.add_value)

    def refuse_key(self) -> NoReturn:
        """Raise the error for a key without a unique index."""
        keys = ", ".join(self.target.key)
        self.fault(f"no unique index has exactly the columns of `key` ({keys})", "create one")

    def refuse(self, batch: Batch, row: str, why: str, *, remedy: str = "", cause: Any = None) -> None:
        """Leave a row out, if rows may be left out. Raises UnwritableError. `remedy`: a further one."""
        text = capped(row, 300)
        if not self.context.skips:
            place = f"table {self.target.name}" if self.target.name else "the table"
            fix = f"fix it upstream or in {place}, or set `on_error` to `SKIP`{remedy}"
            raise UnwritableError(self.context.operator, batch.window, text, why, fix) from cause
        self.context.refused(batch, text, why)

    def close(self) -> None:
        """Close the connection."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


class DatabaseSink(TableSink):
    """Writes the rows of windows and their mark, a row of `ridgeline_marks`, in one transaction.

    A subclass knows the database: how it executes statements, writes rows, and which errors mean what.
    """

    marks: ClassVar[str]
    """The statement that makes the table of marks."""
    quote: ClassVar[str] = '"'
    """The quote of names."""
    hole: ClassVar[str] = "?"
    """The place of a value in a statement."""
    locks: ClassVar[str] = ""
    """What holds a row that is read until the end of the transaction."""
    keeps: ClassVar[str] = "on conflict do nothing"
    """What leaves a row as it is that is inserted again."""
    touches: ClassVar[str] = ""
    """What is set with a mark."""
    options: str = ""
    """The options of a table that is made."""
    begins: ClassVar[str] = "begin"

    # The database -------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Set `connection`. Raises RidgelineError, errors of the database."""
        raise NotImplementedError

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """How many rows a statement has found. Raises errors of the database."""
        return int(self._executed(statement, values).rowcount)

    def rows(self, query: str, values: Sequence[Any] = ()) -> Sequence[Any]:
        """The rows of an answer. Raises errors of the database."""
        found: Sequence[Any] = self._executed(query, values).fetchall()
        return found

    def _executed(self, statement: str, values: Sequence[Any]) -> Any:
        cursor = self.connection.cursor()
        cursor.execute(statement, *([values] if values else ()))  # else a `%` is one
        return cursor

    def explained(self, error: Exception, batches: Sequence[Batch]) -> Exception:
        """What an error means: itself, or what the user has to fix."""
        return error

    def columns(self) -> Mapping[str, Any]:
        """The columns of the table as they are there; none if it is missing."""
        raise NotImplementedError

    def types(self, fields: Sequence[pa.Field]) -> Sequence[str]:
        """The types of the columns of a table that is made. Raises RidgelineError."""
        raise NotImplementedError

    def compare_table(self, fields: Sequence[pa.Field], found: Mapping[str, Any]) -> None:
        """Refuse a stream that does not fit the table."""
        raise NotImplementedError

    def write_alike(self, batches: Sequence[Batch]) -> None:
        """Write batches of the same columns, in order: all at once, or less where a row is refused.

        Raises UnwritableError, errors of the database.
        """
        schema, errors = batches[0].schema, self.row_errors()
        try:
            self.write_rows(schema, [rows for batch in batches for rows in self.chunks_of(batch)])
        except errors:
            for batch in batches:
                take_fitting(
                    self.rows_of(batch),
                    partial(self.write_rows, schema),
                    partial(self.refuse_row, batch),
                    errors,
                )

    def row_errors(self) -> tuple[type[Exception], ...]:
        """The errors that a single row is to blame for."""
        raise NotImplementedError

    def rows_of(self, batch: Batch) -> Sequence[Any]:
        """The rows of a batch."""
        raise NotImplementedError

    def chunks_of(self, batch: Batch) -> Sequence[Any]:
        """The rows of a batch, several in one if `write_rows` takes them so."""
        return self.rows_of(batch)

    def write_rows(self, schema: pa.Schema, rows: Sequence[Any]) -> None:
        """Write rows, or none of them. Raises errors of the database."""
        raise NotImplementedError

    def refuse_row(self, batch: Batch, row: Any, error: Exception) -> None:
        """Leave out a row that has raised one of `row_errors`. Raises UnwritableError."""
        self.refuse(batch, repr(row), str(error), cause=error)

    # The table ----------------------------------------------------------------------------------------------

    @property
    def table(self) -> str:
        """The table in SQL."""
        return dotted(self.target.name, self.quote)

    def quoted(self, name: str) -> str:
        """A column in SQL."""
        return quoted(name, self.quote)

    def listed(self, names: Sequence[str]) -> str:
        """Columns in SQL."""
        return listed(names, self.quote)

    def make(self, name: str, statement: str) -> None:
        """Make a table, unless it is there."""
        self.execute(statement)

    def make_or_compare(self, schema: pa.Schema) -> None:
        """Make the table if it is missing, and compare it with the stream. Raises RidgelineError."""
        target, fields = self.target, self.written(schema)
        found = self.columns()
        if not found:
            self.refuse_missing()
            kinds = zip(fields, self.types(fields), strict=True)
            columns = [f"{self.quoted(field.name)} {kind}" for field, kind in kinds]
            if target.key:
                columns.append(f"primary key ({self.listed(target.key)})")
            self.make(
                target.name, f"create table if not exists {self.table} ({', '.join(columns)}){self.options}"
            )
            found = self.columns()
        self.compare_table(fields, found)

    # Marks and windows --------------------------------------------------------------------------------------

    def open(self, context: SinkContext) -> None:
        """Connect, make the tables that are missing, compare the columns.

        Raises RidgelineError if rows cannot be written, with the remedy.
        """
        super().open(context)
        with self._explaining(()):
            self.connect()
            self.make_marks()
            if context.schema is not None:
                self.settle(context.schema)

    def make_marks(self) -> None:
        """Make the table of marks, and this run's row. Two drivers may do it at once."""
        self.make("ridgeline_marks", self.marks)
        first = f"insert into ridgeline_marks (name, {self.quoted('window')}, epoch) "
        first += f"values ({self.hole}, -1, {self.hole}) {self.keeps}"
        self.execute(first, (self.context.mark_name, self.context.epoch))

    def mark(self) -> Mark | None:
        """The row of this run."""
        return self.read_mark()

    def read_mark(self, locks: str = "") -> Mark | None:
        """The row of this run; with `locks` it is held."""
        query = f"select {self.quoted('window')}, epoch from ridgeline_marks where name = {self.hole}{locks}"  # noqa: S608  no values
        found = self.rows(query, (self.context.mark_name,))
        return Mark(*found[0]) if found else None

    def begin(self, batches: Sequence[Batch]) -> None:
        """Begin a transaction."""
        self.execute(self.begins)

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Write the rows and the mark in one transaction.

        Raises UnwritableError for a row that is refused, RidgelineError if nothing can be written, or if the
        mark is gone.
        """
        with self._explaining(batches):
            try:
                self.begin(batches)
                due = self.context.unwritten(batches, self.read_mark(self.locks))
                for schema, group in groupby(due, lambda one: one.schema):
                    self.settle(schema)
                    self.write_alike(list(group))
                self._set_mark(mark)
                self.execute("commit")
            except BaseException:
                self._roll_back()
                raise

    def _set_mark(self, mark: Mark) -> None:
        """Set the row of this run. Raises RidgelineError if it is gone."""
        update = f"update ridgeline_marks set {self.quoted('window')} = {self.hole}, "  # noqa: S608  no values
        update += f"epoch = {self.hole}{self.touches} where name = {self.hole}"
        if not self.execute(update, (*mark, self.context.mark_name)):
            raise self.context.unmarked(self.place())

    def _roll_back(self) -> None:
        """End a transaction that failed, if the database is there."""
        try:
            self.execute("rollback")
        except Exception:  # noqa: BLE001  the one before it counts
            self.close()

    @contextmanager
    def _explaining(self, batches: Sequence[Batch]) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if (explained := self.explained(error, batches)) is error:
                raise
            raise explained from error

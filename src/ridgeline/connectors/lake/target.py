"""How rows are written into a table of a lake, and whether the stream fits it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.api.errors import RidgelineError, capped
from ridgeline.api.support.masking import mask_text
from ridgeline.connect.sink import Batch, Mark, SinkContext, SinkUnavailableError
from ridgeline.connectors.sql.tables import DELETED, TableRows, TableSink, Target
from ridgeline.operators._divided import Columns, columns_of
from ridgeline.operators._kinds import NESTED, family
from ridgeline.operators._vectors import key_codes

_MOST_DIGITS = 38
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
Convert = Callable[[pa.DataType], pa.DataType]
"""Which type a table has for a type of Arrow. Raises ValueError if it has none."""


def delta_type(kind: pa.DataType) -> pa.DataType:
    """The type that a Delta table has for an Arrow type. Raises ValueError if it has none."""
    is_ = pa.types
    if is_.is_time(kind):
        return pa.string()
    return _common_type(kind, delta_type)


def iceberg_type(kind: pa.DataType) -> pa.DataType:
    """The type that an Iceberg table has for an Arrow type. Raises ValueError if it has none."""
    is_ = pa.types
    if is_.is_time(kind):
        return pa.time64("us")
    if is_.is_int8(kind) or is_.is_int16(kind) or is_.is_uint8(kind):
        return pa.int32()
    return _common_type(kind, iceberg_type)


def _common_type(kind: pa.DataType, convert: Convert) -> pa.DataType:  # noqa: PLR0911  a case each
    """The type that both kinds of tables have. `convert`: for the parts of nested types."""
    is_, found = pa.types, family(kind)
    if isinstance(kind, pa.BaseExtensionType):
        return convert(kind.storage_type)
    if is_.is_dictionary(kind) or is_.is_run_end_encoded(kind):
        return convert(kind.value_type)
    if is_.is_unsigned_integer(kind):
        return {8: pa.int16(), 16: pa.int32()}.get(kind.bit_width, pa.int64())
    if found == "decimal":
        if kind.precision > _MOST_DIGITS or not 0 <= kind.scale <= kind.precision:
            raise ValueError(
                f"{kind} has more than {_MOST_DIGITS} digits, or a scale that tables do not have"
            )
        return pa.decimal128(kind.precision, kind.scale)
    if found == "timestamp":
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if found == "map":
        return pa.map_(convert(kind.key_type), convert(kind.item_type))
    if found == "struct":
        if not kind.num_fields:
            raise ValueError("a struct without fields has no column in Parquet")
        return pa.struct([(field.name, convert(field.type)) for field in kind])
    if found == "list":
        return pa.list_(pa.field("element", convert(kind.value_type)))
    if is_.is_nested(kind):
        raise ValueError(f"{kind} is a type that tables do not have")
    return pa.float32() if is_.is_float16(kind) else _COMMON.get(found, kind)


_COMMON: Mapping[str, pa.DataType] = {
    "null": pa.string(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "duration": pa.int64(),
}
"""The types that both kinds of tables have, by the family of Arrow's type."""


def converted(batch: pa.RecordBatch, convert: Convert) -> pa.RecordBatch:
    """Rows with the types that tables have.

    Raises ValueError that names the column of a value that a table cannot have.
    """
    columns = [_cast(column, name, convert) for name, column in zip(batch.schema.names, batch, strict=True)]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _cast(column: pa.Array, name: str, convert: Convert) -> pa.Array:
    """A column with the type of tables."""
    kind = column.type
    try:
        target = convert(kind)
        if kind == target:
            return column
        if isinstance(kind, pa.BaseExtensionType):
            return _cast(column.storage, name, convert)
        if pa.types.is_duration(kind):
            column = column.cast(pa.duration("us"), safe=kind.unit != "ns")
        fine = (pa.types.is_timestamp(kind) and kind.unit == "ns") or kind == pa.time64("ns")
        safe = not (pa.types.is_nested(kind) or fine)
        return column.cast(target, safe=safe)  # nanoseconds are cut to microseconds
    except (ValueError, NotImplementedError) as error:
        raise ValueError(
            f"column `{name}` ({kind}) has a value that the table cannot hold: {error}; convert it upstream"
        ) from error


def refuse_null_lists(batch: pa.RecordBatch) -> None:
    """Raise ValueError for a list of structs that is null: pyiceberg would write an empty one."""
    for name, column in zip(batch.schema.names, batch, strict=True):
        if _has_null_list(column):
            msg = f"column `{name}` has a list of structs that is null, which pyiceberg writes as an empty "
            msg += "one; fill it upstream"
            raise ValueError(msg)


def _has_null_list(column: pa.Array) -> bool:
    """Whether a list of structs is null, at any depth."""
    is_, kind = pa.types, column.type
    if is_.is_list(kind):
        return bool(is_.is_struct(kind.value_type) and column.null_count) or _has_null_list(column.flatten())
    if is_.is_struct(kind):
        return any(map(_has_null_list, column.flatten()))
    return is_.is_map(kind) and (_has_null_list(column.keys) or _has_null_list(column.items))


def fits(kind: pa.DataType, column: pa.DataType) -> bool:  # noqa: PLR0911  a case each
    """Whether all values of a converted type can be written to a column of a table as they are.

    Nested types have to be the same.
    """
    is_ = pa.types
    if kind == column:
        return True
    if is_.is_integer(kind):
        if is_.is_decimal(column):
            return column.precision - column.scale >= _INTEGER_DIGITS[kind.bit_width]
        if is_.is_floating(column):
            return kind.bit_width < column.bit_width
        return is_.is_integer(column) and kind.bit_width <= column.bit_width
    if is_.is_floating(kind):
        return is_.is_floating(column) and kind.bit_width <= column.bit_width
    if is_.is_decimal(kind) and is_.is_decimal(column):
        whole = kind.precision - kind.scale <= column.precision - column.scale
        return whole and kind.scale <= column.scale
    return False


def as_table(rows: pa.Table, fields: Sequence[pa.Field]) -> pa.Table:
    """Rows with exactly the columns of a table; those that the stream lacks are null."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(len(rows), field.type)
        for field in fields
    ]
    return pa.Table.from_arrays(
        columns, schema=pa.schema([pa.field(field.name, field.type) for field in fields])
    )


def last_of_each(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in the order of rows."""
    codes, keys = key_codes([rows.column(name).combine_chunks() for name in key])
    last = np.empty(len(keys), np.int64)
    last[codes] = np.arange(len(rows))
    return rows if len(keys) == len(rows) else rows.take(pa.array(np.sort(last)))


class LakeColumns(NamedTuple):
    """The columns of a table: in order, those by which it is partitioned, those that must have a value."""

    fields: tuple[pa.Field, ...]
    partition_by: tuple[str, ...]
    needed: tuple[str, ...]


NUMBER = "ridgeline_batch"
"""The column with the number of a row's batch."""
_TRIES = 12
"""So often a write is tried at once while others are quicker; after that with growing pauses."""
_DELETED_FIELD = pa.field(DELETED, pa.bool_())


class LakeOutput(TableRows):
    """The base of outputs that write into a table of a lake."""

    partition_by: Columns = Field(default=(), kw_only=True)

    @property
    def target(self) -> Target:
        """How the driver's half writes rows."""
        return super().target._replace(name="", partition_by=columns_of(self.partition_by))

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse partitions by a column that is not written."""
        faults = super().property_faults()
        if self.delete is not None and self.delete in columns_of(self.partition_by):
            rule = "names the column `delete`, which is not written"
            faults.append(("partition_by", self.partition_by, rule))
        return faults


class LakeSink(TableSink):
    """Writes each window on the version of the table whose mark was read.

    `table`: as the library has it, None before rows have come to a table that is to be made.
    """

    add_value = "add it upstream, or let the column be null"
    reached_by: ClassVar[str]
    """The properties that say where the table is."""

    def __init__(self, target: Target, convert: Convert) -> None:
        super().__init__(target)
        self._convert = convert
        self.table: Any = None
        self.columns = LakeColumns((), (), ())
        self._last_window = -1
        """The last window that is in the table as far as this sink knows: the mark is not before it."""

    # The library --------------------------------------------------------------------------------------------

    def loaded(self) -> Any:
        """The table; None if it is missing."""
        raise NotImplementedError

    def made(self, fields: Sequence[pa.Field]) -> Any:
        """Make the table."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Read the newest version of the table."""
        raise NotImplementedError

    def look(self) -> None:
        """Read the table's columns."""
        raise NotImplementedError

    def found_mark(self) -> Mark | None:
        """The mark in the version that was read last."""
        raise NotImplementedError

    def commit(self, batches: Sequence[Batch], rows: pa.Table, mark: Mark) -> None:
        """Write rows and mark as the next version."""
        raise NotImplementedError

    def text_of(self, error: Exception) -> str:
        """The text of an error."""
        raise NotImplementedError

    def is_hopeless(self, error: Exception) -> bool:
        """Whether it is refused for reasons that time does not fix: rights, a bucket that is missing."""
        raise NotImplementedError

    def is_away(self, error: Exception) -> bool:
        """Whether catalog or store cannot be reached now, or is full."""
        raise NotImplementedError

    def is_conflict(self, error: Exception) -> bool:
        """Whether another writer was quicker: with the newest version it may work."""
        raise NotImplementedError

    # The table ----------------------------------------------------------------------------------------------

    def open(self, context: SinkContext) -> None:
        """Make the table if it is missing, compare the columns. Raises RidgelineError."""
        super().open(context)
        with self.explaining():
            self.table = self.loaded()
            if context.schema is not None:
                self._take(context.schema)
                self.check_table(self.fields(context.schema))

    def _take(self, schema: pa.Schema) -> None:
        """Make the table if it is missing, and read its columns."""
        if self.table is None:
            fields = self.fields(schema)
            self.refuse_missing()
            self.table = self.made(fields)
        self.look()

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Turn errors of the library into those that say whether it is worth trying again.

        Raises SinkUnavailableError if it is, RidgelineError with the remedy if not.
        """
        try:
            yield
        except (RidgelineError, SinkUnavailableError):
            raise
        except Exception as error:
            text, hopeless = mask_text(self.text_of(error)), self.is_hopeless(error)
            if not hopeless and (self.is_away(error) or self.is_conflict(error)):
                raise SinkUnavailableError(text) from error
            remedy = "fix that, then start it again: nothing that was committed is lost"
            if hopeless:
                remedy = f"check {self.reached_by}"
            msg = f"`{self.context.operator}` cannot write to {self.place()}: {capped(text, 1000)}; {remedy}"
            raise RidgelineError(msg) from error

    def fields(self, schema: pa.Schema) -> list[pa.Field]:
        """The columns of the stream as the table has them. Raises RidgelineError for one that it cannot."""
        fields = []
        for field in self.written(schema):
            try:
                kind = self._convert(field.type)
            except ValueError as error:
                self.fault(f"column `{field.name}`: {error}", "convert it upstream")
            # the library writes negative decimals so that it cannot read them
            unfit = family(kind) in {*NESTED, "floating", "bytes", "decimal"}
            if unfit and field.name in self.target.partition_by:
                what = f"column `{field.name}` of `partition_by` is {kind}"
                self.fault(what, "take texts, integers, dates or timestamps")
            fields.append(pa.field(field.name, kind))
        return fields

    def check_table(self, fields: Sequence[pa.Field]) -> None:
        """Raise RidgelineError if rows of these columns cannot be written to the table."""
        table, given = self.columns, self.target.partition_by
        found = {field.name: field.type for field in table.fields}
        self.compare(
            fields,
            found,
            fits=fits,
            add=lambda field: f"add it to the table ({field.type})",
            needed=table.needed,
        )
        if given and set(given) != set(table.partition_by):
            own = ", ".join(table.partition_by) or "no column"
            what = f"the table is partitioned by {own}, `partition_by` is {', '.join(given)}"
            self.fault(what, "give the table's own columns")

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Write the rows and the mark as one version. Raises RidgelineError for rows that it refuses."""
        with self.explaining():
            for left in reversed(range(_TRIES)):
                try:
                    self.attempt(batches, mark)
                except Exception as error:
                    if not left or not self.is_conflict(error):
                        raise
                else:
                    self._last_window = mark.window
                    return

    def attempt(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Read the newest version, compare its mark, and write the next one."""
        if self.table is not None:
            self.refresh()
        self._take(batches[0].schema)
        if unwritten := self.unwritten(batches):
            self.commit(unwritten, self.with_values(unwritten, self.united(unwritten)), mark)

    def mark(self) -> Mark | None:
        """The mark of this run, as of the version that was read last."""
        found = None if self.table is None else self.found_mark()
        if found is not None:
            self._last_window = max(self._last_window, found.window)
        return found

    def unwritten(self, batches: Sequence[Batch]) -> list[Batch]:
        """The batches that are not in the table, as its mark says. Raises RidgelineError if that is gone."""
        found = self.found_mark()
        if self._last_window > (-1 if found is None else found.window):
            raise self.context.unmarked(self.place())
        return self.context.unwritten(batches, found)

    def united(self, batches: Sequence[Batch]) -> pa.Table:
        """The rows of batches with the table's columns, and the number of each row's batch."""
        tables = []
        for number, batch in enumerate(batches):
            self.check_table(self.fields(batch.schema))
            fields = [*self.columns.fields, *([_DELETED_FIELD] if self.target.delete else [])]
            rows = as_table(batch.data, fields)
            tables.append(rows.append_column(NUMBER, pa.array(np.full(len(rows), number))))
        return pa.concat_tables(tables)

    def with_values(self, batches: Sequence[Batch], rows: pa.Table) -> pa.Table:
        """The rows without those that lack a value which the table needs."""
        for name in self.columns.needed:
            null = rows.column(name).is_null()
            if self.target.delete is not None:
                null = pc.and_(null, pc.invert(rows.column(DELETED)))
            if pc.any(null).as_py():
                self.refuse_rows(
                    batches, rows.filter(null), f"column `{name}` must have a value, and is null"
                )
                rows = rows.filter(pc.invert(null))
        return rows

    def refuse_rows(self, batches: Sequence[Batch], rows: pa.Table, reason: str) -> None:
        """Leave rows out with `on_error=SKIP`. Raises UnwritableError without."""
        for row in rows.to_pylist():
            batch = batches[row.pop(NUMBER)]
            self.refuse(batch, str(row), reason)

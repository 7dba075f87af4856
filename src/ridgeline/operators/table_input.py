"""Read a whole table again and again, and emit what has changed in it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api import InputOperator, ListState, OutputPort, Schema, SchemaError, State, metric
from ridgeline.api.columns.nulls import optional_columns
from ridgeline.api.columns.schema_types import SchemaType
from ridgeline.api.errors import did_you_mean
from ridgeline.api.support.duration import parse_duration, positive_duration_faults
from ridgeline.connect.deletions import DELETIONS
from ridgeline.operators._divided import Columns, check_columns, check_keys, columns_of, row_keys
from ridgeline.operators.iterable_input import is_frame, maker_of, table_of
from ridgeline.operators.key_value import distinct

T = TypeVar("T", default=Any)
_NEVER = -1
_log = logging.getLogger(__name__)


class TableInput(InputOperator):
    r"""Read a whole table again and again, and emit what has changed: a file that is replaced each night.

    `read` returns the whole table: a frame of polars, pandas or Arrow, or an iterable of rows. It may read a
    file, a database or a service. `schema` is its type, `key` a column, or several: one row has each key, the
    last one of several. It is called in the first window, and then once `every` has passed on the clock. The
    window waits for it.

    Output: the columns of `schema`, and the column `deleted`. Each time the rows come that are new or
    changed. Those whose key is gone come once more, with true in `deleted`. `stream.table` makes a table of
    this, and finds the column by itself.

    An error of the first call is one of the operator. A later one is a line in the log, and counted as
    `failed_reads`: the table stays as it was until the next call. With `until="end"` the input finishes after
    the first.

    State: the table. It is written in windows that change it. The operator has one partition.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from typing import NamedTuple
        >>> import polars as pl
        >>> from ridgeline import Application
        >>> from ridgeline.operators import TableInput
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class User(NamedTuple):
        ...     name: str
        ...     country: str
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = Path(folder.name, "users.csv")
        >>> size = file.write_text("name,country\nann,CH\nbob,NO\n")
        >>> def read():
        ...     users = pl.read_csv(file)
        ...     file.write_text("name,country\nann,NO\n")  # what others do later
        ...     return users
        >>> app = Application("users", window="1m")
        >>> changes = app.read("users", TableInput(read, User, key="name", every="1m"))
        >>> sink = changes.write("sink", CollectorSink())
        >>> for row in run_local(app, windows=3).collected("sink"):
        ...     print(row["name"], row["country"], row["deleted"])
        ann CH False
        bob NO False
        bob NO True
        ann NO False
        >>> folder.cleanup()
    """

    parallelizable: ClassVar[bool] = False
    marks_deletions: ClassVar[bool] = True
    output = OutputPort(Any)

    read: Callable[[], Any]
    schema: SchemaType[Any]
    key: Columns = Field(min_length=1)
    every: float | str = "1h"
    until: Literal["end"] | None = None
    deleted: str = Field(default="deleted", min_length=1)

    held = ListState(pa.RecordBatch)
    """The table as it was read last."""
    read_at = State(_NEVER)
    """When that was tried, in microseconds since 1970."""
    failures = State(0)

    @metric(help="Rows of the table.")
    def held_rows(self) -> int:
        """The number of rows of the table."""
        return sum(map(len, self.held))

    @metric(help="Calls of `read` that have failed.")
    def failed_reads(self) -> int:
        """The number of calls that failed after the first."""
        return self.failures

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a time that is none."""
        return positive_duration_faults(self, "every")

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of the table and `deleted`. Raises SchemaError for columns that do not fit."""
        given = Schema(self.schema)
        check_columns(given, columns_of(self.key), "`key`")
        check_keys(given, columns_of(self.key))
        if self.deleted in given.arrow.names:
            msg = f"the table has a column `{self.deleted}` itself; give the one of deletions another name: "
            msg += '`deleted="gone"`'
            raise SchemaError(msg)
        fields = [field.with_nullable(field.name in optional_columns(given)) for field in given.arrow]
        return pa.schema([*fields, pa.field(self.deleted, pa.bool_(), nullable=False, metadata=DELETIONS)])

    def emit_tuples(self) -> None:
        """Read the table if it is time to, and emit what has changed. Raises what the first `read` raises."""
        now = self.context.window_time_microseconds
        first = self.read_at == _NEVER
        if not first and now - self.read_at < round(parse_duration(self.every) * 1_000_000):
            return
        self.read_at = now
        try:
            self._emit(self._table())
        except Exception as error:
            if first:
                raise
            self.failures += 1
            _log.warning("`%s` keeps its table, since it could not be read: %s", self.context.name, error)
            return
        if self.until == "end":
            self.finish()

    def is_paced(self) -> bool:
        """True: it goes by the clock."""
        return True

    def _table(self) -> pa.RecordBatch:
        """The table as `read` returns it, in the columns of the schema. Raises SchemaError."""
        found, schema = self.read(), Schema(self.schema)
        if not is_frame(found):
            make = maker_of(self.schema)
            return schema.encode([row if make is None else make(row) for row in found])
        optional = optional_columns(schema)
        table = table_of(found, "`read`")
        for name in schema.arrow.names:
            if name not in table.column_names:
                hint = did_you_mean(name, table.column_names)
                msg = f"the table that `read` returned has no column `{name}`; {hint}"
                raise SchemaError(msg)
            if name not in optional and table[name].null_count:
                msg = f"the table that `read` returned has a null in `{name}`, which may have none; fill it, "
                msg += "or change `schema`"
                raise SchemaError(msg)
        wanted = schema.arrow.remove_metadata()
        table = table.select(wanted.names).cast(wanted).combine_chunks()
        return (table.to_batches() or [pa.RecordBatch.from_pylist([], wanted)])[0]

    def _emit(self, table: pa.RecordBatch) -> None:
        """Emit the rows by which a table differs from the one before, and hold it."""
        schema = self.output.schema.arrow
        columns = pa.schema(list(schema)[:-1]).remove_metadata()
        new = pa.RecordBatch.from_arrays(table.columns, schema=columns)
        old = pa.RecordBatch.from_pylist([], columns)
        for batch in self.held:  # one
            old = batch
        [both] = pa.Table.from_batches([old, new], columns).combine_chunks().to_batches() or [new]
        codes, keys = row_keys(both, columns_of(self.key)) if len(both) else (np.empty(0, np.int64), [])
        before, after = np.full(len(keys), -1), np.full(len(keys), -1)
        before[codes[: len(old)]] = np.arange(len(old))
        after[codes[len(old) :]] = np.arange(len(old), len(both))
        gone = np.sort(before[after < 0])
        there = after >= 0
        differs = there & (before < 0)
        for column in both.columns:
            values = _numbers(column)
            differs |= there & (values[before] != values[after])
        changed = np.sort(after[differs])
        rows = both.take(pa.array(np.concatenate([gone, changed]))) if len(both) else both
        if not len(rows):
            return
        deleted = pa.array(np.arange(len(rows)) < len(gone))
        self.output.emit_batch(pa.RecordBatch.from_arrays([*rows.columns, deleted], schema=schema))
        self.held[:] = [both.take(pa.array(np.sort(after[there])))]


def _numbers(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A number for each value, the same for equal ones."""
    if pa.types.is_nested(column.type):
        column = pa.array([repr(value) for value in column.to_pylist()], pa.string())
    return distinct(column)[1]

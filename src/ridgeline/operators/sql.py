"""A step that is one SELECT over the tuples of a window."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from ridgeline.api import (
    InputPort,
    ListState,
    OutputPort,
    RidgelineError,
    Schema,
    SchemaError,
    SchemaType,
    metric,
)
from ridgeline.api.columns.struct_types import TIMESTAMP
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import did_you_mean, listed
from ridgeline.api.times import Microseconds, Times
from ridgeline.operators._divided import DividedOperator
from ridgeline.operators._kinds import NESTED, NUMBERS, family, plain
from ridgeline.operators._shaped import T, handed_on
from ridgeline.operators._sql_child import NoSelectError, connect, forget, relation_of
from ridgeline.operators._sql_engine import QueryError, for_duckdb, from_duckdb
from ridgeline.operators._vectors import filtered
from ridgeline.operators.frames._columns import columns_of as known_columns
from ridgeline.operators.windows import Sliding


class Duck:
    """The database of a step. `memory_mb`: it may take so many megabytes. Not for several threads.

    Raises SchemaError without DuckDB.
    """

    def __init__(self, memory_mb: int) -> None:
        try:
            self.connection = connect(memory_mb)
        except ImportError as error:
            remedy = "install it: `pip install 'ridgeline[query]'`"
            raise SchemaError(f"SQL steps need DuckDB, which is not installed here; {remedy}") from error

    def close(self) -> None:
        """Give the memory back."""
        self.connection.close()

    def run(self, sql: str, tables: Mapping[str, pa.Table]) -> tuple[pa.Table, list[str]]:
        """The rows that a SELECT makes, and the types of its columns in DuckDB's words.

        Raises SchemaError for other statements, and columns that do not fit; RidgelineError with DuckDB's
        reason.
        """
        try:
            fitting = {name: for_duckdb(table, name) for name, table in tables.items()}
            relation = relation_of(self.connection, sql, fitting)
            found = from_duckdb(relation.to_arrow_table())
            kinds = [str(kind) for kind in relation.types]
        except QueryError as error:
            raise SchemaError(f"{error}; cast the column before") from error
        except NoSelectError as error:
            raise SchemaError(
                f"the SQL must be one SELECT, but it is {error}; write the one SELECT that makes the rows"
            ) from error
        except Exception as error:
            memory = type(error).__name__ == "OutOfMemoryException"
            remedy = "allow more by `memory_mb`" if memory else f"its tables are {listed(tables)}"
            raise RidgelineError(f"the SQL failed: {_reason(error)}; {remedy}") from error
        finally:
            forget(self.connection, tables)
        return _without_months(found), kinds


def _without_months(table: pa.Table) -> pa.Table:
    """A result of which all lengths of time are fixed. Raises SchemaError."""
    for field in table.schema:
        if field.type == pa.month_day_nano_interval():
            raise SchemaError(
                f"column `{field.name}` has an interval with months, which have no fixed length, or with "
                "nanoseconds; add it to a time in the SQL, or cast it to a text"
            )
    return table


def _reason(error: Exception) -> str:
    """What DuckDB says of an error, without its kind, and what it proposes."""
    text = re.split(r"\nLINE \d|\n\t", str(error))[0]
    return re.sub(r"^[A-Z][\w ]* Error: ", "", " ".join(text.split())).rstrip(".!?")


MOST_TABLES = 4
_WINDOW = "_window"
_BORDERS = ("window_start", "window_end")


class Sql(DividedOperator, Generic[T]):
    """Run `sql`, one SELECT, over the tuples of each window; its rows are the output. DuckDB does the work.

    Inputs: `input_1` to `input_4`, the streams of `tables`, the names that the SQL has for them. Output: the
    rows of the SELECT, at the end of the window, in the order of its ORDER BY. Sums of integers are `int64`,
    and one that does not fit fails. The SQL does not run in a window without tuples.

    `windows`: `tumbling("1m")` or `sliding(...)`: windows of record time. The SQL runs once the watermark has
    passed the end of one. Each table has the columns `window_start` and `window_end` too, unless its stream
    has them. Results have the time of the window's end. Without `windows` it is the (application) window of
    the operator. `timestamp`: the column of the result that has its times.

    `schema`: the type of the result; a null where none may be fails. Default: the columns that DuckDB says,
    each of which may be null.

    The SQL is checked before anything runs. It reads no file and no network, loads no extension and changes
    no setting. DuckDB may take `memory_mb` megabytes of each partition. `random()` and `now()` are run again
    with an attempt.

    Late records, and those without a time, go to the error ports `late_1` to `late_4`, with `windows`. Raises
    RidgelineError for SQL that fails, and with `windows` for streams without record times.

    State: the tuples of windows that are open. The metric `held_records` says how many.

    Partitions: one, as a SELECT may read all rows at once.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Sql
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Order = NamedTuple("Order", [("country", str), ("cents", int)])
        >>> app = Application("shop")
        >>> orders = app.add_operator("orders", ListInput(Order, [("ch", 5), ("no", 7), ("ch", 3)]))
        >>> sql = "select country, sum(cents) as cents from orders group by country order by cents desc"
        >>> sums = app.add_operator("sums", Sql(sql, ["orders"]))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("orders", orders.output, sums.input_1)
        >>> app.add_stream("sums", sums.output, sink.input)
        >>> run_local(app).collected("sink")
        [{'country': 'ch', 'cents': 8}, {'country': 'no', 'cents': 7}]
    """

    parallelizable: ClassVar[bool] = False

    input_1 = InputPort(Any)
    input_2 = InputPort(Any, optional=True)
    input_3 = InputPort(Any, optional=True)
    input_4 = InputPort(Any, optional=True)
    output = OutputPort[T](Any)
    late_1 = OutputPort(Any, late=True, optional=True)
    late_2 = OutputPort(Any, late=True, optional=True)
    late_3 = OutputPort(Any, late=True, optional=True)
    late_4 = OutputPort(Any, late=True, optional=True)

    sql: str
    tables: list[str] = Field(default=["input"], min_length=1, max_length=MOST_TABLES)
    windows: Sliding | None = Field(default=None, kw_only=True)
    schema: SchemaType[T] | None = Field(default=None, kw_only=True)
    timestamp: str | None = Field(default=None, kw_only=True)
    memory_mb: int = Field(default=1024, ge=32, kw_only=True)

    state_depends_on = (
        *(f"input_{number}" for number in range(1, 5)),
        "tables",
        "windows",
    )

    held_1 = ListState(pa.RecordBatch)
    """The tuples of open windows; with `windows` a batch is of one, whose start is its last column."""
    held_2 = ListState(pa.RecordBatch)
    held_3 = ListState(pa.RecordBatch)
    held_4 = ListState(pa.RecordBatch)

    @classmethod
    def keys_of(cls, given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:  # noqa: ARG003  it has none
        """None: one partition gets all."""
        return {}

    @metric(help="Tuples of windows that are open.")
    def held_records(self) -> int:
        """The number of tuples that are held."""
        return sum(len(batch) for held in self._held for batch in held)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse tables of one name."""
        if len({name.lower() for name in self.tables}) < len(self.tables):
            return [("tables", self.tables, "must differ by more than small and large letters")]
        return []

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of the result, or of late records. Raises SchemaError for SQL that does not fit."""
        if port != "output":
            own = inputs.get(f"input_{port[-1]}")
            return None if own is None else own.type
        entries = [f"input_{place}" for place in range(1, len(self.tables) + 1)]
        if any(entry not in inputs for entry in entries):
            return None
        for table, entry in zip(self.tables, entries, strict=True):
            if inputs[entry].pickled:
                raise SchemaError(
                    f"the tuples of `{table}` are Python objects without columns; give that port a schema"
                )
        arrow = {
            table: known_columns(inputs[entry]) for table, entry in zip(self.tables, entries, strict=True)
        }
        columns = self._columns({table: self._with_borders(schema) for table, schema in arrow.items()})
        if self.timestamp is not None and self.timestamp not in columns.names:
            hint = did_you_mean(self.timestamp, columns.names)
            raise SchemaError(f"`timestamp` names `{self.timestamp}`, which the SQL does not make; {hint}")
        if self.schema is not None:
            check_fits(columns, Schema(self.schema))
        return columns if self.schema is None else self.schema

    def _columns(self, tables: Mapping[str, pa.Schema]) -> pa.Schema:
        """The columns of the result for tables with these columns. Raises SchemaError."""
        duck = Duck(self.memory_mb)
        try:
            found, kinds = duck.run(self.sql, {name: one.empty_table() for name, one in tables.items()})
        except RidgelineError as error:
            raise SchemaError(str(error)) from error
        finally:
            duck.close()
        return pa.schema([field_of(*column) for column in zip(checked(found.schema), kinds, strict=True)])

    def _with_borders(self, schema: pa.Schema) -> pa.Schema:
        """The columns of a table, with those of the window."""
        if self.windows is None:
            return schema
        more = [pa.field(name, TIMESTAMP, nullable=False) for name in _BORDERS if name not in schema.names]
        return pa.schema([*schema, *more])

    def needs_times(self) -> str:
        """To put records into windows."""
        return "" if self.windows is None else "puts records into windows"

    def timestamp_of(self, port: str) -> str | None:
        """The column that `timestamp` names."""
        return self.timestamp if port == "output" else None

    def setup(self, context: OperatorContext) -> None:
        """Start DuckDB. With a `timestamp` results may be as old as a window is long."""
        self.duck = Duck(self.memory_mb)
        if self.windows is not None and self.timestamp is not None:
            context.watermark_delay = self.windows.longest

    def teardown(self) -> None:
        """Give DuckDB's memory back."""
        self.duck.close()

    def end_window(self) -> None:
        """Run the SQL over the tuples of windows that are over."""
        if self.windows is None:
            tables = [list(held) for held in self._held]
            if any(tables):
                for held in self._held:
                    held.clear()
                self._run([self._table(number, batches) for number, batches in enumerate(tables, 1)], None)
            return
        starts = np.unique(np.array([_start(batch) for held in self._held for batch in held], np.int64))
        ends = self.windows.ends(starts)
        over = ends <= self.context.watermark_microseconds
        for start, end in zip(starts[over].tolist(), ends[over].tolist(), strict=True):
            own = [[batch for batch in held if _start(batch) == start] for held in self._held]
            tables = [self._table(number, batches) for number, batches in enumerate(own, 1)]
            self._run([self._bordered(table, start, end) for table in tables], end)
        gone = set(starts[over].tolist())
        for held in self._held if gone else ():
            held[:] = [batch for batch in held if _start(batch) not in gone]

    @property
    def _held(self) -> list[Any]:
        """The states of the tables, in order."""
        return [getattr(self, f"held_{number}") for number in range(1, len(self.tables) + 1)]

    def _take(self, number: int, batch: pa.RecordBatch) -> None:
        """Hold a batch until its window is over."""
        held = self._held[number - 1]
        if self.windows is None:
            held.append(batch)
            return
        batch, times = self.on_time(batch, getattr(self, f"late_{number}"), "puts records into windows")
        watermark = self.context.watermark_microseconds
        for starts in self.windows.starts(self.windows.last_starts(times)).T if len(batch) else ():
            for start in np.unique(starts[self.windows.ends(starts) > watermark]).tolist():
                own = filtered(batch, starts == start)
                held.append(own.append_column(_WINDOW, pa.array(np.full(len(own), start, np.int64))))

    def is_late(self, times: Microseconds, watermark: int) -> npt.NDArray[np.bool_]:
        """Those whose last window has ended."""
        windows: Any = self.windows
        ended: npt.NDArray[np.bool_] = windows.ends(windows.last_starts(times)) <= watermark
        return ended

    _take_1 = handed_on(input_1, _take, 1)
    _take_2 = handed_on(input_2, _take, 2)
    _take_3 = handed_on(input_3, _take, 3)
    _take_4 = handed_on(input_4, _take, 4)

    def _table(self, number: int, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        """The batches of a table as one; an empty one without batches."""
        schema: pa.Schema = getattr(self, f"input_{number}").schema.arrow
        if self.windows is not None:
            schema = schema.append(pa.field(_WINDOW, pa.int64()))
        return pa.Table.from_batches(batches, None if batches else schema)

    def _bordered(self, table: pa.Table, start: int, end: int) -> pa.Table:
        """The tuples of a window, with its borders as columns."""
        table = table.drop_columns([_WINDOW])
        for name, value in zip(_BORDERS, (start, end), strict=True):
            if name not in table.column_names:
                column = pa.array(np.full(len(table), value, np.int64)).cast(TIMESTAMP)
                table = table.append_column(pa.field(name, TIMESTAMP, nullable=False), column)
        return table

    def _run(self, tables: Sequence[pa.Table], end: int | None) -> None:
        """Emit the rows that the SQL makes of tables. `end`: of their window of record time."""
        found, _ = self.duck.run(self.sql, dict(zip(self.tables, tables, strict=True)))
        found = whole_numbers(found, self.output.schema.arrow).combine_chunks()
        for batch in found.to_batches():
            if end is None or self.timestamp is not None:
                self.output.emit_batch(batch)
            else:
                self.output.emit_timed(batch, Times(np.full(len(batch), end)))


def _start(batch: pa.RecordBatch) -> int:
    """When the window begins that the tuples of a batch are in."""
    start: int = batch.column(batch.num_columns - 1)[0].as_py()
    return start


def field_of(field: pa.Field, kind: str) -> pa.Field:
    """A column of the result, by its type in DuckDB. Raises SchemaError for one that streams do not have."""
    if kind in ("HUGEINT", "UHUGEINT"):
        return pa.field(field.name, pa.int64())
    if pa.types.is_null(field.type):
        raise SchemaError(
            f"column `{field.name}` is null in all rows; give it a type: `cast(null as varchar)`"
        )
    return field.remove_metadata()


def checked(columns: pa.Schema) -> pa.Schema:
    """Columns with different names. Raises SchemaError for two of one name."""
    for name in columns.names:
        if columns.names.count(name) > 1:
            raise SchemaError(f"the result has column `{name}` twice; name one otherwise: `as ...`")
    return columns


def check_fits(columns: pa.Schema, schema: Schema) -> None:
    """Raise SchemaError for columns of the result that are not those of a schema."""
    if schema.pickled:
        raise SchemaError("`schema` has no columns; give a class or a schema that has")
    for name in schema.arrow.names:
        if name not in columns.names:
            hint = did_you_mean(name, columns.names)
            raise SchemaError(f"`schema` has column `{name}`, which the SQL does not make; {hint}")
    for field in columns:
        if field.name not in schema.arrow.names:
            raise SchemaError(
                f"the SQL makes column `{field.name}`, which `schema` does not have; leave it out, or add it"
            )
        wanted = schema.arrow.field(field.name).type
        if _family(field.type) != _family(wanted):
            raise SchemaError(
                f"column `{field.name}` is {field.type}, but {wanted} in `schema`; cast it in the SQL"
            )


def _family(kind: pa.DataType) -> str:
    """One text for all types whose values fit each other, at least some."""
    name = family(kind)
    if name in NUMBERS:
        return "number"
    if name == "timestamp":
        return "time with a zone" if plain(kind).tz else "time"
    return "nested" if name in NESTED else name


def whole_numbers(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A result with sums of integers in 64 bits. Raises RidgelineError for one that does not fit."""
    for place, field in enumerate(table.schema):
        wanted = schema.field(field.name).type if field.name in schema.names else field.type
        if pa.types.is_decimal(field.type) and field.type.scale == 0 and pa.types.is_integer(wanted):
            try:
                table = table.set_column(place, field.name, table.column(place).cast(wanted))
            except pa.ArrowInvalid as error:
                raise RidgelineError(
                    f"column `{field.name}` has a number that does not fit into {wanted}; "
                    "make it a decimal in the SQL: `cast(... as decimal(38, 0))`"
                ) from error
    return table

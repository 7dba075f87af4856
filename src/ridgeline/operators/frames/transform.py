"""Transform each batch by a function of polars frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ridgeline.api import InputPort, Operator, OutputPort, Schema, SchemaError
from ridgeline.api.errors import did_you_mean
from ridgeline.operators.frames._columns import columns_of
from ridgeline.operators.frames._expressions import first_line, imported, refuse_other
from ridgeline.operators.frames._step import time_column
from ridgeline.operators.frames._types import array_of, frame_of, type_of

if TYPE_CHECKING:
    import polars as pl

    Function = Callable[[pl.LazyFrame], pl.LazyFrame | pl.DataFrame]
else:
    Function = Callable[[Any], Any]


class Transform(Operator):
    """Transform each batch by a function of a `polars.LazyFrame`, which returns another one, as one query.

    `function` sees one batch at a time: an aggregate in it is one of the batch, not of a window. It is called
    on an empty frame when the application is validated. So the columns of the result are known before
    anything runs, and faults too. Columns keep the type and the nulls that they had if the function does not
    change their type.

    Rows have the times in the column of the stream's times, as long as the result has it: it may filter,
    sort, cut and explode. A function that changes this column changes the times. Else, if they are as many as
    before, row i has the time of row i. Else they have the newest and the oldest time of the batch.
    Partitions: round robin.

    Example:
        >>> import polars as pl
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Transform
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Order(NamedTuple):
        ...     id: str
        ...     cents: int
        >>> def in_euros(orders: pl.LazyFrame) -> pl.LazyFrame:
        ...     return orders.filter(pl.col("cents") > 0).with_columns(euros=pl.col("cents") / 100)
        >>> app = Application("euros")
        >>> orders = app.add_operator("orders", ListInput(Order, [("a", 150), ("b", 0)]))
        >>> euros = app.add_operator("euros", Transform(in_euros))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("orders", orders.output, euros.input)
        >>> app.add_stream("euros", euros.output, sink.input)
        >>> run_local(app).collected("sink")
        [{'id': 'a', 'cents': 150, 'euros': 1.5}]
    """

    input = InputPort[Any](Any)
    output = OutputPort[Any](Any)

    function: Function

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns that the function makes of an empty frame. Raises SchemaError."""
        if port != "output" or "input" not in inputs:
            return None
        columns = columns_of(inputs["input"])
        empty = frame_of(columns.empty_table())
        made = dict(_applied(self.function, empty, columns).schema)
        if not made:
            raise SchemaError("the function leaves no column; keep one")
        fields = []
        for name, dtype in made.items():
            same = name in columns.names and empty.schema[name] == dtype
            kind = columns.field(name).type if same else type_of(dtype, name)
            fields.append(pa.field(name, kind))
        return pa.schema(fields)

    @input.process_batch
    def apply(self, batch: pa.RecordBatch) -> None:
        """Emit what the function makes of a batch."""
        made = _applied(self.function, frame_of(batch), batch.schema, checks=False)
        found = pa.RecordBatch.from_arrays([array_of(made[name]) for name in made.columns], made.columns)
        times = time_column(self.context, self.output, found.schema)
        if times is None or not pa.types.is_timestamp(found.schema.field(times).type):
            self.output.emit_batch(found)
        else:
            self.output.emit_timed(found, times)


def _applied(function: Function, frame: pl.DataFrame, columns: pa.Schema, *, checks: bool = True) -> Any:
    """The frame that a function makes of another one. `checks`: raises SchemaError for what is wrong."""
    try:
        made: Any = function(frame.lazy())
        made = made.collect() if hasattr(made, "collect") else made
    except BaseException as error:
        if not checks:
            raise
        refuse_other(error)
        raise SchemaError(
            f"the function cannot be applied to these columns: {_reason(error, columns)}"
        ) from error
    if not isinstance(made, imported().DataFrame):
        raise SchemaError(
            f"the function returns a {type(made).__name__}, not a frame; return the `LazyFrame`"
        )
    return made


def _reason(error: BaseException, columns: pa.Schema) -> str:
    """The reason in an error of polars, or of the function, with the remedy."""
    text = first_line(error)
    if type(error).__name__ == "ColumnNotFoundError":
        name = text.partition('"')[2].partition('"')[0] or text.partition(";")[0]
        return f"there is no column `{name}`; {did_you_mean(name, columns.names)}"
    return f"{type(error).__name__}: {text}; change the function, or the columns before it"

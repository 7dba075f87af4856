"""Transform each batch by a function of polars frames."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ridgeline.api import InputPort, OutputPort, Schema, SchemaError
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import did_you_mean
from ridgeline.operators._shaped import DerivingOperator
from ridgeline.operators.frames._columns import columns_of
from ridgeline.operators.frames._expressions import first_line, imported, refuse_other
from ridgeline.operators.frames._held import array_of, frame_of, type_of

if TYPE_CHECKING:
    import polars as pl

    Function = Callable[[pl.LazyFrame], pl.LazyFrame | pl.DataFrame]
else:
    Function = Callable[[Any], Any]

_ROW = "__row__"
_BY_ROW = frozenset({"Filter", "HStack", "Select", "Sort", "Slice", "MapFunction", "DataFrameScan"})
"""Nodes of a query that keep the column with the number of the row what it is."""
_MAPPED = frozenset({"Rename", "Explode", "Unnest"})
_TRANSPARENT = ({"Boolean": "IsNotNull"}, "FillNull")


class Transform(DerivingOperator):
    """Transform each batch by a function of a `polars.LazyFrame`, which returns another one, as one query.

    `function` sees one batch at a time: an aggregate in it is one of the batch, not of a window. It is called
    on an empty frame when the application is validated. So the columns of the result are known before
    anything runs, and faults too. Columns keep the type and the nulls that they had if the function does not
    change their type.

    Rows keep their times if the query filters, sorts, cuts, explodes, renames or adds columns. A query that
    groups, joins, or chooses columns makes other rows. If they are as many as before, row i has the time of
    row i. Else they have the newest and the oldest time of the batch. Partitions: round robin.

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

    def derived(self, given: Schema) -> object:
        """The columns that the function makes of an empty frame. Raises SchemaError."""
        columns = columns_of(given)
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

    def setup(self, context: OperatorContext) -> None:
        """See whether rows can be followed through the function."""
        self._keeps_rows = keeps_rows(self.function, self.input.schema.arrow)

    @input.process_batch
    def apply(self, batch: pa.RecordBatch) -> None:
        """Emit what the function makes of a batch."""
        frame, columns = frame_of(batch), batch.schema
        followed = self.output.inherits and self._keeps_rows
        if followed:
            frame = frame.with_columns(imported().Series(_ROW, np.arange(len(batch), dtype=np.uint32)))
        made = _applied(self.function, frame, columns, checks=False)
        rows = made.drop_in_place(_ROW).to_numpy() if followed else None
        arrays = [array_of(made[name]) for name in made.columns]
        self.output.emit_batch(pa.RecordBatch.from_arrays(arrays, made.columns), rows=rows)


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


def keeps_rows(function: Function, columns: pa.Schema) -> bool:
    """True if a column with the row's number would come through a function unchanged, and change nothing."""
    polars = imported()
    empty = frame_of(columns.empty_table())
    numbered = empty.with_columns(polars.Series(_ROW, [], dtype=polars.UInt32))
    try:
        query: Any = function(numbered.lazy())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is only read here, by the same version that wrote it
            plan = json.loads(query.serialize(format="json"))
        plain = dict(function(empty.lazy()).lazy().collect_schema())
        found = dict(query.collect_schema())
    except BaseException as error:  # noqa: BLE001  what it cannot be asked, it cannot follow
        refuse_other(error)
        return False
    return found == {**plain, _ROW: polars.UInt32} and all(map(_is_by_row, _steps(plan)))


def _steps(plan: Any) -> Iterator[dict[str, Any]]:
    """The nodes of a query, the last first."""
    while isinstance(plan, dict):
        yield plan
        ((_, part),) = plan.items()
        plan = part.get("input") if isinstance(part, dict) else None


def _is_by_row(step: dict[str, Any]) -> bool:
    """True if a node gives each row of its result the number of the row that it came from."""
    ((kind, part),) = step.items()
    if kind == "MapFunction":
        return any(name in _MAPPED for name in part["function"])
    if kind not in _BY_ROW:
        return False
    if kind in ("HStack", "Select"):
        return all(map(_is_plain, part["exprs" if kind == "HStack" else "expr"]))
    return kind != "Filter" or _is_plain(part["predicate"])


def _is_plain(node: Any, *, top: bool = True) -> bool:
    """True if an expression does nothing to the column with the row's number but pass it on."""
    if isinstance(node, list):
        return all(_is_plain(part, top=False) for part in node)
    if not isinstance(node, dict):
        return node != _ROW
    if "Selector" in node:
        return top or ("Wildcard" not in str(node) and "Difference" not in str(node))
    if "Function" in node and node["Function"]["function"] in _TRANSPARENT:
        return all(_is_plain(one) for one in node["Function"]["input"])
    if "AnonymousFunction" in node:
        return _is_plain(node["AnonymousFunction"]["input"], top=False)
    return all(kind == "Literal" or _is_plain(part, top=False) for kind, part in node.items())

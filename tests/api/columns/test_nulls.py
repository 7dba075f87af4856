"""Nulls in what operators emit: taken where the port's type allows None, else refused; NaN stays NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ridgeline import Operator, OutputPort, SchemaError

Columns = dict[str, list[Any]]
Form = Callable[[Columns], Any]

FORMS: dict[str, Form] = {
    "RecordBatch": pa.RecordBatch.from_pydict,
    "Table": pa.table,
    "chunks": lambda columns: pa.concat_tables([pa.table(columns).slice(0, 1), pa.table(columns).slice(1)]),
    "pandas, nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas, Arrow": lambda columns: pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
}


class Strict(NamedTuple):
    number: int
    amount: float
    text: str


class Lenient(NamedTuple):
    number: int | None
    amount: float | None
    text: str | None


WHOLE: Columns = {"number": [1, 2, 3], "amount": [1.5, 2.5, 3.5], "text": ["a", "b", "c"]}
NULLABLE = pa.schema([("number", pa.int64()), ("amount", pa.float64()), ("text", pa.string())])
NOT_NULLABLE = pa.schema([field.with_nullable(False) for field in NULLABLE])


def emit_on(schema: Any) -> OutputPort[Any]:
    """An open output port `out` of this schema."""

    class Emit(Operator):
        out = OutputPort(schema)

    point = Emit().out
    point.open()
    return point


def emitted(schema: Any, batch: Any) -> list[tuple[Any, ...]]:
    """The values of the tuples of one batch, as a port of this schema emits them."""
    point = emit_on(schema)
    point.emit_batch(batch)
    rows = [row for part in point.drain() for row in part.rows]
    return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    """What makes a batch, a table or a DataFrame of columns."""
    return FORMS[request.param]


@pytest.mark.parametrize("column", WHOLE)
def test_a_null_is_refused_where_the_type_does_not_allow_none(form: Form, column: str) -> None:
    values = WHOLE[column]
    batch = form({**WHOLE, column: [values[0], None, values[2]]})
    with pytest.raises(SchemaError) as caught:
        emitted(Strict, batch)
    assert str(caught.value) == (
        f"column `{column}` of a batch emitted on `out` is null in row 1; `Strict` does not allow that; "
        f"fill it in, or declare it optional, such as `{type(values[0]).__name__} | None`"
    )
    with pytest.raises(SchemaError, match=f"`{column}` .* `pyarrow.Schema` .* or declare it nullable$"):
        emitted(NOT_NULLABLE, batch)


@pytest.mark.parametrize("schema", [Lenient, NULLABLE])
def test_none_goes_through_where_the_type_allows_it(form: Form, schema: Any) -> None:
    batch = form({"number": [1, None], "amount": [None, 2.5], "text": ["a", None]})
    assert emitted(schema, batch) == [(1, None, "a"), (None, 2.5, None)]


def test_a_stream_that_nobody_reads_is_not_checked() -> None:
    point = emit_on(Strict)
    point.connected = False
    point.emit_batch(pa.table({"text": [None]}))
    assert point.pending == 1

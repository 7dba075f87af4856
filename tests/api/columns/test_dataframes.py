"""`emit_batch` takes tables and DataFrames of every library that speaks Arrow."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ridgeline import Operator, OutputPort, SchemaError


class Pair(NamedTuple):
    key: int
    value: float


PAIRS = [Pair(1, 1.5), Pair(2, 2.5), Pair(3, 3.5)]
TABLE = pa.table({"key": [1, 2, 3], "value": [1.5, 2.5, 3.5]})


class Emit(Operator):
    out = OutputPort(Pair)


class Exported:
    """What a library that we have never heard of gives us."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def emitted(batch: Any) -> list[Any]:
    operator = Emit()
    operator.out.open()
    operator.out.emit_batch(batch)
    return [part.rows for part in operator.out.drain()]


FRAME = TABLE.to_pandas()


@pytest.mark.parametrize(
    "batch",
    [
        TABLE,
        pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
        FRAME,
        pd.concat([FRAME, FRAME])[2:5].sort_values("key"),
        FRAME.set_index("key"),
        Exported(TABLE),
    ],
    ids=["table", "chunks", "frame", "index", "named index", "exported"],
)
def test_tables_become_one_batch_of_tuples(batch):
    assert emitted(batch) == [PAIRS]


def test_categories_of_polars_are_their_values():
    frame = pl.DataFrame({"s": ["a", None, "b"]}, schema={"s": pl.Categorical})
    assert emitted_on(pa.schema([("s", pa.string())]), frame) == [{"s": "a"}, {"s": None}, {"s": "b"}]


@pytest.mark.parametrize("batch", [TABLE.slice(0, 0), FRAME[:0], pd.DataFrame()])
def test_an_empty_table_is_no_tuple(batch):
    assert emitted(batch) == []


@pytest.mark.parametrize(
    "value", [Pair(1, 1.0), {"key": [1]}, [Pair(1, 1.0)], None, pa.array([1]), pd.DataFrame, FRAME["key"]]
)
def test_what_has_no_columns_is_refused(value):
    with pytest.raises(
        SchemaError, match=r"^`out\.emit_batch` (takes a `pyarrow\.RecordBatch`, a|cannot make Arrow)"
    ):
        emitted(value)
    with pytest.raises(SchemaError, match=r"got a Pair; use `emit` for a single tuple$"):
        emitted(Pair(1, 1.0))


def test_a_frame_that_arrow_cannot_read_is_refused():
    frame = pd.DataFrame({"key": [1, "x"], "value": [1.0, 2.0]})
    with pytest.raises(
        SchemaError,
        match=r"^`out\.emit_batch` cannot make Arrow columns of the DataFrame: .*; convert its columns$",
    ):
        emitted(frame)
    with pytest.raises(
        SchemaError, match=r"a batch with columns \['day', 'key', 'value'\] was emitted; the port's schema is"
    ):
        emitted(FRAME.rename_axis("day"))
    with pytest.raises(SchemaError, match="cannot insert key, already exists"):
        emitted(FRAME.rename_axis("key"))


class Objects(NamedTuple):
    amount: Decimal | None
    ratio: float | None
    at: datetime | None
    hour: time | None
    tags: dict[str, int] | None


def test_objects_of_pandas_are_what_they_are_in_tuples():
    rows = [
        Objects(Decimal("0.1"), 0.5, datetime(2026, 1, 1, tzinfo=UTC), time(1, 2, 3, 4), {"a": 1}),
        Objects(Decimal(5), math.nan, None, None, None),
        Objects(None, None, None, None, {}),
    ]
    frame = frame_of(rows)
    found = emitted_on(Objects, frame)
    assert math.isnan(found[1].ratio or 0.0)
    assert found == rows
    categories = frame.assign(amount=pd.Series([Decimal("0.1"), Decimal(5), None]).astype("category"))
    assert emitted_on(Objects, categories)[:1] == rows[:1]
    dates = pd.DataFrame({"at": pd.Series([date(2026, 1, 1), None], dtype=object)})
    assert emitted_on(pa.schema([("at", pa.timestamp("us"))]), dates) == [
        {"at": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"at": None},
    ]


def frame_of(rows: list[Objects]) -> pd.DataFrame:
    columns = zip(Objects._fields, zip(*rows, strict=True), strict=True)
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns})


def emitted_on(schema: Any, frame: Any) -> list[Any]:
    class Emits(Operator):
        out = OutputPort(schema)

    point = Emits().out
    point.open()
    point.emit_batch(frame)
    return [row for part in point.drain() for row in part.rows]

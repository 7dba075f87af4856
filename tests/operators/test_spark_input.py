from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeline import Application
from ridgeline.api import RidgelineError, SchemaError
from ridgeline.api.columns.schema import Schema
from ridgeline.operators import SparkInput
from ridgeline.operators.spark_input import spark_type
from ridgeline.plan import find_notes, plan_application
from ridgeline.testing import CollectorSink


class Number(NamedTuple):
    value: int


@pytest.fixture
def spark(spark_context: Any) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession(spark_context)


def rate(**properties: Any) -> SparkInput:
    return SparkInput(
        format="rate-micro-batch", options={"rowsPerBatch": 10}, **{"schema": Number, **properties}
    )


def refusal(operator: SparkInput, spark: Any) -> str:
    with pytest.raises(RidgelineError) as caught:
        operator.frame(spark)
    return str(caught.value)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (
            lambda frame: frame.selectExpr("value as valu"),
            "no column `value`; did you mean `valu`.*`transform`",
        ),
        (
            lambda frame: frame.selectExpr("cast(value as string) value"),
            r"column `value` .* is string; `schema` wants bigint; cast it .*`CAST\(value AS BIGINT\)`",
        ),
        (lambda frame: 5, "`transform` .* must return a DataFrame; got int"),
        (lambda frame: frame.select("nothing"), r"check `transform`; Spark says: \[UNRESOLVED_COLUMN"),
    ],
)
def test_columns_that_do_not_fit_are_named(spark: Any, transform: Any, words: str) -> None:
    message = refusal(rate(transform=transform), spark)
    assert "`rate-micro-batch`" in message
    assert re.search(words, message)


@pytest.mark.spark
def test_a_source_that_is_none_and_a_fault_of_the_author_are_said(spark: Any) -> None:
    message = refusal(SparkInput(format="no-such-thing", schema=Number), spark)
    assert re.search("`no-such-thing` cannot be read; check `format` and `options`", message)
    with pytest.raises(ZeroDivisionError):
        rate(transform=lambda frame: 1 / 0).frame(spark)


def test_every_type_that_a_tuple_may_have_is_known_to_spark() -> None:
    from ridgeline.api.columns.schema import Schema

    class Inner(NamedTuple):
        a: int
        b: Decimal

    nested = Schema(
        NamedTuple("Outer", [("inner", Inner), ("many", list[Inner]), ("by_name", dict[str, float])])
    ).arrow
    assert [spark_type(field.type) for field in nested] == [
        "struct<a:bigint,b:decimal(38,18)>", "array<struct<a:bigint,b:decimal(38,18)>>", "map<string,double>",
    ]  # fmt: skip


@pytest.mark.spark
def test_rows_of_spark_come_out_equal_or_are_refused(spark: Any, tmp_path: Path) -> None:
    """The table of values on Spark: what a source of Parquet gives, and what the port makes of it."""
    cells: list[tuple[pa.DataType, Any, pa.DataType, bool]] = [
        (pa.int64(), 2**53 + 1, pa.int64(), True),
        (pa.int16(), 300, pa.uint8(), False),
        (pa.int16(), 200, pa.uint8(), True),
        (pa.decimal128(20, 0), Decimal(2**64 - 1), pa.uint64(), True),
        (pa.float64(), 0.5, pa.float32(), True),
        (pa.float64(), 1e300, pa.float32(), False),
        (pa.float64(), 2.0**24 + 1, pa.float32(), False),
        (pa.float32(), 0.5, pa.float16(), True),
        (pa.float32(), 1e30, pa.float16(), False),
        (
            pa.decimal128(38, 18),
            Decimal("12345678901234567890.123456789012345678"),
            pa.decimal128(38, 18),
            True,
        ),
        (pa.timestamp("us", "UTC"), datetime(1, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC"), True),
        (pa.timestamp("us", "UTC"), datetime(9999, 12, 31, tzinfo=UTC), pa.timestamp("us", "UTC"), True),
        (pa.timestamp("us", "UTC"), datetime(9999, 12, 31, tzinfo=UTC), pa.timestamp("ns", "UTC"), False),
        (pa.string(), "ä\x00", pa.string(), True),
        (pa.binary(), b"\xff", pa.binary(), True),
        (pa.list_(pa.int64()), [1, 2**53 + 1], pa.list_(pa.int64()), True),
        (pa.map_(pa.string(), pa.float64()), [("a", 0.1)], pa.map_(pa.string(), pa.float64()), True),
    ]
    source = pa.table({f"c{n}": pa.array([value], kind) for n, (kind, value, _, _) in enumerate(cells)})
    pq.write_table(source, tmp_path / "a.parquet")
    schema = pa.schema([(f"c{n}", kind) for n, (_, _, kind, _) in enumerate(cells)])
    names = {field.name: field.type for field in source.schema}
    given = SparkInput(
        format="parquet",
        options={"path": str(tmp_path)},
        schema=schema,
        source_schema=", ".join(f"{name} {spark_type(kind)}" for name, kind in names.items()),
    )
    query = (
        given.frame(spark).writeStream.format("memory").queryName("cells").trigger(availableNow=True).start()
    )
    query.awaitTermination(60)
    rows = spark.table("cells").toArrow()
    for n, (_, value, kind, fits) in enumerate(cells):
        name = f"c{n}"
        port = Schema(pa.schema([(name, kind)]))
        batch = pa.record_batch([rows.column(name).combine_chunks()], names=[name])
        if not fits:
            with pytest.raises(SchemaError, match=f"column `{name}`"):
                port.conform(batch)
            continue
        assert port.decode(port.conform(batch)) == [{name: value}]


@pytest.mark.parametrize(
    ("format", "options", "noted"),
    [
        ("json", {}, True),
        ("CSV", {"maxFilesPerTrigger": 10}, True),
        ("parquet", {"maxfilespertrigger": "1"}, False),
        ("kafka", {"subscribe": "orders"}, False),
    ],
)
def test_the_order_of_rows_of_several_files_is_noted(format: str, options: Any, noted: bool) -> None:
    app = Application("files")
    rows = app.add_operator(
        "rows", SparkInput(format=format, options=options, schema=pa.schema({"a": pa.int64()}))
    )
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("rows", rows.output, sink.input)
    plan = plan_application(app)
    texts = [note.text for note in find_notes(plan.logical, plan.physical) if note.where == "rows"]
    assert any("rows of several files in one micro-batch come in no order" in text for text in texts) == noted

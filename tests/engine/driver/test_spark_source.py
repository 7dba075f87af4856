"""Windows that are micro-batches: Spark sources alone, beside others, and gone on from."""

import json
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeline import Application, DeadLetter, OnError
from ridgeline.api.errors import RidgelineError
from ridgeline.operators import SparkInput
from support.engine.applications import Number, sink
from support.engine.on_spark import run_on_spark
from support.engine.spark_sources import (
    folder_application,
    python_beside_spark,
)

pytestmark = pytest.mark.spark


def odd_sum(count):
    return sum(range(1, count, 2))


def sums(run):
    return [tuple(row) if len(row) > 1 else row[0] for row in run.collected("store")]


def write(format, folder, name, values):
    """A file of numbers that appears at once."""
    hidden, target = folder.parent / f".{name}", folder / f"{name}.{format}"
    if format == "parquet":
        pq.write_table(pa.table({"value": values}), hidden)
    elif format == "csv":
        hidden.write_text("".join(f"{value}\n" for value in values))
    else:
        hidden.write_text("".join(f"{json.dumps({'value': value})}\n" for value in values))
    hidden.rename(target)


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_folder_to_which_files_are_added(spark_context, tmp_path, format):
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    write(format, folder, "0", range(10))

    def add_next(run, summary):
        write(
            format,
            folder,
            f"{summary.window_id + 1}",
            range(10 * summary.window_id + 10, 10 * summary.window_id + 20),
        )

    first = run_on_spark(
        folder_application(format, folder), spark_context, checkpoint, windows=2, each=add_next
    )
    second = run_on_spark(
        folder_application(format, folder), spark_context, checkpoint, windows=2, each=add_next
    )

    assert first.ids + second.ids == [0, 1, 2, 3]
    assert sums(first) + sums(second) == [sum(range(10 * window + 10)) for window in range(4)]


def test_python_input_ticks_with_spark_source(spark_context, tmp_path):
    checkpoint = tmp_path / "checkpoint"

    first = run_on_spark(python_beside_spark(), spark_context, checkpoint, windows=3)
    second = run_on_spark(python_beside_spark(), spark_context, checkpoint, windows=3)

    expected = [(sum(range(min(45, 10 * window + 10))), odd_sum(100 * window + 100)) for window in range(6)]
    assert sums(first) + sums(second) == expected


def failing_half_way(frame):
    return frame.selectExpr("IF(value = 25000, raise_error('as planned'), value) AS value")


def test_rows_that_break_off_half_way_are_not_taken_for_all(spark_context, tmp_path):
    app = Application("broken", window="1ms")
    options = {"rowsPerBatch": 30_000}
    source = SparkInput(format="rate-micro-batch", options=options, schema=Number, transform=failing_half_way)
    numbers = app.add_operator("numbers", source)
    app.add_stream("numbers", numbers.output, sink(app, "store", Number))

    run, error = run_on_spark(
        app,
        spark_context,
        tmp_path / "checkpoint",
        attributes={"numbers.recovery_attempts": "0", "store.recovery_attempts": "0"},
        expect=RidgelineError,
    )

    assert run.ids == []
    assert "as planned" in str(error)


class Sparse(NamedTuple):
    value: int | None
    text: str | None


@pytest.mark.parametrize("format", ["json", "csv"])
def test_records_that_do_not_fit_end_the_application_unless_asked_for(spark_context, tmp_path, format):
    lines = {"json": '{"value": 1, "text": "a"}\n{"value": "x", "text": "b"}\n', "csv": "1,a\nx,b\n"}[format]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"a.{format}").write_text(lines)

    def application(**options):
        app = Application("strict", window="1ms")
        given = {"path": str(tmp_path / "in"), **options}
        rows = app.add_operator("rows", SparkInput(format=format, options=given, schema=Sparse))
        app.add_stream("rows", rows.output, sink(app, "store", Sparse))
        return app

    run, error = run_on_spark(
        application(), spark_context, tmp_path / "strict", windows=1, expect=RidgelineError
    )
    assert run.ids == []
    assert f"a.{format}" in str(error)
    assert "Malformed records are detected" in str(error)
    run = run_on_spark(application(mode="PERMISSIVE"), spark_context, tmp_path / "asked", windows=1)
    assert run.collected("store") == [(1, "a"), (None, "b")]
    run = run_on_spark(application(mode="dropmalformed"), spark_context, tmp_path / "dropped", windows=1)
    assert run.collected("store") == [(1, "a")]


class Strict(NamedTuple):
    value: int
    text: str | None


@pytest.mark.parametrize("format", ["json", "csv"])
def test_records_that_do_not_fit_become_dead_letters_if_asked_for(spark_context, tmp_path, format):
    """What fits is what Python reads as a row; what does not is told with its text."""
    bad = {
        "json": ['{"value": "x", "text": "b"}', "{", '{"value": 1.5}', '{"value": 9223372036854775808}'],
        "csv": ["x,b", "1.5,c", "9223372036854775808,d", "1,2,3"],
    }[format]
    null = {"json": '{"text": "no value"}', "csv": ",no value"}[format]
    (tmp_path / "in").mkdir()
    for number in range(3):
        good = [json.dumps({"value": n, "text": "t"}) if format == "json" else f"{n},t" for n in range(20)]
        lines = [*good[:10], *bad, null, *good[10:]]
        (tmp_path / "in" / f"{number}.{format}").write_text("\n".join(lines) + "\n")

    def application(**more):
        app = Application("sifted", window="1ms")
        source = SparkInput(format=format, options={"path": str(tmp_path / "in")}, schema=Strict, **more)
        rows = app.add_operator("rows", source, partitions=2, on_error=OnError.SKIP)
        app.add_stream("rows", rows.output, sink(app, "store", Strict))
        app.add_stream("letters", rows.dead_letters, sink(app, "letters", DeadLetter))
        return app

    run = run_on_spark(application(), spark_context, tmp_path / "checkpoint", windows=1)
    assert sorted(run.collected("store")) == sorted([(n, "t") for n in range(20)] * 3)
    letters = run.collected("letters")
    told = [letter[4] for letter in letters if "is no record of `schema`" in letter[5]]
    assert sorted(told) == sorted(bad * 3)
    rest = [letter for letter in letters if "is no record of `schema`" not in letter[5]]
    assert [letter[4] for letter in rest] == ["{'value': None, 'text': 'no value'}"] * 3
    assert all("`value`" in letter[5] and letter[1] == "rows" for letter in rest)
    _, error = run_on_spark(
        application(transform=same),
        spark_context,
        tmp_path / "refused",
        windows=1,
        expect=RidgelineError,
    )
    assert "cannot leave out what does not fit (`on_error=SKIP`) and have `transform`" in str(error)


def same(frame):
    return frame

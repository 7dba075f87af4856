"""Scripts: text that is a property runs as Python, is checked before, and changes while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline import Application, OperatorError
from ridgeline.operators import Map, ScriptOperator
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local


class Row(NamedTuple):
    key: int
    text: str | None
    value: float


ROWS = [Row(number, None if number % 7 == 0 else "ab" * (number % 4), number / 3) for number in range(120)]
ITEMS = [item for row in ROWS for item in ((row, END_WINDOW) if row.key % 10 == 9 else (row,))]


def application(operator: Any, items: Any = None, schema: Any = Row, **attributes: Any) -> Application:
    app = Application("scripts")
    rows = app.read("rows", ListInput(schema, ITEMS if items is None else items))
    rows.process("script", operator, **attributes).write("sink", CollectorSink())
    return app


def results(operator: Any, **options: Any) -> list[tuple[Any, ...]]:
    rows = run_local(application(operator, **options)).collected("sink")
    return sorted(tuple(row.values()) for row in rows)


class Short(NamedTuple):
    key: int
    text: str | None


@dataclass
class ShortData:
    key: int
    text: str | None


@pytest.mark.parametrize("kind", [Short, ShortData, pa.schema([("key", pa.int64()), ("text", pa.string())])])
def test_dictionaries_become_rows_of_any_schema(kind: Any) -> None:
    text = "def process(row):\n    return {'text': row['text'], 'key': row['key']}"
    assert results(ScriptOperator(text, schema=kind)) == sorted(row[:2] for row in ROWS)


def test_batches_of_any_library() -> None:
    arrow = "def process_batch(batch):\n    return batch.slice(0, 1)"
    assert len(results(ScriptOperator(arrow))) == len(ROWS) / 10
    ones = "pl.from_arrow(b).with_columns(value=pl.lit(1.0))"
    frame = f"import polars as pl\ndef process_batch(b):\n    return {ones}"
    assert {row[2] for row in results(ScriptOperator(frame))} == {1.0}
    assert results(ScriptOperator("def process_batch(b):\n    return None")) == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("def process(row):\n    return 5", ["`process` returned 5", "return a dictionary"]),
        ("def process(row):\n    return [1]", ["`process` returned 1"]),
        ("def process(row):\n    return 'ab'", ["`process` returned 'a'"]),
        ("def process(row):\n    return {'key': 1}", ["text"]),
        ("def process(row):\n    return row | {'value': 'x'}", ["value"]),
        ("def process(row):\n    return row | {'key': None}", ["key", "null"]),
        ("def process_batch(batch):\n    return 5", ["`process_batch` returned 5"]),
        ("def process(row):\n    return row['no']", ["KeyError: 'no'"]),
        ("1 / 0\ndef process(row): pass", ["ZeroDivisionError"]),
    ],
)
def test_faults_of_a_script_that_runs(text: str, parts: list[str]) -> None:
    with pytest.raises(OperatorError) as caught:
        run_local(application(ScriptOperator(text)))
    assert all(part in str(caught.value) for part in ["`script`", *parts]), str(caught.value)


def test_an_error_shows_the_line_of_the_script() -> None:
    with pytest.raises(OperatorError) as caught:
        run_local(application(ScriptOperator("def process(row):\n    return row['nowhere'] + 17")))
    shown = caught.value.failure.traceback
    assert '"<script of script>", line 2' in shown
    assert "row['nowhere'] + 17" in shown


def test_times_stay() -> None:
    timed = pa.schema([("key", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
    items = [{"key": number, "time": datetime(2026, 1, 1, 0, 0, number, tzinfo=UTC)} for number in range(5)]
    app = Application("scripts")
    rows = app.read("rows", ListInput(timed, items, "time", lateness="2s"))
    odd = rows.script("odd", "def process(row):\n    return [row, row] if row['key'] % 2 else None")
    odd.process("same", Map(dict, schema=timed)).write("sink", CollectorSink())
    assert [row["key"] for row in run_local(app).collected("sink")] == [1, 1, 3, 3]

"""Answers as tables and pictures."""

import math

import pyarrow as pa

from ridgeline.measure import tables
from ridgeline.measure.answers.operators import RecordAgeAnswer
from ridgeline.measure.answers.windows import WindowSummaryAnswer
from ridgeline.measure.events import SourceProgress
from support.measure.story import age, begin, measured, windows


def test_latency_has_a_row_an_operator():
    table = tables.latency_table(measured(*windows(3)).latency(3.0))
    assert table.column_names[:6] == ["window_id", "operator", "id", "name", "latency_ms", "compute_ms"]
    assert table["operator"].to_pylist() == ["read", "sum", "write"]
    assert table["window_id"].to_pylist() == [2, 2, 2]
    assert table["latency_ms"].type == pa.float64()
    assert [round(value, 3) for value in table["compute_ms"].to_pylist()] == [100.0, 100.0, 100.0]


def test_record_ages_have_a_row_an_operator_and_place():
    measurement = measured(*windows(2, ages=(age("emit"), age("commit"))))
    table = tables.table_of(RecordAgeAnswer, measurement.record_age(2.0)["operators"])
    assert table.select(["operator", "at", "min_ms", "count"]).to_pylist()[0] == {
        "operator": "write",
        "at": "emit",
        "min_ms": 1000.0,
        "count": 4,
    }
    idle = tables.table_of(RecordAgeAnswer, measurement.record_age(500.0)["operators"])
    assert idle["min_ms"].null_count == 2


def test_the_last_hours_have_a_row_a_step():
    measurement = measured(*windows(3, ages=(age("emit"), age("commit"))))
    table = tables.history_table(measurement.operator_history(3.0, "write", -60.0))
    assert sum(table["windows"].to_pylist()) == 3
    assert table["at"].type == pa.timestamp("us", tz="UTC")
    assert table["greatest_age_ms"].null_count == 0
    table = tables.history_table(measurement.application_history(3.0, -60.0, 60))
    assert table["windows"].to_pylist() == [3]
    assert [one["operator"] for one in table["ages"].to_pylist()[0]] == ["write"]


def test_progress_reports_of_sources_beside_their_operators():
    measurement = measured(
        *windows(2), SourceProgress(1.6, 1, 1, 100.0, 50.0), SourceProgress(2.6, 1, 1, 150.0, 50.0), *begin(2)
    )
    table = tables.progress_table(measurement.progress(2.7))
    assert table["operator"].to_pylist() == ["read", "sum", "write"]
    assert table["backlog_records"].to_pylist() == [50.0, None, None]
    assert table["verdict"].to_pylist()[1:] == [None, None]
    assert table["remaining_basis"].to_pylist() == [
        row["remainingSeconds"]["basis"] for row in measurement.progress(2.7)["operators"]
    ]


def test_infinite_and_unknown_are_distinguished():
    row = {
        "operator": "a",
        "remainingSeconds": {"value": None, "basis": "estimated", "infinite": True},
        "inputRemaining": {"value": None, "basis": "unknown"},
    }
    [found] = tables.progress_table({"windowId": 1, "operators": [row], "sources": []}).to_pylist()
    assert found["remaining_seconds"] == math.inf
    assert found["input_remaining"] is None
    assert (found["remaining_basis"], found["input_remaining_basis"]) == ("estimated", "unknown")


def test_without_anything_the_columns_are_there():
    measurement = measured()
    for table in (
        tables.latency_table(measurement.latency(0.0)),
        tables.critical_path_table(measurement.critical_path()),
        tables.table_of(RecordAgeAnswer, measurement.record_age(0.0)["operators"]),
        tables.table_of(WindowSummaryAnswer, measurement.windows()),
    ):
        assert table.num_rows == 0
        assert table.num_columns > 5
    assert tables.progress_table(measurement.progress(0.0)).num_rows == 3

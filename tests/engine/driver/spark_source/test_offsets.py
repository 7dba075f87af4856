"""Backlog from what Structured Streaming says of offsets; the samples have the form that Spark 4.3 gives."""

import json

import pytest

from ridgeline.engine.driver.spark_source.offsets import SourceReading, distance


def read(*sources, jobs=None):
    reading = SourceReading()
    for number, source in enumerate(sources):
        reading.read(source, jobs[number] if jobs else 1)
    return reading


def kafka(start, end, latest, rows, **metrics):
    return {
        "description": "KafkaV2[Subscribe[clicks]]",
        "startOffset": start,
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": rows,
        "inputRowsPerSecond": 7.0,
        "processedRowsPerSecond": 70.0,
        "metrics": metrics,
    }


def test_kafka():
    first = kafka(None, {"clicks": {"0": 110, "1": 50}}, {"clicks": {"0": 200, "1": 60}}, 30)
    second = kafka(
        {"clicks": {"0": 110, "1": 50}},
        {"clicks": {"0": 150, "1": 60}},
        {"clicks": {"0": 210, "1": 65, "2": 4}},
        50,
    )

    assert (read(first).consumed, read(first).remaining) == (30.0, 100.0)
    assert (read(first, second).consumed, read(first, second).remaining) == (80.0, 69.0)
    assert read(first, second).remaining_bytes is None


def test_kafka_window_that_was_run_three_times_counts_once():
    """Spark counts 150 rows: each attempt read 50."""
    first = kafka(None, {"clicks": {"0": 100}}, {"clicks": {"0": 200}}, 90)
    second = kafka({"clicks": {"0": 100}}, {"clicks": {"0": 150}}, {"clicks": {"0": 200}}, 150)
    assert read(first, second, jobs=[3, 3]).consumed == 30.0 + 50.0


def test_kafka_several_topics_as_text_in_text():
    end, latest = {"a": {"0": 5}, "b": {"0": 7}}, {"a": {"0": 6}, "b": {"0": 9}}
    assert distance(json.dumps(end), json.dumps(latest)) == 3.0
    assert distance(json.dumps(json.dumps(end)), json.dumps(latest)) == 3.0
    assert distance({"a": json.dumps({"0": 5})}, {"a": {"0": "6"}}) == 1.0


def test_kafka_without_latest_offsets_but_with_its_metrics():
    metrics = {
        "avgOffsetsBehindLatest": "12.5",
        "maxOffsetsBehindLatest": "20",
        "minOffsetsBehindLatest": "5",
    }
    assert read(kafka(None, {"a": {"0": 5, "1": 6}}, None, 3, **metrics)).remaining == 25.0


def test_topic_that_was_made_again_leaves_nothing_negative():
    assert distance({"a": {"0": 500}}, {"a": {"0": 3}}) == 0.0


def test_kafka_topic_that_is_compacted():
    """Two offsets in five hold a record."""
    batches = (
        kafka(None, {"a": {"0": 0}}, {"a": {"0": 1000}}, 0),
        kafka({"a": {"0": 0}}, {"a": {"0": 100}}, {"a": {"0": 1000}}, 40),
    )
    assert read(batches[0]).remaining == 1000.0
    assert read(*batches).remaining == 360.0


def rate(start, end, latest, rows):
    description = "RateStreamV2[rowsPerSecond=50, rampUpTimeSeconds=0, numPartitions=default"
    return {
        "description": description,
        "startOffset": start,
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": rows,
    }


def test_one_number_is_records_only_once_it_was_seen_how_many():
    """The offsets of `rate` are seconds: fifty records each."""
    assert read(rate(None, 0, 0, 0)).remaining == 0.0
    assert read(rate(None, 0, 4, 0)).remaining is None
    reading = read(rate(None, 0, 0, 0), rate(0, 2, 2, 100), rate(2, 3, 10, 50))
    assert (reading.consumed, reading.remaining) == (150.0, 350.0)


def test_one_number_after_attempts():
    reading = read(rate(0, 2, 2, 100), rate(2, 3, 5, 120), jobs=[1, 3])
    assert (reading.consumed, reading.remaining) == (150.0, 100.0)
    assert read(rate(0, 2, 2, 300), jobs=[3]).consumed == 100.0


def test_sources_in_python_name_their_offsets_as_they_like():
    """Each offset is a file of four records."""
    first = {
        "startOffset": {"file": 0},
        "endOffset": {"file": 2},
        "latestOffset": {"file": 5},
        "numInputRows": 8,
    }
    assert (read(first).consumed, read(first).remaining) == (8.0, 12.0)
    first = {name: {"p": value} if isinstance(value, dict) else value for name, value in first.items()}
    assert (read(first).consumed, read(first).remaining) == (8.0, 12.0)


def test_rate_micro_batch_does_not_say_how_much_there_is():
    source = {
        "description": "RatePerMicroBatchStream[rowsPerBatch=10, numPartitions=2, startTimestamp=0]",
        "startOffset": {"offset": 10, "timestamp": 1000},
        "endOffset": {"offset": 20, "timestamp": 2000},
        "latestOffset": None,
        "numInputRows": 10,
    }
    assert (read(source).consumed, read(source).remaining) == (10.0, None)


def files(**metrics):
    start, end = {"logOffset": 0}, {"logOffset": 1}
    return {
        "description": "FileStreamSource[file:/in]",
        "startOffset": start,
        "endOffset": end,
        "numInputRows": 2,
        "metrics": metrics,
    }


@pytest.mark.parametrize(
    ("metrics", "remaining", "remaining_bytes"),
    [
        ({}, None, None),
        ({"numFilesOutstanding": "3", "numBytesOutstanding": "4096"}, None, 4096.0),
        ({"numFilesOutstanding": "0", "numBytesOutstanding": "0"}, 0.0, 0.0),
    ],
)
def test_files_are_no_records(metrics, remaining, remaining_bytes):
    reading = read(files(**metrics))
    assert (reading.consumed, reading.remaining, reading.remaining_bytes) == (2.0, remaining, remaining_bytes)


@pytest.mark.parametrize(
    "offset",
    [
        None,
        "",
        "not json",
        {},
        [],
        [1],
        True,
        "null",
        {"offset": None},
        {"version": 3, "index": 1},
        {"a": {"0": None}},
        "NaN",
    ],
)
def test_offsets_that_are_no_numbers(offset):
    assert distance(offset, {"offset": 3}) is None
    assert distance(3, offset) is None
    assert distance(offset, {"a": {"0": 3}}) is None

"""Backlog from what Structured Streaming says of offsets; the samples have the form that Spark 4.3 gives."""

import json

import pytest

from ridgeline.engine.driver.spark_source.offsets import SourceReading, distance


def read(*sources, jobs=None):
    reading = SourceReading()
    for number, source in enumerate(sources):
        reading.read(source, jobs[number] if jobs else 1)
    return reading


def of(start, end, latest, rows, **metrics):
    """What Spark says of a source, most of it of one partition of one topic."""
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


def other(*offsets_and_rows):
    return of(*offsets_and_rows) | {"description": "RateStreamV2[rowsPerSecond=50, rampUpTimeSeconds=0"}


BEHIND = {"avgOffsetsBehindLatest": "12.5", "maxOffsetsBehindLatest": "20", "minOffsetsBehindLatest": "5"}
FIRST = of(None, {"clicks": {"0": 110, "1": 50}}, {"clicks": {"0": 200, "1": 60}}, 30)
SECOND = of(FIRST["endOffset"], {"clicks": {"0": 150, "1": 60}}, {"clicks": {"0": 210, "1": 65, "2": 4}}, 50)
ONE = of(None, {"a": {"0": 100}}, {"a": {"0": 200}}, 90)
COMPACTED = of(None, {"a": {"0": 0}}, {"a": {"0": 1000}}, 0)


@pytest.mark.parametrize(
    ("jobs", "sources", "consumed", "remaining"),
    [
        ([1], [FIRST], 30.0, 100.0),
        ([1, 1], [FIRST, SECOND], 80.0, 69.0),
        # Spark counts 150 rows: each of three attempts read 50.
        ([3, 3], [ONE, of({"a": {"0": 100}}, {"a": {"0": 150}}, {"a": {"0": 200}}, 150)], 80.0, 50.0),
        ([1], [of(None, {"a": {"0": 5, "1": 6}}, None, 3, **BEHIND)], 3.0, 25.0),
        # Two offsets in five hold a record.
        ([1], [COMPACTED], 0.0, 1000.0),
        ([1, 1], [COMPACTED, of({"a": {"0": 0}}, {"a": {"0": 100}}, {"a": {"0": 1000}}, 40)], 40.0, 360.0),
        # One number is records only once it was seen how many: those of `rate` are seconds, of fifty each.
        ([1], [other(None, 0, 0, 0)], 0.0, 0.0),
        ([1], [other(None, 0, 4, 0)], 0.0, None),
        ([1, 1, 1], [other(None, 0, 0, 0), other(0, 2, 2, 100), other(2, 3, 10, 50)], 150.0, 350.0),
        ([1, 3], [other(0, 2, 2, 100), other(2, 3, 5, 120)], 150.0, 100.0),
        ([3], [other(0, 2, 2, 300)], 100.0, 0.0),
        # Sources in Python name offsets as they like: each is a file of four records.
        ([1], [other({"file": 0}, {"file": 2}, {"file": 5}, 8)], 8.0, 12.0),
        ([1], [other(*({"file": {"p": offset}} for offset in (0, 2, 5)), 8)], 8.0, 12.0),
        # Some, as `rate-micro-batch`, don't say how much there is.
        (
            [1],
            [other({"offset": 10, "at": 1000}, {"offset": 20, "at": 2000}, None, 10)],
            10.0,
            None,
        ),
    ],
)
def test_what_was_read_and_what_is_left(jobs, sources, consumed, remaining):
    found = read(*sources, jobs=jobs)
    assert (found.consumed, found.remaining, found.remaining_bytes) == (consumed, remaining, None)


@pytest.mark.parametrize(
    ("end", "latest", "expected"),
    [
        (json.dumps({"a": {"0": 5}, "b": {"0": 7}}), json.dumps({"a": {"0": 6}, "b": {"0": 9}}), 3.0),
        (json.dumps(json.dumps({"a": {"0": 5}})), json.dumps({"a": {"0": 6}}), 1.0),
        ({"a": json.dumps({"0": 5})}, {"a": {"0": "6"}}, 1.0),
        ({"a": {"0": 500}}, {"a": {"0": 3}}, 0.0),  # a topic that was made again leaves nothing negative
    ],
)
def test_distances_of_text_and_of_text_in_text(end, latest, expected):
    assert distance(end, latest) == expected


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

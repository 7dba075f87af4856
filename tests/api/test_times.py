"""Times of records: taken, split, joined and summed up as a list of pairs would be."""

from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import SchemaError
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples, concatenate
from ridgeline.api.times import (
    NO_TIME,
    Processing,
    Times,
    column_times,
    row_times,
    to_positions,
    to_times,
)

DAY = datetime(2026, 1, 1, tzinfo=UTC)
MICROSECONDS = 1_767_225_600_000_000  # of DAY, by `date -d 2026-01-01T00:00Z +%s`


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Vienna"])
@pytest.mark.parametrize(
    ("unit", "value"), [("s", 7), ("ms", 7_000), ("us", 7_000_000), ("ns", 7_000_000_999)]
)
def test_columns_of_all_units_and_zones(unit, value, zone):
    column = pa.array([value, None, -value], pa.timestamp(unit, zone))
    before = -7_000_000 if unit != "ns" else -7_000_001
    assert column_times(column).tolist() == [7_000_000, NO_TIME, before]
    assert column_times(column.slice(1)).tolist() == [NO_TIME, before]


def test_times_too_far_are_the_last_there_are():
    found = column_times(pa.array([2**62, -(2**62)], pa.timestamp("s"))).tolist()
    assert found[0] > 2**62
    assert found[1] == -found[0] != NO_TIME


def test_a_column_of_another_type_has_no_times():
    assert column_times(pa.array([1, 2])).tolist() == [NO_TIME, NO_TIME]


def test_python_times_are_utc_unless_they_say_otherwise():
    east = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert to_times([DAY, DAY.replace(tzinfo=None), east, None]).tolist() == [MICROSECONDS] * 3 + [NO_TIME]
    assert to_times([]).tolist() == []


class Event(NamedTuple):
    key: int
    time: datetime | None


def test_rows_show_their_times_as_their_batch_does():
    schema, events = Schema(Event), [Event(1, DAY), Event(2, DAY + timedelta(microseconds=5)), Event(3, None)]
    assert row_times(schema, events, "time").tolist() == [MICROSECONDS, MICROSECONDS + 5, NO_TIME]
    assert (
        row_times(Schema(schema.arrow), [event._asdict() for event in events], "time").tolist()[1]
        == MICROSECONDS + 5
    )
    assert row_times(Schema(object), [*events, "anything"], "time").tolist() == [
        MICROSECONDS,
        MICROSECONDS + 5,
        NO_TIME,
        NO_TIME,
    ]


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1))
def test_tuples_keep_their_times_whatever_becomes_of_them(keys):
    schema = Schema(Event)
    events = [Event(key, DAY + timedelta(microseconds=key)) for key in keys]
    wanted = [MICROSECONDS + key for key in keys]
    indices = np.flatnonzero(np.array(keys) % 2)
    own = Times(np.array(wanted, np.int64))
    for tuples in (
        Tuples.of_rows(schema, events, "time"),
        Tuples.of_batch(schema, schema.encode(events), "time"),
        Tuples.of_rows(schema, events, own),
        Tuples.of_batch(schema, schema.encode(events), own),
        Tuples.of_rows(schema, events, "time").read_as(Schema(object)),
        Tuples.of_batch(schema, schema.encode(events), own).read_as(Schema(schema.arrow)),
    ):
        assert tuples.timed
        assert tuples.times.newest.tolist() == wanted
        assert tuples.take(indices).times.newest.tolist() == [wanted[index] for index in indices]
        assert concatenate(tuples.schema, [tuples, tuples.take(indices)]).times.newest.tolist() == wanted + [
            wanted[i] for i in indices
        ]


@pytest.mark.parametrize(
    "rows",
    [
        [1, 3],
        np.array([1, 3], np.int32),
        pa.array([1, 3]),
        pa.chunked_array([[1], [3]]),
        np.array([False, True, False, True]),
        [False, True, False, True],
        pa.array([None, True, False, True]),
        pa.chunked_array([[None, True], [False, True]]),
    ],
)
def test_rows_are_positions_or_a_mask(rows):
    assert to_positions(rows, 2, 4, "out").tolist() == [1, 3]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (
            [1.5, 2.0],
            (
                r"says from which rows the tuples came; got float64 of shape \(2,\); "
                r"give a mask of 4 values or 2 positions"
            ),
        ),
        ([[1, 2]], r"got int64 of shape \(1, 2\)"),
        ([True, False], r"got bool of shape \(2,\); give a mask of 4 values or 2 positions"),
        ([1], "says for each tuple from which row it came; got 1 for 2 tuples; give one a tuple"),
        ([True, True, True, False], "got 3 for 2 tuples"),
        ([3, 4], "are positions in the batch of 4 being processed; got 3 to 4"),
        ([-1, 0], "got -1 to 0"),
    ],
)
def test_rows_that_make_no_sense(rows, text):
    with pytest.raises(SchemaError, match=f"^`rows` of `out.emit_batch` .*{text}"):
        to_positions(rows, 2, 4, "out")


NOW = Times(np.array([30, 10, NO_TIME, 20]), np.array([5, 10, NO_TIME, 1]))


def test_rows_mean_nothing_unless_a_batch_is_processed():
    with pytest.raises(
        SchemaError,
        match=r"positions in the batch being processed; "
        r"got them while tuples are processed; leave `rows` out$",
    ):
        Processing(lambda: NOW, 4, lambda: 3).of_batch(1, [0], "out")
    with pytest.raises(SchemaError, match="got them while no batch is processed; leave"):
        Processing(lambda: NOW).of_batch(1, [0], "out")

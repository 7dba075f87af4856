"""Ages in a window of several batches, each as of its own clock reading."""

from typing import NamedTuple

import numpy as np
import pytest

from ridgeline.api.attributes import RecordingLevel
from ridgeline.api.clock import Timeline
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.times import NO_TIME, Times
from ridgeline.engine.operator.ages import AgeMeter, places
from ridgeline.engine.operator.input import times_of
from ridgeline.testing import SteppingClock


class Item(NamedTuple):
    key: int


CLOCK = SteppingClock()
START = CLOCK.wall()


def tuples(*ages: float | None, oldest: float | None = None) -> Tuples:
    """Tuples that had these ages at the start; `oldest` went into each that has one."""
    newest = np.array([NO_TIME if age is None else round((START - age) * 1e6) for age in ages], np.int64)
    times = Times(
        newest,
        None if oldest is None else np.where(newest == NO_TIME, NO_TIME, round((START - oldest) * 1e6)),
    )
    return Tuples.of_rows(Schema(Item), [Item(0)] * len(ages), times)


def figures(sample):
    values = (sample.minimum, sample.maximum, sample.total, sample.oldest_maximum)
    return (sample.place, sample.level, sample.count, *(round(value, 6) for value in values))


@pytest.mark.parametrize(
    ("level", "source", "leaf", "stateful", "expected"),
    [
        ("OFF", True, True, True, ()),
        ("INFO", True, True, True, ("source",)),
        ("TRACE", True, True, True, ("source",)),
        ("INFO", False, True, True, ("emit", "commit")),
        ("INFO", False, False, True, ()),
        ("TRACE", False, False, True, ("state",)),
        ("TRACE", False, False, False, ()),
        ("TRACE", False, True, True, ("state", "emit", "commit")),
    ],
)
def test_where_ages_are_taken(level, source, leaf, stateful, expected):
    assert places(RecordingLevel(level), source=source, leaf=leaf, stateful=stateful) == expected


def test_each_batch_is_as_of_when_it_was_done_and_the_commit_as_of_the_end():
    clock = SteppingClock()
    meter = AgeMeter(("state", "emit", "commit"))
    meter.begin(Timeline(clock))
    clock.advance(0.5)
    meter.processed(tuples(1, 2, None))
    clock.advance(1.25)
    meter.processed(tuples(3, None, oldest=10))
    # 1 + 0.5, 2 + 0.5, 3 + 1.75; the oldest 10 + 1.75; in the end 2 s after the start
    assert [figures(sample) for sample in meter.ages(START + 2)] == [
        ("state", "TRACE", 3, 1.5, 4.75, 8.75, 11.75),
        ("emit", "INFO", 3, 1.5, 4.75, 8.75, 11.75),
        ("commit", "INFO", 3, 3, 5, 12, 12),
    ]
    assert meter.ages(START + 2) == []


def test_a_window_begun_again_forgets_what_the_attempt_before_saw():
    meter = AgeMeter(("emit",))
    meter.begin(Timeline(CLOCK))
    meter.processed(tuples(1, 2))
    meter.begin(Timeline(CLOCK))
    meter.processed(tuples(5))
    assert [figures(sample) for sample in meter.ages(START)] == [("emit", "INFO", 1, 5, 5, 5, 5)]


def test_a_source_is_read_once():
    meter = AgeMeter(("source",))
    meter.begin(Timeline(CLOCK))
    meter.emitted(times_of([tuples(1), tuples(None), tuples(2, 3)]), START + 1)
    assert [figures(sample) for sample in meter.ages(START + 9)] == [("source", "INFO", 3, 2, 4, 9, 4)]

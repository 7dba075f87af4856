"""Ages in a window of several batches, each as of its own clock reading."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from ridgeline.api.attributes import RecordingLevel
from ridgeline.api.clock import Timeline
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.times import NO_TIME, Times
from ridgeline.engine.operator.ages import EmittedAges, ProcessedAges, places
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
    return (sample.place, sample.count, *(round(value, 6) for value in values))


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


def turn(clock):
    return SimpleNamespace(timeline=Timeline(clock))


def test_each_batch_is_as_of_when_it_was_done_and_the_commit_as_of_the_end():
    clock = SteppingClock()
    ages, window = ProcessedAges(None, ("state", "emit", "commit")), turn(clock)
    ages.begin(window)
    clock.advance(0.5)
    ages.processed(window, tuples(1, 2, None))
    clock.advance(1.25)
    ages.processed(window, tuples(3, None, oldest=10))
    # 1 + 0.5, 2 + 0.5, 3 + 1.75; the oldest 10 + 1.75; in the end 2 s after the start
    assert [figures(sample) for sample in ages.ages(START + 2)] == [
        ("state", 3, 1.5, 4.75, 8.75, 11.75),
        ("emit", 3, 1.5, 4.75, 8.75, 11.75),
        ("commit", 3, 3, 5, 12, 12),
    ]
    assert ages.ages(START + 2) == []


def test_a_window_begun_again_forgets_what_the_attempt_before_saw():
    ages, window = ProcessedAges(None, ("emit",)), turn(CLOCK)
    ages.begin(window)
    ages.processed(window, tuples(1, 2))
    ages.begin(window)
    ages.processed(window, tuples(5))
    assert [figures(sample) for sample in ages.ages(START)] == [("emit", 1, 5, 5, 5, 5)]


def test_a_source_is_read_once():
    clock = SteppingClock()
    outputs = {"out": SimpleNamespace(port=SimpleNamespace(error=False))}
    ages, window = EmittedAges(SimpleNamespace(outputs=outputs, handed_on=[]), ("source",)), turn(clock)
    ages.begin(window)
    clock.advance(1)
    ages.end(window)
    ages.report(window, {"out": [tuples(1), tuples(None), tuples(2, 3)]})
    assert [figures(sample) for sample in ages.ages(START + 9)] == [("source", 3, 2, 4, 9, 4)]

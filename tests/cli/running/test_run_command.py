"""Signals end a run, and what sinks have collected is printed at its end."""

import signal
import threading
from typing import NamedTuple

import pytest

from ridgeline.api.columns.schema import Schema
from ridgeline.cli.running.run_command import Stopper, in_thread, results
from ridgeline.testing import CountSink, FirstLastSink
from ridgeline.testing.sinks import Collector
from support.waiting import PATIENCE_SECONDS


class Word(NamedTuple):
    word: str


def collector(count, a_batch=7, a_window=3):
    """A collector with words of numbers, in many batches."""
    schema = Schema(Word)
    made = Collector(schema)
    batches = [
        schema.encode([Word(str(number)) for number in range(at, min(at + a_batch, count))])
        for at in range(0, count, a_batch)
    ]
    for window in range(0, len(batches), a_window):
        made.windows[window] = batches[window : window + a_window]
    return made


def lines(publishers):
    return [str(line) for line in results(publishers)]


@pytest.mark.parametrize("count", [1, 7, 10, 11, 19, 20])
def test_few_tuples_are_printed_as_they_are(count):
    expected = [f"  Word(word='{number}')" for number in range(count)]
    plural = "tuples" if count > 1 else "tuple"
    assert lines({"sink": collector(count)}) == ["", f"sink collected {count} {plural}:", *expected]


@pytest.mark.parametrize("count", [21, 22, 100, 12345])
def test_of_many_the_first_and_the_last_are_printed(count):
    found = lines({"sink": collector(count)})
    assert found[1] == f"sink collected {count:,} tuples:"
    assert found[2:12] == [f"  Word(word='{number}')" for number in range(10)]
    assert found[12] == f"  ... {count - 20:,} more"
    assert found[13:] == [f"  Word(word='{number}')" for number in range(count - 10, count)]


def test_nothing_was_collected():
    assert lines({"sink": collector(0), "other": object()}) == ["", "sink collected 0 tuples"]


def test_many_sinks_and_long_or_hostile_values():
    made = Collector(Schema(Word))
    made.windows[0] = [Schema(Word).encode([Word("x" * 100_000), Word("\x1b[31m\nred")])]
    found = lines({str(number): made for number in range(100)})
    assert max(map(len, found)) < 1_000
    assert not any("\x1b" in line or "\n" in line for line in found)
    assert found[-1] == "and 80 sinks more"


def test_sinks_with_a_result():
    counted = CountSink().publisher()
    counted.stage(0, [2, 1])
    counted.publish(0)
    found = lines({"count": counted, "ends": FirstLastSink().publisher()})
    assert found == ["", "count: 3", "", "ends: None"]


def test_the_first_signal_sets_the_event_and_is_named():
    announced = []
    for number, name in ((signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")):
        with Stopper(lambda: announced.append(1), lambda: None) as stopper:
            in_thread(lambda number=number: signal.raise_signal(number))
            assert stopper.event.wait(PATIENCE_SECONDS)
        assert stopper.stopped_by == name
    assert len(announced) == 2


def test_a_run_that_stops_for_another_reason_is_not_killed_by_the_first_signal():
    announced = []
    with Stopper(lambda: announced.append(1), pytest.fail) as stopper:
        stopper.stop("the end of its output")
        assert stopper.event.is_set()
        signal.raise_signal(signal.SIGINT)
    assert (stopper.stopped_by, announced) == ("the end of its output", [1])


def test_a_thread_gives_its_result_or_its_error():
    assert in_thread(lambda: threading.current_thread().name) == "ridgeline-windows"
    with pytest.raises(ZeroDivisionError):
        in_thread(lambda: 1 / 0)

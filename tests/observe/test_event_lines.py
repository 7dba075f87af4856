"""The events of a run as lines of the logging channel."""

import logging
from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest

from ridgeline.measure.events import (
    ApplicationChanged,
    ApplicationEnded,
    ApplicationPlanned,
    MessagesRefused,
    SourceAsked,
    StateCompacted,
    StateWarning,
    WindowCommitted,
    WindowRetried,
)
from ridgeline.measure.slot_events import SlotEvent, SlotKind
from ridgeline.observe.event_lines import EventLines
from ridgeline.observe.watch import Watch
from support.measure.partitioned import chain

PLANNED = ApplicationPlanned(0.0, "payments", "run-1", 1, 1.0, chain("source", "balances[1]"))


@pytest.fixture
def lines():
    """The lines of some events: level, text, and the fields that were given."""

    def lines(*events):
        found = []

        class Keep(logging.Handler):
            def emit(self, record):
                fields = {
                    name: vars(record)[name]
                    for name in ("operator", "partition", "window")
                    if name in vars(record)
                }
                found.append((record.levelname, record.getMessage(), fields))
                assert vars(record)["application"] == "payments"

        keep = Keep()
        logger = logging.getLogger("ridgeline.observe.event_lines")
        logger.addHandler(keep)
        logger.setLevel(logging.DEBUG)
        try:
            subscriber = EventLines()
            for event in (PLANNED, *events):
                subscriber.apply(event)
        finally:
            logger.removeHandler(keep)
            logger.setLevel(logging.NOTSET)
        return found[1:]

    return lines


def test_what_was_repeated_or_lost_is_a_warning(lines):
    found = lines(
        WindowRetried(1.0, 7, 1, "operator `balances` failed"),
        WindowRetried(1.0, 8, 1, "", final=True),
        MessagesRefused(1.0, "unauthenticated", "10.0.0.7:4321", 3),
        StateWarning(1.0, 2, "a snapshot is broken"),
        SlotEvent(1.0, "lost", "slot 3 is lost", 3, "worker-1", 4711),
        SlotEvent(1.0, "reduced", "Spark has cores for 1 slot only", slots=1),
        SlotEvent(1.0, "speculated", "slot 2 runs it now", 0, "w1", 4, window_id=9),
        WindowCommitted(2.0, 7, 2, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5, tasks_retried=2),
    )
    assert found == [
        ("WARNING", "window 7 runs again (attempt 2): operator `balances` failed", {"window": 7}),
        ("WARNING", "3 messages to the driver were refused: unauthenticated; last from `10.0.0.7:4321`", {}),
        ("WARNING", "a snapshot is broken", {"operator": "balances[1]", "partition": 0}),
        ("WARNING", "slot 3 is lost", {}),
        ("WARNING", "Spark has cores for 1 slot only", {}),
        ("WARNING", "slot 2 runs it now", {"window": 9}),
        ("WARNING", "Spark repeated 2 tasks in window 7: their processes were lost", {"window": 7}),
        ("DEBUG", "window 7 committed in 0.500 s", {"window": 7}),
    ]


def test_what_is_normal_is_no_warning(lines):
    found = lines(
        StateCompacted(1.0, 2, 8, 4096),
        SlotEvent(1.0, "restarted", "slot 3 is there again", 3, "worker-1", 4712, 2),
        ApplicationEnded(2.0, "finished"),
        ApplicationEnded(2.0, "failed", "operator `balances` failed"),
    )
    assert [(level, text) for level, text, _ in found] == [
        ("INFO", "state compacted: 8 files into 4096 bytes"),
        ("INFO", "slot 3 is there again"),
        ("INFO", "run finished"),
        ("ERROR", "run failed: operator `balances` failed"),
    ]


def test_a_source_that_does_not_answer_is_a_line_not_one_a_second(lines):
    silent = SourceAsked(1.0, 3, 1, problem="timed out")
    answers = SourceAsked(2.0, 3, 1, taken=10.0, waiting=0.0)
    found = lines(answers, silent, silent, silent, answers, answers)
    assert [(level, text) for level, text, _ in found] == [
        ("WARNING", "the source does not answer: timed out"),
        ("INFO", "the source answers again"),
    ]


def test_a_subscriber_that_fails_is_logged_once_and_counted(caplog):
    watch = Watch(lambda: 0.0)

    def broken(event):
        raise RuntimeError

    watch.subscribe(broken)
    with caplog.at_level(logging.INFO, "ridgeline"):
        watch.observe(PLANNED)
        watch.observe(PLANNED)
    (line,) = caplog.records
    assert line.levelname == "ERROR"
    assert line.getMessage().endswith("broken` has failed and is not called any more")
    assert "RuntimeError" in caplog.text
    assert watch.scrape().subscribers_dropped == 1


def test_what_is_logged_is_counted():
    watch = Watch(lambda: 0.0)
    for event in (
        PLANNED,
        StateCompacted(1.0, 2, 8, 4096),
        StateWarning(1.0, 2, "x"),
        StateWarning(1.0, 2, "y"),
        *(SlotEvent(3.0, kind, "") for kind in get_args(SlotKind)),
        SlotEvent(4.0, "lost", "", 0, "worker-1", 2),
    ):
        watch.observe(event)
    scrape = watch.scrape()
    assert (scrape.counts.kinds[StateCompacted], scrape.counts.kinds[StateWarning]) == (1, 2)
    assert scrape.counts.slots == Counter({**dict.fromkeys(get_args(SlotKind), 1), "lost": 2})


def test_changes_are_lines(lines):
    asked = ApplicationChanged(1.0, 3, "ann", "more\nload", "repartition `balances` to 4", "QUEUED")
    edits = ({"do": "repartition", "operator": "balances", "partitions": 4},)
    found = lines(
        asked,
        replace(asked, reason="waits for window 120"),
        replace(PLANNED, plan_version=2),
        replace(asked, state="APPLIED", window_id=120, plan_version=2, edits=edits, held_seconds=0.21),
        replace(asked, number=4, state="REFUSED", note="", reason="there is no operator `balances`"),
    )
    what = "repartition `balances` to 4, asked for by ann"
    effect = "has effect from window 120 on, with plan 2; 210 ms after the window before it"
    assert found == [
        ("INFO", f"change 3 waits: {what} (more load)", {}),
        ("INFO", f"change 3 waits: waits for window 120: {what} (more load)", {}),
        ("INFO", "the plan has changed: 2 operators, plan 2", {}),
        ("INFO", f"change 3 {effect}: {what} (more load)", {"window": 120}),
        ("WARNING", f"change 4 is refused: there is no operator `balances`: {what}", {}),
    ]

"""Timers, the end of the input and keys that live for a time: in slots that are killed, and on Spark."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort, Timers
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.engine.on_spark import run_on_spark
from support.engine.slot_platform import KillsInTurn, run_in_processes

START = datetime(2026, 1, 1, tzinfo=UTC)


class Event(NamedTuple):
    key: int
    time: datetime


class SlotMessage(NamedTuple):
    what: str
    key: int
    when: datetime
    known: int


class Watch(Operator):
    """Timers of both kinds; `known` counts what came of a key, for six seconds since the last."""

    events = InputPort(Event, key="key")
    said = OutputPort(SlotMessage)
    silence = Timers(key=int, by="record")
    soon = Timers(key=int, by="clock")
    known = KeyedState(int, key=int, default=0, ttl="6s", ttl_by="record")

    @events.process
    def take(self, event: Event) -> None:
        self.known[event.key] += 1
        self.silence.set(event.key, event.time + timedelta(seconds=event.key % 9))
        if event.key not in self.soon:
            self.soon.set(event.key, self.context.window_time + timedelta(milliseconds=event.key))

    @silence.expired
    def quiet(self, key: int, when: datetime) -> None:
        self.said.emit(SlotMessage("silence", key, when, self.known.get(key, 0)))

    @soon.expired
    def later(self, key: int, when: datetime) -> None:
        assert when <= self.context.window_time
        self.said.emit(SlotMessage("soon", key, when, 0))

    def end_of_input(self) -> None:
        self.said.emit(SlotMessage("end", self.context.partition, START, len(self.known)))


def watching(windows: int) -> Application:
    items: list[Any] = []
    for second in range(windows):
        items += [
            Event((second * 7 + number * 5) % 20, START + timedelta(seconds=second)) for number in range(4)
        ]
        items.append(END_WINDOW)
    app = Application("watching", window="0s")
    source = ListInput(Event, items, timestamp="time", lateness=0)
    events = app.add_operator("source", source, partitions=2)
    watch = app.add_operator("watch", Watch(), partitions=3)
    sink = app.add_operator("sink", CollectorSink(SlotMessage))
    app.add_stream("events", events.output, watch.events)
    app.add_stream("said", watch.said, sink.input)
    return app


def by_record(run: Any) -> list[list[SlotMessage]]:
    """What does not depend on the clock, by window, whatever the order of partitions."""
    said = [sorted(run.collected("sink", window)) for window in range(max(run.ids) + 1)]
    return [[one for one in window if one.what != "soon"] for window in said]


def check(run: Any, windows: int) -> None:
    local = run_local(watching(windows))
    local.ids = local.window_ids  # type: ignore[attr-defined]
    assert by_record(run) == by_record(local)
    ends = [one for window in by_record(run) for one in window if one.what == "end"]
    assert sorted(one.key for one in ends) == [0, 1, 2]
    soon = Counter((one.key, one.when) for one in run.collected("sink") if one.what == "soon")
    assert soon
    assert set(soon.values()) == {1}


def test_killed_slots_lose_and_repeat_no_timer(tmp_path):
    kills = KillsInTurn(2, 9, 21)

    run = run_in_processes(watching(40), tmp_path / "checkpoint", places=3, each=kills)
    assert kills.pids
    check(run, 40)


@pytest.mark.spark
def test_the_same_timers_expire_on_spark(spark_context, tmp_path):
    check(run_on_spark(watching(8), spark_context, tmp_path / "checkpoint"), 8)

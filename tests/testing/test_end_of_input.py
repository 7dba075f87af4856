"""`end_of_input`: once for each partition, when the last of its inputs has finished; over kills."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, InputPort, Operator, OutputPort, State, Timers
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, LocalRun, run_local

START = datetime(2026, 1, 1, tzinfo=UTC)


class Event(NamedTuple):
    key: int
    time: datetime


class Said(NamedTuple):
    what: str
    partition: int


class Speak(Operator):
    """Say what is called."""

    first = InputPort(Event, key="key")
    second = InputPort(Event, key="key", optional=True)
    said = OutputPort(Said)
    alarm = Timers(key=int, by="record")
    seen = State(0)

    @first.process
    @second.process
    def take(self, event: Event) -> None:
        self.seen += 1
        self.alarm.set(event.key, event.time + timedelta(hours=1))

    @alarm.expired
    def ring(self, key: int, when: datetime) -> None:
        self.say(f"timer {key}")

    def end_of_input(self) -> None:
        self.say(f"end after {self.seen}")

    def end_window(self) -> None:
        self.say("end_window")

    def say(self, what: str) -> None:
        self.said.emit(Said(what, self.context.partition))


class Relay(Operator):
    """Another container between, without timers."""

    data = InputPort(Event)
    out = OutputPort(Event)

    @data.process
    def take(self, event: Event) -> None:
        self.out.emit(event)


def event(key: int) -> Event:
    return Event(key, START + timedelta(seconds=key))


def speaking(
    first: list[Any], second: list[Any] | None = None, partitions: int = 1, **attributes: Any
) -> Application:
    app = Application("speaking")
    speak = app.add_operator("speak", Speak(), partitions=partitions, **attributes)
    relay = app.add_operator("relay", Relay(), partitions=2)
    for name, items, port in (("one", first, relay.data), ("two", second, speak.second)):
        if items is not None:
            source = ListInput(Event, items, timestamp="time", lateness=0)
            app.add_stream(name, app.add_operator(f"source_{name}", source).output, port)
    sink = app.add_operator("sink", CollectorSink(Said))
    app.add_stream("relayed", relay.out, speak.first)
    app.add_stream("said", speak.said, sink.input)
    return app


def said(run: LocalRun) -> dict[int, list[str]]:
    return {window: [one.what for one in run.collected("sink", window)] for window in run.window_ids}


LAST = ["timer 1", "timer 2", "end after 2", "end_window"]


@pytest.mark.parametrize("interleave", [None, 1])
@pytest.mark.parametrize(
    "items", [[event(1), END_WINDOW, event(2)], [event(1), ABORT, END_WINDOW, event(2), ABORT]]
)
def test_it_comes_after_the_timers_and_before_end_window(items: list[Any], interleave: int | None) -> None:
    assert said(run_local(speaking(items), interleave=interleave)) == {0: ["end_window"], 1: LAST}

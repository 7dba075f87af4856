"""`end_of_input`: once for each partition, when the last of its inputs has finished; over kills."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, InputPort, Operator, OutputPort, State, Timers
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.testing import ABORT, END_WINDOW, EOF, CollectorSink, ListInput, LocalRun, run_local

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


def test_each_partition_gets_it_once() -> None:
    run = run_local(speaking([event(1), END_WINDOW, event(2), event(3)], partitions=3))
    last = run.collected("sink", 1)
    assert sorted(one.partition for one in last if one.what.startswith("end after")) == [0, 1, 2]
    assert not any(one.what.startswith("end after") for one in run.collected("sink", 0))


def test_of_several_inputs_the_last_one_counts() -> None:
    first = [event(1), EOF]
    second = [event(2), END_WINDOW, END_WINDOW, END_WINDOW, EOF]
    run = run_local(speaking(first, second))
    assert said(run) == {0: ["end_window"], 1: ["end_window"], 2: ["end_window"], 3: LAST}


def test_an_operator_whose_inputs_end_earlier_gets_it_then() -> None:
    app = speaking([event(1), END_WINDOW, event(2), EOF])
    other = app.add_operator("other", ListInput(Event, [END_WINDOW] * 4 + [EOF]))
    drain = app.add_operator("drain", CollectorSink(Event))
    app.add_stream("other", other.output, drain.input)
    storage = MemoryStorage()
    found = said(run_local(app, windows=3, checkpoint=storage))
    assert found == {0: ["end_window"], 1: LAST, 2: ["end_window"]}
    assert said(run_local(app, checkpoint=storage)) == {3: ["end_window"], 4: ["end_window"]}


def test_a_run_that_is_stopped_has_not_ended_and_goes_on() -> None:
    items, storage = [event(1), END_WINDOW, event(2)], MemoryStorage()
    assert said(run_local(speaking(items), windows=1, checkpoint=storage)) == {0: ["end_window"]}
    assert said(run_local(speaking(items), checkpoint=storage)) == {1: LAST}
    assert said(run_local(speaking(items), checkpoint=storage)) == {}


def test_an_open_application_window_ends_with_it() -> None:
    run = run_local(speaking([event(1), END_WINDOW, event(2)], application_window_count=5))
    assert said(run) == {0: [], 1: LAST}

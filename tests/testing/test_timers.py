"""Timers in process: beside a naive model over kills, restarts and partitions; by hand; and their faults."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Operator,
    OperatorError,
    OutputPort,
    StateError,
    Timers,
    ValidationError,
)
from ridgeline.api.times import LATEST
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.engine.state import keyed_segments
from ridgeline.testing import ABORT, END_WINDOW, EOF, CollectorSink, ListInput, SteppingClock, run_local
from support.depth import deep
from support.rows import in_a_row

START = datetime(2026, 1, 1, tzinfo=UTC)
LATENESS = 3


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


class Event(NamedTuple):
    key: int
    delay: float | None
    """Set both timers of the key so much later; None: delete them."""
    time: datetime


class Fired(NamedTuple):
    by: str
    key: int
    when: datetime
    partition: int


TIMES: dict[int, set[datetime]] = defaultdict(set)
"""What the operators' partitions, in all attempts, saw as the time of each window."""


class Alarms(Operator):
    """Timers by record and by clock; the ones of every third key are set again once."""

    events = InputPort(Event, key="key")
    fired = OutputPort(Fired)
    record = Timers(key=int, by="record")
    clock = Timers(key=int, by="clock")

    @events.process
    def take(self, event: Event) -> None:
        TIMES[self.context.window_id].add(self.context.window_time)
        if event.delay is None:
            self.record.delete(event.key)
            self.clock.delete(event.key)
            assert self.record.get(event.key) is None
            return
        delay = timedelta(seconds=event.delay)
        self.record.set(event.key, event.time + delay)
        self.clock.set(event.key, self.context.window_time + delay)
        assert self.record.get(event.key) == event.time + delay
        assert event.key in self.clock

    @record.expired
    def by_record(self, key: int, when: datetime) -> None:
        assert when <= self.context.watermark
        self.fire("record", key, when)
        if key % 3 == 0 and when.microsecond == 0:
            self.record.set(key, when + timedelta(seconds=2, microseconds=1))

    @clock.expired
    def by_clock(self, key: int, when: datetime) -> None:
        assert when <= self.context.window_time
        self.fire("clock", key, when)

    def fire(self, by: str, key: int, when: datetime) -> None:
        self.fired.emit(Fired(by, key, when, self.context.partition))

    def end_window(self) -> None:
        TIMES[self.context.window_id].add(self.context.window_time)


def alarms(windows: list[list[Event]], kills: set[int], partitions: int, **attributes: Any) -> Application:
    app = Application("alarms", window="1s")
    items: list[Any] = []
    for number, events in enumerate(windows):
        items += [*events, *([ABORT] if number in kills else []), END_WINDOW]
    source = ListInput(Event, [*items[:-1], EOF], timestamp="time", lateness=LATENESS)
    events = app.add_operator("source", source)
    step = app.add_operator("alarms", Alarms(), partitions=partitions, **attributes)
    sink = app.add_operator("sink", CollectorSink(Fired))
    app.add_stream("events", events.output, step.events)
    app.add_stream("fired", step.fired, sink.input)
    return app


def naive(windows: list[list[Event]], times: list[datetime]) -> list[list[tuple[str, int, datetime]]]:
    """What expires in each window: everything that is held is looked at for each timer."""
    held: dict[str, dict[int, tuple[datetime, int]]] = {"record": {}, "clock": {}}
    newest, number, found = None, 0, []
    for window, events in enumerate(windows):
        for event in events:
            newest = event.time if newest is None else max(newest, event.time)
            number += 1
            for by, now in (("record", event.time), ("clock", times[window])):
                if event.delay is None:
                    held[by].pop(event.key, None)
                else:
                    held[by][event.key] = now + timedelta(seconds=event.delay), number
        last = window == len(windows) - 1
        watermark = (
            datetime.max.replace(tzinfo=UTC) if last else newest and newest - timedelta(seconds=LATENESS)
        )
        expired = []
        for by, now in (("record", watermark), ("clock", times[window])):
            while now is not None and held[by]:
                (when, _), key = min((value, key) for key, value in held[by].items())
                if when > now:
                    break
                del held[by][key]
                expired.append((by, key, when))
                if by == "record" and key % 3 == 0 and when.microsecond == 0:
                    number += 1
                    held[by][key] = when + timedelta(seconds=2, microseconds=1), number
        found.append(expired)
    return found


EVENTS = st.builds(
    lambda key, delay, second: Event(key, delay, at(second)),
    st.integers(0, 7),
    st.one_of(st.none(), st.integers(-3, 12).map(float)),
    st.integers(0, 20),
)


@settings(max_examples=deep(8), deadline=None)
@given(
    windows=st.lists(st.lists(EVENTS, max_size=6), min_size=1, max_size=9),
    kills=st.sets(st.integers(0, 8), max_size=3),
    partitions=st.integers(1, 3),
    stops=st.lists(st.integers(1, 4), max_size=3),
    interleave=st.one_of(st.none(), st.integers(0, 5)),
    interval=st.sampled_from([1, 3, 256]),
    segments=st.booleans(),
)
def test_timers_expire_as_a_naive_model_says(
    windows: list[list[Event]],
    kills: set[int],
    partitions: int,
    stops: list[int],
    interleave: int | None,
    interval: int,
    segments: bool,
) -> None:
    TIMES.clear()
    storage, clock = MemoryStorage(), SteppingClock()
    got: list[list[Fired]] = []
    for count in [*stops, None]:
        app = alarms(windows, kills, partitions)
        with pytest.MonkeyPatch.context() as patch:
            if segments:  # states of a few keys as those of many
                patch.setattr(keyed_segments, "SEGMENT_KEYS", 2)
            run = run_local(
                app,
                windows=count,
                checkpoint=storage,
                clock=clock,
                interleave=interleave,
                attributes={"snapshot_interval": str(interval)},
            )
        got += [run.collected("sink", window) for window in run.window_ids]
        clock.advance(1)
        if len(got) == len(windows):
            break
    assert len(got) == len(windows)
    times = [max(TIMES[window]) for window in range(len(windows))]
    assert all(len(TIMES[window]) == 1 for window in range(len(windows)) if not stops)
    for expected, fired in zip(naive(windows, times), got, strict=True):
        assert sorted((one.by, one.key, one.when) for one in fired) == sorted(expected)
        for partition in range(partitions):
            of_it = [(one.by, one.key, one.when) for one in fired if one.partition == partition]
            keys = {key for _, key, _ in of_it}
            assert of_it == [one for one in expected if one[1] in keys]


# Faults -----------------------------------------------------------------------------------------------------


class Lonely(Operator):
    events = InputPort(Event)
    alarm = Timers(key=int, by="clock")


class Short(Operator):
    events = InputPort(Event)
    alarm = Timers(key=int, by="clock")

    @alarm.expired
    def ring(self, key: int) -> None: ...


class Ring(Operator):
    """By record time; `what` happens with each event."""

    events = InputPort(Event)
    fired = OutputPort(Fired, optional=True)
    alarm = Timers(key=int, by="record")
    what: str = ""

    @events.process
    def take(self, event: Event) -> None:
        key: Any = {"text": "one", "list": []}.get(self.what, event.key)
        self.alarm.set(key, 3.5 if self.what == "number" else event.time)  # type: ignore[arg-type]

    @alarm.expired
    def ring(self, key: int, when: datetime) -> None:
        if self.what == "raise":
            raise ValueError("no bell")
        if self.what == "forever":
            self.alarm.set(key, when + timedelta(seconds=1))


class Ended(InputOperator):
    out = OutputPort(Event)
    alarm = Timers(by="record")

    def emit_tuples(self) -> None:
        self.finish()

    @alarm.expired
    def ring(self, key: int, when: datetime) -> None: ...

    def end_of_input(self) -> None: ...


def ringing(step: Any, lateness: float | None = 0.0) -> Application:
    app = Application("ringing")
    events = [Event(1, None, at(1)), END_WINDOW, Event(2, None, at(2))]
    source = app.add_operator("source", ListInput(Event, events, timestamp="time", lateness=lateness))
    app.add_operator("step", step)
    app.add_stream("events", source.output, step.events)
    return app


@pytest.mark.parametrize(
    ("step", "lateness", "text"),
    [
        (Lonely(), 0, "nothing is called when a timer of `alarm` expires; decorate a method"),
        (Short(), 0, "but it is called with `(key, when)`; write `def ring(self, key, when)`"),
        (Ring(), None, "timers `alarm` go by record time, but no input operator upstream promises a"),
    ],
)
def test_faults_of_timers_are_found_before_the_start(step: Any, lateness: float | None, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        run_local(ringing(step, lateness))
    assert text in str(caught.value)


def test_an_input_operator_has_no_record_time_and_no_end_of_input() -> None:
    app = in_a_row(Application("ended"), source=Ended(), sink=CollectorSink(Event))
    with pytest.raises(ValidationError) as caught:
        run_local(app)
    assert "timers `alarm` go by record time, but an input operator gets no records" in str(caught.value)
    assert "`Ended` overrides `end_of_input`, which is not called of an input operator" in str(caught.value)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("text", "timers `alarm` have keys of type `int`; got 'one', a `str`"),
        ("list", "timers `alarm`: the key [] has no hash"),
        ("number", "timers `alarm`: a timer is set to a time; got 3.5; give a `datetime`"),
        ("raise", "failed in window 0 in `expired of alarm, key 1`: ValueError: no"),
    ],
)
def test_what_fails_at_run_time_is_named(what: str, text: str) -> None:
    with pytest.raises(OperatorError) as caught:
        run_local(ringing(Ring(what=what)), attributes={"recovery_attempts": "0"})
    assert text in str(caught.value)


def test_a_timer_that_is_set_again_for_ever_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ridgeline.engine.operator.timers._MOST_TIMES", 50)
    with pytest.raises(OperatorError) as caught:
        run_local(ringing(Ring(what="forever")))
    assert "its timer in `alarm` was set again and expired 50 times in this window" in str(caught.value)


def test_declarations_that_cannot_be_are_refused() -> None:
    with pytest.raises(StateError, match="says which time counts"):
        Timers(key=str, by="hour")  # type: ignore[call-overload]
    with pytest.raises(StateError, match="must have a hash"):
        Timers(key=list)
    with pytest.raises(StateError, match="is the type of the keys"):
        Timers(key="user")  # type: ignore[call-overload]
    with pytest.raises(AttributeError, match="holds timers; set one by"):
        Ring().alarm = 3  # type: ignore[assignment]
    for ttl in (0, "soon", -1, timedelta(0)):
        with pytest.raises(StateError, match="the `ttl` of a state is how long a key lives"):
            KeyedState(int, ttl=ttl)


class Later(Operator):
    """Emits each event when its timer expires, with the event's own time."""

    events = InputPort(Event, key="key")
    later = OutputPort(Event, timestamp="time")
    holds: bool = True
    held = KeyedState(Event, key=int)
    due = Timers(key=int, by="record")

    def setup(self, context):
        if self.holds:
            context.oldest_held = self.oldest

    def oldest(self):
        return min((round(1e6 * one.time.timestamp()) for one in self.held.values()), default=LATEST)

    @events.process
    def take(self, event):
        self.held[event.key] = event
        self.due.set(event.key, event.time + timedelta(seconds=event.delay))

    @due.expired
    def emit(self, key, when):
        self.later.emit(self.held.pop(key))


class InTime(Operator):
    """Whether each event comes before the watermark has passed it."""

    events = InputPort(Event)
    output = OutputPort(object)

    @events.process
    def look(self, event):
        self.output.emit(event.time >= self.context.watermark)


@pytest.mark.parametrize("holds", [True, False])
def test_a_watermark_is_held_until_timers_have_emitted_what_is_old(holds):
    items = [one for second in range(60) for one in (Event(second, second % 7 + 5, at(second)), END_WINDOW)]
    source = ListInput(Event, items, timestamp="time", lateness=0)
    app = in_a_row(
        Application("later"), source=source, later=Later(holds=holds), check=InTime(), sink=CollectorSink()
    )
    found = run_local(app).collected("sink")
    assert len(found) == 60
    assert all(found) is holds

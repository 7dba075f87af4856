"""The callbacks that an operator may have besides the ports': when each is called, by tables."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    Operator,
    OperatorError,
    OutputPort,
    State,
    Timers,
)
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, LocalRun, run_local
from support.rows import in_a_row

CALLS: list[str] = []


class Calling(Operator):
    """Notes its calls, in the process of the test."""

    numbers = InputPort(object)
    out = OutputPort(object)
    pending = State(0)

    def activate(self) -> None:
        CALLS.append("activate")

    def begin_window(self, window_id: int) -> None:
        CALLS.append(f"begin {window_id}")

    @numbers.process
    def take(self, number: int) -> None:
        CALLS.append(f"take {number}")

    def handle_idle_time(self) -> None:
        assert 0 < self.context.idle_seconds <= 0.5
        CALLS.append(f"idle {self.context.window_id}")
        self.out.emit("idle")

    def end_window(self) -> None:
        CALLS.append("end")

    def before_checkpoint(self, window_id: int) -> None:
        self.pending += 1
        CALLS.append(f"before {window_id}: {self.pending}")

    def checkpointed(self, window_id: int) -> None:
        CALLS.append(f"checkpointed {window_id}: {self.pending}")

    def committed(self, window_id: int) -> None:
        CALLS.append(f"committed {window_id}")

    def deactivate(self) -> None:
        CALLS.append("deactivate")


def application(items: list[Any], operator: Operator | None = None, **attributes: Any) -> Application:
    return in_a_row(
        Application("calling", window="500ms"),
        source=ListInput(object, items),
        step=(operator or Calling(), attributes),
        sink=CollectorSink(object),
    )


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


@pytest.mark.guide("004", "Interface ActivationListener")
@pytest.mark.guide("004", "Interface CheckpointListener")
@pytest.mark.guide("004", "Interface IdleTimeHandeler")
def test_the_order_of_all_callbacks() -> None:
    run = run_local(application([1, 2, END_WINDOW, END_WINDOW, 3]))
    assert CALLS == [
        "activate",
        "begin 0", "take 1", "take 2", "end", "before 0: 1", "checkpointed 0: 1", "committed 0",
        "begin 1", "idle 1", "end", "before 1: 2", "checkpointed 1: 2", "committed 1",
        "begin 2", "take 3", "end", "before 2: 3", "checkpointed 2: 3", "committed 2",
        "deactivate",
    ]  # fmt: skip
    assert [run.collected("sink", window) for window in range(3)] == [[], ["idle"], []]


def test_within_an_application_window_each_streaming_window_is_a_checkpoint() -> None:
    run_local(application([1, END_WINDOW, END_WINDOW, 3], application_window_count=2))
    found = [call for call in CALLS if not call.startswith("c")]
    assert found[:8] == [
        "activate", "begin 0", "take 1", "before 0: 1", "idle 1", "end", "before 1: 2", "begin 2",
    ]  # fmt: skip
    assert found[-5:] == ["begin 2", "take 3", "end", "before 2: 3", "deactivate"]


@pytest.mark.parametrize("callback", ["handle_idle_time", "before_checkpoint", "checkpointed", "committed"])
def test_an_error_names_the_callback(callback: str) -> None:
    def fails(_self: Operator, *_arguments: object) -> None:
        raise ValueError("no")

    kind = type("Failing", (Calling,), {callback: fails})
    with pytest.raises(OperatorError) as raised:
        run_local(application([END_WINDOW, 1], kind()))
    failure = raised.value.failure
    assert (failure.operator, failure.window_id, failure.callback) == ("step", 0, callback)


@pytest.mark.parametrize(
    ("callback", "text"),
    [
        ("before_checkpoint", "`before_checkpoint` has emitted, when the window had ended"),
        ("checkpointed", "cannot emit outside of a window"),
    ],
)
def test_where_nothing_may_be_emitted_it_is_refused(callback: str, text: str) -> None:
    def emits(self: Calling, _window_id: int) -> None:
        self.out.emit(1)

    kind = type("Emitting", (Calling,), {callback: emits})
    with pytest.raises(OperatorError, match=text):
        run_local(application([1, END_WINDOW, 2], kind()))


def test_a_change_of_state_after_the_commit_is_refused() -> None:
    class Changing(Calling):
        def checkpointed(self, _window_id: int) -> None:
            self.pending = 0

    with pytest.raises(OperatorError, match="`pending` was changed after the window's commit"):
        run_local(application([1], Changing()))


class Pausing(InputOperator):
    """Emits in every other window, and when it is idle."""

    out = OutputPort(object)
    windows = State(0)

    def emit_tuples(self) -> None:
        self.windows += 1
        if self.windows % 2:
            self.out.emit("tuple")
        if self.windows == 4:
            self.finish()

    def handle_idle_time(self) -> None:
        self.out.emit("idle")


def test_an_input_is_idle_where_it_has_emitted_nothing_and_has_not_finished() -> None:
    app = Application("pausing", window="500ms")
    app.add_stream(
        "out", app.add_operator("in", Pausing()).out, app.add_operator("sink", CollectorSink(object)).input
    )
    run = run_local(app)
    assert [run.collected("sink", window) for window in range(4)] == [["tuple"], ["idle"], ["tuple"], []]


START = datetime(2026, 1, 1, tzinfo=UTC)


class Event(NamedTuple):
    key: int
    time: datetime


class Speak(Operator):
    """Say what is called."""

    events = InputPort(Event, key="key")
    said = OutputPort(object)
    alarm = Timers(key=int, by="record")
    seen = State(0)

    @events.process
    def take(self, event: Event) -> None:
        self.seen += 1
        self.alarm.set(event.key, event.time + timedelta(hours=1))

    @alarm.expired
    def ring(self, key: int, when: datetime) -> None:
        self.said.emit(f"timer {key}")

    def end_of_input(self) -> None:
        self.said.emit(f"end after {self.seen}")

    def end_window(self) -> None:
        self.said.emit("end_window")


def event(key: int) -> Event:
    return Event(key, START + timedelta(seconds=key))


def speaking(items: list[Any]) -> Application:
    return in_a_row(
        Application("speaking"),
        source=ListInput(Event, items, timestamp="time", lateness=0),
        speak=Speak(),
        sink=CollectorSink(object),
    )


def said(run: LocalRun) -> dict[int, list[str]]:
    return {window: run.collected("sink", window) for window in run.window_ids}


LAST = ["timer 1", "timer 2", "end after 2", "end_window"]


@pytest.mark.parametrize("interleave", [None, 1])
@pytest.mark.parametrize(
    "items", [[event(1), END_WINDOW, event(2)], [event(1), ABORT, END_WINDOW, event(2), ABORT]]
)
def test_it_comes_after_the_timers_and_before_end_window(items: list[Any], interleave: int | None) -> None:
    assert said(run_local(speaking(items), interleave=interleave)) == {0: ["end_window"], 1: LAST}

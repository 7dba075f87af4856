"""States that live for an application window, and application windows as durations: tables by hand."""

from typing import Any, NamedTuple

import pytest

from ridgeline import (
    Application,
    InputPort,
    KeyedState,
    ListState,
    Operator,
    OutputPort,
    State,
    StateError,
    ValidationError,
)
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local


class Seen(NamedTuple):
    ever: int
    count: int
    keys: str
    items: str


class Look(Operator):
    """Say in the last streaming window what came in the application window."""

    numbers = InputPort(object)
    seen = OutputPort(Seen)

    ever = State(0)
    count = State(0, scope="window")
    by_key = KeyedState(int, default=0, scope="window")
    items = ListState(int, scope="window")

    @numbers.process
    def add(self, number: int) -> None:
        self.ever += 1
        self.count += 1
        self.by_key[number % 3] += 1
        self.items.append(number)

    def end_window(self) -> None:
        keys = " ".join(f"{key}:{count}" for key, count in self.by_key.items())
        self.seen.emit(Seen(self.ever, self.count, keys, " ".join(map(str, self.items))))


def looking(windows: list[list[Any]], **attributes: Any) -> Application:
    app = Application("looking", window="500ms")
    items = [item for window in windows for item in (*window, END_WINDOW)][:-1]
    source = app.add_operator("source", ListInput(object, items))
    look = app.add_operator("look", Look(), **{"application_window": "1500ms", **attributes})
    sink = app.add_operator("sink", CollectorSink(Seen))
    app.add_stream("numbers", source.output, look.numbers)
    app.add_stream("seen", look.seen, sink.input)
    return app


def by_window(run: Any) -> dict[int, Seen]:
    return {window: seen for window in run.window_ids for seen in run.collected("sink", window)}


def test_a_lost_window_ends_the_states_of_its_application_window() -> None:
    class Fails(Look):
        @Look.numbers.process
        def add(self, number: int) -> None:
            super().add(number)
            if number == 3:
                raise ValueError("three")

    app = Application("lossy", window="500ms", processing_mode="AT_MOST_ONCE")
    items = [1, END_WINDOW, 2, END_WINDOW, 3, END_WINDOW, 4]
    source = app.add_operator("source", ListInput(object, items))
    look = app.add_operator("look", Fails(), application_window_count=3)
    sink = app.add_operator("sink", CollectorSink(Seen))
    app.add_stream("numbers", source.output, look.numbers)
    app.add_stream("seen", look.seen, sink.input)
    assert by_window(run_local(app)) == {3: Seen(3, 1, "1:1", "4")}


@pytest.mark.parametrize(
    ("window", "attributes", "fault"),
    [
        ("500ms", {}, "must be a multiple of the window, 0.5 s; got 1.2 s; give 1 s"),
        ("2s", {}, "must be a multiple of the window, 2 s; got 1.2 s; give 2 s"),
        (0, {}, "windows of the application have no width"),
        ("400ms", {"application_window_count": 3}, "leave one of them out"),
        ("1ms", {"application_window": "8000h"}, "must be at most 2147483647"),
    ],
)
def test_an_application_window_that_does_not_fit_is_a_fault(
    window: Any, attributes: dict[str, Any], fault: str
) -> None:
    app = looking([], **{"application_window": "1200ms", **attributes})
    app.window = window
    with pytest.raises(ValidationError) as error:
        run_local(app)
    assert fault in str(error.value)


def test_a_scope_that_does_not_exist_is_refused() -> None:
    with pytest.raises(StateError, match='got \'session\'; give "application" or "window"'):
        State(0, scope="session")  # type: ignore[arg-type]

"""Publishers of a run: who owns the checkpoint, what is visible, publishing between windows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from ridgeline import Application
from ridgeline.api import InputPort, Operator, Publisher
from ridgeline.api.errors import OperatorError, RidgelineError
from ridgeline.measure.events import OutputAsked
from ridgeline.testing import END_WINDOW, ListInput, SteppingClock, run_local

START = datetime(2026, 1, 1, tzinfo=UTC)


class Slow(Publisher):
    """Shows what is committed once it is so many seconds old."""

    def __init__(self, seconds: float, fails: str) -> None:
        self.seconds, self.fails = seconds, fails
        self.waiting: list[tuple[float, int]] = []
        self.shown = -1

    def open(self, context: Any, state: Any) -> None:
        self.context = context
        assert context.epoch >= 1
        context.check_owner()

    def stage(self, window_id: int, values: Any) -> None:
        pass

    def publish(self, window_id: int) -> None:
        self.waiting.append((self.context.clock.monotonic(), window_id))
        self.show()

    def idle(self) -> None:
        if self.fails:
            raise OSError(self.fails)
        self.show()

    def show(self) -> None:
        while self.waiting and self.context.clock.monotonic() >= self.waiting[0][0] + self.seconds:
            self.shown = self.waiting.pop(0)[1]

    @property
    def visible(self) -> int:
        return self.shown

    @property
    def trouble(self) -> str | None:
        return "stuck: it is slow" if self.waiting else None

    def close(self) -> None:
        if self.waiting:
            self.shown = self.waiting[-1][1]
            self.waiting.clear()


class SlowSink(Operator):
    input = InputPort(object)
    seconds: float = 0.0
    fails: str = ""

    @input.process
    def take(self, value: object) -> None:
        pass

    def publisher(self) -> Slow:
        return Slow(self.seconds, self.fails)


def application(window: str, **properties: Any) -> Application:
    app = Application("slow", window=window)
    source = app.add_operator("source", ListInput(object, [1, END_WINDOW, 2, END_WINDOW, 3, END_WINDOW, 4]))
    sink = app.add_operator("sink", SlowSink(**properties))
    app.add_stream("numbers", source.output, sink.input)
    return app


def test_what_hinders_an_output_is_an_event_until_it_is_over() -> None:
    run = run_local(application("10s", seconds=3.0), windows=2, clock=SteppingClock(START))
    asked = [event for event in run.events if isinstance(event, OutputAsked)]
    found = [(event.at - START.timestamp(), event.problem) for event in asked]
    assert found == [(0.0, "stuck: it is slow"), (3.0, ""), (10.0, "stuck: it is slow"), (10.0, "")]


def test_what_a_publisher_raises_between_windows_ends_the_run() -> None:
    with pytest.raises(OperatorError, match=r"sink.*OSError: no light"):
        run_local(application("10s", fails="no light"), windows=3)


class Shown(Publisher):
    """Keeps what was staged in itself only."""

    lines: ClassVar[list[str]] = []

    def stage(self, window_id: int, values: Any) -> None:
        self.staged = list(values)

    def publish(self, window_id: int) -> None:
        Shown.lines += self.staged
        self.staged = []


class ByWindow(Shown):
    def __init__(self) -> None:
        self.windows: dict[int, list[str]] = {}

    def stage(self, window_id: int, values: Any) -> None:
        self.windows[window_id] = list(values)

    def publish(self, window_id: int) -> None:
        Shown.lines += self.windows.pop(window_id)


class Looks(Shown):
    """Would know what is there."""

    def open(self, context: Any, state: Any) -> None:
        pass


class Refuses(Shown):
    """Fails where it publishes again."""

    def publish(self, window_id: int) -> None:
        if not hasattr(self, "staged"):
            raise OSError("the database is down")
        super().publish(window_id)


class Show(Operator):
    input = InputPort(object)
    kind: Any = Shown

    @input.process
    def show(self, line: str) -> None:
        self.context.hand_over(line)

    def publisher(self) -> Publisher:
        return self.kind()


def showing(kind: type[Publisher]) -> Application:
    app = Application("show")
    source = app.add_operator("source", ListInput(object, ["a", END_WINDOW, "b", END_WINDOW, "c"]))
    show = app.add_operator("show", Show(kind=kind))
    app.add_stream("lines", source.output, show.input)
    return app


@pytest.mark.parametrize("kind", [Shown, ByWindow])
def test_a_publisher_without_a_state_goes_on_after_restarts(kind: type[Publisher], tmp_path: Any) -> None:
    Shown.lines = []
    for windows in (1, 1, None):
        run_local(showing(kind), windows=windows, checkpoint=tmp_path)
    assert Shown.lines == ["a", "b", "c"]


@pytest.mark.parametrize("kind", [Looks, Refuses])
def test_a_publisher_that_should_know_what_to_publish_again_fails_as_it_says(
    kind: type[Publisher], tmp_path: Any
) -> None:
    run_local(showing(kind), windows=1, checkpoint=tmp_path)
    with pytest.raises(OperatorError, match=r"`show`|show"):
        run_local(showing(kind), checkpoint=tmp_path)


class Asynchronous(Shown):
    async def publish(self, window_id: int) -> None:  # type: ignore[override]
        Shown.lines += self.staged


class Yields(Shown):
    def stage(self, window_id: int, values: Any) -> Any:
        yield from values


class Numbered(Shown):
    def stage(self, window_id: int, values: Any) -> Any:
        super().stage(window_id, values)
        return {"windows": [{window_id: 1}]}


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (
            Asynchronous,
            "`publish` of the publisher of `show` is `async`, or has `yield` in it: it would never",
        ),
        (Yields, "`stage` of the publisher of `show` is `async`, or has `yield` in it: it would never run"),
        (Numbered, "in `stage`: TypeError: a dictionary in the state has the key 0, which JSON makes text"),
        (lambda: None, "it hands values over (`hand_over`), and nobody would publish them; return a `Pub"),
        (lambda: Shown, "operator `show`: its method `publisher` gave <class"),
    ],
)
def test_a_publisher_that_would_show_nothing_is_refused(kind: Any, told: str, tmp_path: Any) -> None:
    Shown.lines = []
    with pytest.raises(RidgelineError, match=re.escape(told)):
        run_local(showing(kind), checkpoint=tmp_path)
    assert Shown.lines == []

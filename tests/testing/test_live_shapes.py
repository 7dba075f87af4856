"""Changes of applications with loops, dead letters, application windows, slides and watermarks in process."""

from typing import Any, NamedTuple

import pytest

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State, Unifier
from ridgeline.api.operator import PassThroughUnifier
from ridgeline.operators import Delay
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveStream,
    Repartition,
    SetAttribute,
    SetProperty,
)
from ridgeline.testing import CollectorSink, LocalRun, run_local

COLLECTOR = {"class": "ridgeline.testing.CollectorSink"}


class Number(NamedTuple):
    key: int
    value: int


class Numbers(InputOperator):
    """In window w the numbers 10 w to 10 w + 9."""

    output = OutputPort(Number)
    windows: int = 12

    def begin_window(self, window_id: int) -> None:
        for number in range(10 * window_id, 10 * window_id + 10):
            self.output.emit(Number(number % 4, number))

    def emit_tuples(self) -> None: ...


class Refuse(Operator):
    """Raises for multiples of `divisor`."""

    input = InputPort(Number)
    output = OutputPort(Number)
    divisor: int = 7

    @input.process
    def check(self, number: Number) -> None:
        if number.value % self.divisor == 0:
            raise ValueError("not this one")
        self.output.emit(number)


class WindowSums(Operator):
    """Sums by key of an application window, and how many tuples it had in all of them."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number)

    sums = KeyedState(int, key=int, scope="window")
    counts = KeyedState(int, key=int)

    @input.process
    def add(self, number: Number) -> None:
        self.sums[number.key] = self.sums.get(number.key, 0) + number.value
        self.counts[number.key] = self.counts.get(number.key, 0) + 1

    def end_window(self) -> None:
        for key, total in self.sums.items():
            self.output.emit(Number(key, 1_000_000 * self.counts[key] + total))


class Countdown(Operator):
    """Passes numbers on until they are 0 or less, one less at each turn of the loop."""

    start = InputPort(Number)
    again = InputPort(Number)
    output = OutputPort(Number)
    done = OutputPort(Number)

    turns = State(0)

    @start.process
    def begin(self, number: Number) -> None:
        if number.value % 10 == 0:
            self.output.emit(Number(number.value, 3))

    @again.process
    def go_on(self, number: Number) -> None:
        self.turns += 1
        port = self.output if number.value > 1 else self.done
        port.emit(Number(number.key, number.value - 1))

    def end_window(self) -> None: ...


def states(run: LocalRun) -> list[tuple[str, int | None]]:
    return [(one.state, one.window) for one in run.changes]


def rows(run: LocalRun, name: str, window: int) -> list[tuple[int, ...]]:
    found = run.collected(name, window=window)
    return sorted(tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in found)


def chained(kind: type[Any], **attributes: Any) -> Application:
    app = Application("shapes", window="10ms")
    numbers = app.add_operator("numbers", Numbers())
    middle = app.add_operator("middle", kind(), **attributes)
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, middle.input)
    app.add_stream("results", middle.output, sink.input)
    return app


def test_an_operator_is_taken_out_of_the_midst_of_a_stream_and_put_back() -> None:
    changes: dict[int, list[Edit]] = {
        3: [RemoveOperator("middle"), AddSink("numbers", "sink.input")],
        6: [
            RemoveStream("numbers"),
            AddOperator("filter", {"class": f"{__name__}.Refuse", "attributes": {"on_error": "SKIP"}}),
            AddStream("numbers", "numbers.output", ("filter.input",)),
            AddStream("good", "filter.output", ("sink.input",)),
        ],
    }
    run = run_local(chained(Refuse, on_error="SKIP"), changes=changes, windows=9)
    assert states(run) == [("APPLIED", 3), ("APPLIED", 6)]
    for window in range(9):
        every = [(number % 4, number) for number in range(10 * window, 10 * window + 10)]
        skips = window < 3 or window >= 6
        assert rows(run, "sink", window) == sorted(row for row in every if not (skips and row[1] % 7 == 0))


def test_dead_letters_begin_and_end_with_the_attribute() -> None:
    app = chained(Refuse, on_error="SKIP")
    app.dead_letters(CollectorSink())
    changes: dict[int, list[Edit]] = {
        2: [
            AddOperator("more", {"class": f"{__name__}.Refuse", "properties": {"divisor": 5},
                                 "attributes": {"on_error": "SKIP"}}),
            AddOperator("more_sink", COLLECTOR),
            AddSink("numbers", "more.input"),
            AddStream("more", "more.output", ("more_sink.input",)),
        ],
        4: [AddOperator("own", COLLECTOR), AddStream("own", "middle.dead_letters", ("own.input",))],
        6: [RemoveOperator("more"), RemoveOperator("more_sink"), RemoveOperator("dead_letters")],
    }  # fmt: skip
    run = run_local(app, changes=changes, windows=8)
    assert states(run) == [("APPLIED", 2), ("APPLIED", 4), ("APPLIED", 6)]

    def letters(name: str) -> dict[int, int]:
        return {window: len(run.collected(name, window=window)) for window in range(8)}

    sevens = {window: sum(n % 7 == 0 for n in range(10 * window, 10 * window + 10)) for window in range(8)}
    of_more = {window: 2 if 2 <= window < 6 else 0 for window in range(8)}
    assert letters("dead_letters") == {
        window: (sevens[window] if window < 4 else 0) + of_more[window] for window in range(8)
    }
    assert letters("own") == {window: sevens[window] if window >= 4 else 0 for window in range(8)}


@pytest.mark.parametrize("seed", [None, 3])
def test_partitions_change_where_application_windows_end(seed: int | None) -> None:
    app = chained(WindowSums, application_window_count=3, partitions=2)
    changes: dict[int, list[Edit]] = {
        1: [Repartition("middle", 3)],
        4: [SetProperty("numbers", "windows", 99)],
        7: [SetAttribute("middle", "application_window_count", 2)],
    }
    run = run_local(app, changes=changes, windows=16, interleave=seed)
    assert states(run) == [("APPLIED", 3), ("APPLIED", 4), ("APPLIED", 12)]
    for first, last in [(0, 2), (3, 5), (6, 8), (9, 11), (12, 13), (14, 15)]:
        numbers = range(10 * first, 10 * last + 10)
        expected = [
            (
                key,
                1_000_000 * sum(n % 4 == key for n in range(10 * last + 10))
                + sum(n for n in numbers if n % 4 == key),
            )
            for key in range(4)
        ]
        assert rows(run, "sink", last) == expected
        assert rows(run, "sink", first) == ([] if first != last else expected)


def test_what_slides_refuses_other_partitions_and_goes_on() -> None:
    app = chained(Sliding, application_window_count=4, slide_by_window_count=2, partitions=2)
    changes: dict[int, list[Edit]] = {
        3: [Repartition("middle", 3)],
        5: [SetProperty("numbers", "windows", 98)],
    }
    run = run_local(app, changes=changes, windows=10)
    assert [one.state for one in run.changes] == ["REFUSED", "APPLIED"]
    assert "it slides" in run.changes[0].reason
    assert run.collected("sink") == run_local(app, windows=10).collected("sink")


class Sliding(Operator):
    """Counts by key of a slide."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number)

    counts = KeyedState(int, key=int, scope="window")

    def slider_of(self, port: str) -> type[Unifier]:
        return PassThroughUnifier

    @input.process
    def add(self, number: Number) -> None:
        self.counts[number.key] = self.counts.get(number.key, 0) + 1

    def end_window(self) -> None:
        for key, count in self.counts.items():
            self.output.emit(Number(key, count))


def loop() -> Application:
    app = Application("loop", window="10ms")
    numbers = app.add_operator("numbers", Numbers())
    step = app.add_operator("step", Countdown())
    delay = app.add_module("delay", Delay(Number))
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, step.start)
    app.add_stream("back", step.output, delay.input)
    app.add_stream("again", delay.output, step.again)
    app.add_stream("done", step.done, sink.input)
    return app


def test_a_loop_goes_on_through_changes() -> None:
    changes: dict[int, list[Edit]] = {
        2: [AddOperator("seen", COLLECTOR), AddSink("back", "seen.input")],
        3: [Repartition("delay", 2)],
        4: [SetAttribute("step", "recovery_attempts", 100)],
        6: [RemoveOperator("seen")],
        7: [AddOperator("seen", COLLECTOR), AddSink("again", "seen.input")],
    }
    run = run_local(loop(), changes=changes, windows=10)
    assert [one.state for one in run.changes] == ["APPLIED"] * 5
    for window in range(10):  # a number goes round three times, a window each
        assert rows(run, "sink", window) == ([(10 * window - 30, 0)] if window >= 3 else [])
    assert rows(run, "seen", 4) == sorted([(40, 3), (30, 2), (20, 1)])
    assert rows(run, "seen", 8) == sorted([(70, 3), (60, 2), (50, 1)])

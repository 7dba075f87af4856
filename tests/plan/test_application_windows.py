"""Application windows with partitions: unifiers follow the application window of their operator."""

from typing import Any, NamedTuple

import pytest

from ridgeline.api import Application, InputPort, Operator, OutputPort, State, Unifier
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, LocalRun, run_local


class Number(NamedTuple):
    key: int
    value: int


class Total(NamedTuple):
    count: int
    value: int


class AddTotals(Unifier):
    """One total an application window, be there tuples in it or not."""

    input = InputPort(Total)
    output = OutputPort(Total)

    def begin_window(self, window_id: int) -> None:
        self.parts: list[Total] = []

    @input.process
    def collect(self, part: Total) -> None:
        self.parts.append(part)

    def end_window(self) -> None:
        self.output.emit(
            Total(sum(part.count for part in self.parts), sum(part.value for part in self.parts))
        )


class CountAndAdd(Operator):
    """Count and sum of the application window: a part with each window's tuples, the rest at its end."""

    numbers = InputPort(Number, key="key")
    total = OutputPort(Total, unifier=AddTotals)

    early: bool = False

    count = State(0)
    value = State(0)

    @numbers.process
    def add(self, number: Number) -> None:
        if self.early:
            self.total.emit(Total(1, number.value))
        else:
            self.count += 1
            self.value += number.value

    def end_window(self) -> None:
        if not self.early:
            self.total.emit(Total(self.count, self.value))
        self.count = self.value = 0


NUMBERS = [
    [Number(1, 1), Number(2, 2)],
    [Number(3, 3)],
    [],
    [Number(4, 4), Number(1, 5)],
    [Number(5, 6)],
    [],
    [Number(2, 7)],
]


def items(windows: list[list[Number]]) -> list[Any]:
    return [item for window in windows for item in (*window, END_WINDOW)]


def totals(numbers: list[Any], partitions: int, count: int, **options: Any) -> LocalRun:
    app = Application("totals", window="1s")
    source = app.add_operator("source", ListInput(Number, numbers))
    early = options.pop("early", False)
    limit = options.pop("unifier_limit", None)
    add = app.add_operator(
        "add",
        CountAndAdd(early=early),
        partitions=partitions,
        application_window_count=count,
        unifier_limit=limit,
    )
    sink = app.add_operator("sink", CollectorSink(Total))
    app.add_stream("numbers", source.output, add.numbers)
    app.add_stream("totals", add.total, sink.input)
    return run_local(app, **options)


@pytest.mark.guide("004", "Streaming Window vs Application Window")
@pytest.mark.parametrize("count", [2, 3, 4])
def test_waiting_tuples_survive_the_death_of_containers(count: int) -> None:
    clean = totals(items(NUMBERS), 3, count, early=True)
    kills = [item for window in NUMBERS for item in (*window, ABORT, END_WINDOW)]
    killed = totals(kills, 3, count, early=True)
    assert len(killed.retries) == len(NUMBERS)
    assert killed.collected("sink") == clean.collected("sink")


class FailOnce(AddTotals):
    """Fails at the end of the first application window with tuples."""

    def end_window(self) -> None:
        if any(part.value == 1 for part in self.parts):
            raise ValueError("as asked")
        super().end_window()


class CountAndFail(CountAndAdd):
    total = OutputPort(Total, unifier=FailOnce)


def test_an_application_window_that_is_lost_leaves_nothing_to_the_next() -> None:
    app = Application("totals", window="1s")
    source = app.add_operator("source", ListInput(Number, items(NUMBERS)))
    lossy = {"application_window_count": 3, "processing_mode": "AT_MOST_ONCE"}
    add = app.add_operator("add", CountAndFail(early=True), partitions=2, **lossy)
    sink = app.add_operator("sink", CollectorSink(Total), processing_mode="AT_MOST_ONCE")
    app.add_stream("numbers", source.output, add.numbers)
    app.add_stream("totals", add.total, sink.input)
    assert run_local(app).collected("sink") == [(3, 15), (1, 7)]

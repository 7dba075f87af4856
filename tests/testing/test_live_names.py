"""What becomes of states and values when changes rename, remove and add operators, live and at a restart."""

from typing import Any, NamedTuple

import pytest

from ridgeline import (
    Application,
    CheckpointError,
    InputOperator,
    InputPort,
    KeyedState,
    Operator,
    OutputPort,
    State,
    Unifier,
)
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.plan.edits import (
    Repartition,
)
from ridgeline.testing import CollectorSink, LocalRun, run_local


class Number(NamedTuple):
    key: int
    value: int


class Numbers(InputOperator):
    """Ten numbers a window."""

    output = OutputPort(Number)
    windows: int = 12

    window = State(0)

    def emit_tuples(self) -> None:
        for number in range(10):
            self.output.emit(Number(number % 3, 1))
        self.window += 1
        if self.window == self.windows:
            self.finish()


class Sums(Operator):
    """Sums by key since its first window, `step` times."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number)
    step: int = 1

    sums = KeyedState(int, key=int)

    @input.process
    def add(self, number: Number) -> None:
        self.sums[number.key] = self.sums.get(number.key, 0) + self.step * number.value

    def end_window(self) -> None:
        for key, total in self.sums.items():
            self.output.emit(Number(key, total))


class Greatest(Unifier):
    """Keeps the greatest values for good."""

    input = InputPort(Number)
    output = OutputPort(Number)

    seen = KeyedState(int, key=int)

    @input.process
    def take(self, number: Number) -> None:
        self.seen[number.key] = max(number.value, self.seen.get(number.key, 0))

    def end_window(self) -> None:
        for key, value in self.seen.items():
            self.output.emit(Number(key, value))


class Unified(Sums):
    """Sums whose partitions a unifier merges that keeps what it has seen."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number, unifier=Greatest)

    @input.process
    def add(self, number: Number) -> None:
        self.sums[number.key] = self.sums.get(number.key, 0) + number.value


def application(*names: str, kind: type[Sums] = Sums, **attributes: Any) -> Application:
    """Numbers -> sums -> sink, for each name."""
    app = Application("names", window="10ms")
    numbers = app.add_operator("numbers", Numbers())
    chosen = [app.add_operator(name, kind(), **attributes) for name in names]
    app.add_stream("numbers", numbers.output, *(one.input for one in chosen))
    for name, one in zip(names, chosen, strict=True):
        sink = app.add_operator(f"{name}_sink", CollectorSink(Number))
        app.add_stream(f"{name}_out", one.output, sink.input)
    return app


def totals(run: LocalRun, sink: str, window: int) -> dict[int, int]:
    return {row[0]: row[1] for row in map(tuple, run.collected(sink, window=window))}


def after(windows: int, step: int = 1) -> dict[int, int]:
    """The sums of so many windows."""
    return {0: 4 * step * windows, 1: 3 * step * windows, 2: 3 * step * windows}


def test_a_unifier_that_keeps_state_for_good_refuses_other_partitions() -> None:
    app = application("a", kind=Unified, partitions=2)
    run = run_local(app, changes={3: [Repartition("a", 1)], 5: [Repartition("a", 3)]})
    assert [one.state for one in run.changes] == ["REFUSED", "APPLIED"]
    assert (
        "`a.output`: its unifier keeps `seen` for longer than an application window" in run.changes[0].reason
    )
    assert totals(run, "a_sink", 11) == after(12)


# A restart with another version of the application ----------------------------------------------------------


@pytest.mark.parametrize("name", ["aa", "a.outptu", "module.a"])
def test_a_state_that_is_to_be_dropped_and_that_nothing_has_is_a_fault(name: str) -> None:
    storage = MemoryStorage()
    run_local(application("aaa", "bbb"), windows=5, checkpoint=storage)
    with pytest.raises(CheckpointError, match=f"`{name}`: its state is to be dropped, but the checkpoint"):
        run_local(application("aaa", "bbb"), checkpoint=storage, drop_state=[name])
    with pytest.raises(CheckpointError, match=r"did you mean `aaa`\?"):
        run_local(application("aaa", "bbb"), checkpoint=storage, drop_state=["aaab"])
    for known in ("numbers", "aaa_sink", "aaa.output"):
        run_local(application("aaa", "bbb"), windows=1, checkpoint=storage, drop_state=[known])

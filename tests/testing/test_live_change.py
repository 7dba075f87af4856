"""Changes of a running application, in process: results equal those of a computation by hand."""

from typing import NamedTuple

import pytest

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.plan.edits import Repartition
from ridgeline.testing import CollectorSink, run_local


class Number(NamedTuple):
    key: int
    value: int


class Numbers(InputOperator):
    """`per_window` numbers a window, counted from 0."""

    output = OutputPort(Number)
    per_window: int = 10
    windows: int = 20

    count = State(0)
    window = State(0)

    def emit_tuples(self) -> None:
        for number in range(self.count, self.count + self.per_window):
            self.output.emit(Number(number % 7, number))
        self.count += self.per_window
        self.window += 1
        if self.window == self.windows:
            self.finish()


class Sums(Operator):
    """Running sums by key; says which instance it is."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number)
    factor: int = 1

    sums = KeyedState(int, key=int)

    @input.process
    def add(self, number: Number) -> None:
        self.sums[number.key] = self.sums.get(number.key, 0) + self.factor * number.value
        self.output.emit(Number(number.key, self.sums[number.key]))


def application(**attributes):
    app = Application("live", window="10ms")
    numbers = app.add_operator("numbers", Numbers())
    sums = app.add_operator("sums", Sums(), **attributes)
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, sums.input)
    app.add_stream("sums", sums.output, sink.input)
    return app


def by_hand(factor_of=lambda window: 1, per_window=lambda window: 10, windows=20):
    sums, found, count = {}, [], 0
    for window in range(windows):
        for number in range(count, count + per_window(window)):
            key = number % 7
            sums[key] = sums.get(key, 0) + factor_of(window) * number
            found.append(Number(key, sums[key]))
        count += per_window(window)
    return found


@pytest.mark.parametrize("counts", [(2,), (3, 1), (2, 3, 5, 1, 4)])
@pytest.mark.parametrize("seed", [None, 7])
def test_keyed_state_moves_by_key(counts, seed):
    changes = {4 + 2 * number: [Repartition("sums", count)] for number, count in enumerate(counts)}
    run = run_local(application(), changes=changes, interleave=seed)
    assert [(one.state, one.reason) for one in run.changes] == [("APPLIED", "")] * len(counts)
    assert sorted(run.collected("sink")) == sorted(by_hand())

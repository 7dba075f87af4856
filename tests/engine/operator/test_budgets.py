"""Inputs in windows that may have only so many records: what is too much waits, in order, and is not lost."""

import math
from typing import Any

import pyarrow as pa
import pytest

from ridgeline import Application, InputOperator, Operator, OutputPort, RidgelineError, State
from ridgeline.engine.state.held import Chunk, HeldCell
from ridgeline.engine.state.moving import put_held
from ridgeline.plan.protocol import Budget
from ridgeline.testing import CollectorSink
from support.engine.applications import Number
from support.engine.containers import ByHand

COUNT = 100


class Heedless(InputOperator):
    """Emits all that it has in its first two windows, as single tuples and as a batch, and finishes."""

    numbers = OutputPort(Number)
    position = State(0)

    def emit_tuples(self) -> None:
        start, stop = self.position, self.position + COUNT // 2
        for value in range(start, stop - 20):
            self.numbers.emit(Number(value))
        self.numbers.emit_batch(self.numbers.schema.encode([Number(i) for i in range(stop - 20, stop)]))
        self.position = stop
        if stop == COUNT:
            self.finish()


class Heeding(Heedless):
    """Emits what its budget has room for."""

    def emit_tuples(self) -> None:
        while self.context.budget and self.position < COUNT:
            self.numbers.emit(Number(self.position))
            self.position += 1
        if self.position == COUNT:
            self.finish()


def run_of(source: Operator, budget: Budget, schema: Any = Number) -> ByHand:
    app = Application("app")
    numbers = app.add_operator("source", source)
    sink = app.add_operator("sink", CollectorSink(schema))
    app.add_stream("numbers", numbers.numbers, sink.input)
    run = ByHand(app)
    run.budgets = {"source": budget}
    return run


def windows(run: ByHand, *, dies: bool) -> list[list[Any]]:
    found = []
    while not run.finished:
        assert len(found) <= COUNT
        run.attempt(tag="void")
        if dies:
            run.die()
        found.append(run.window(1))
    return found


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies in each window"])
@pytest.mark.parametrize("source", [Heedless, Heeding])
@pytest.mark.parametrize("most", [1, 6.4, 7, 50, 1000])
def test_a_window_has_no_more_than_its_budget_and_all_comes_once_and_in_order(source, most, dies):
    found = windows(run_of(source(), Budget(most, measured=True)), dies=dies)
    assert [number["value"] for window in found for number in window] == list(range(COUNT))
    assert max(map(len, found)) <= math.ceil(most)


def test_a_slow_start_holds_nothing_back_that_is_emitted():
    assert list(map(len, windows(run_of(Heedless(), Budget(7)), dies=False))) == [50, 50]


FLOATS = pa.schema([("value", pa.float64())])


class Decimals(Heedless):
    numbers = OutputPort(FLOATS)


def test_what_waits_is_refused_by_a_port_with_other_columns_and_says_how_far_an_input_is_that_does_not():
    run = run_of(Heedless(), Budget(7, measured=True))
    for consumed, remaining in [(7, 43), (14, None)]:
        run.keep(reports := run.attempt())
        said = run.report(reports, "source").source
        assert (said.consumed, said.remaining, said.unit) == (consumed, remaining, "tuples")
    following = run_of(Decimals(), Budget(7, measured=True), FLOATS)
    following.storage, following.states, following.window_id = run.storage, run.states, run.window_id
    following.die()
    with pytest.raises(RidgelineError, match=r"36 tuples wait .* \[value int64\]"):
        following.window()


def test_what_waits_is_bounded_after_a_change_too_and_goes_at_once_without_a_bound():
    run = run_of(Heedless(), Budget(30, measured=True))
    found = [run.window(1)]
    for budgets in ({"source": Budget(7)}, {}):
        run.budgets = budgets
        found.append(run.window(1))
    assert [number["value"] for window in found for number in window] == list(range(COUNT))
    assert list(map(len, found)) == [30, 7, 63]


def test_what_waits_in_several_partitions_is_that_of_one_after_a_repartition():
    chunks = [Chunk("numbers", pa.record_batch({"value": [n, n + 1, n + 2]}), None) for n in (0, 3, 6)]
    held = [HeldCell() for _ in range(3)]
    held[0].keep(chunks[0])
    held[0].keep(chunks[1])
    held[0].go(2)
    held[2].keep(chunks[2])
    put_held(held, into := HeldCell())
    copy = HeldCell()
    copy.apply(into.snapshot())
    assert [value for one in copy for value in one.batch["value"].to_pylist()] == [*range(2, 9)]
    assert copy.rows == 7
    assert HeldCell().snapshot() == (None,)

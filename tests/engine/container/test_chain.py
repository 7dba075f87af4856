"""Operators that hand each batch on before they take the next: the same as one after the other."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import Application, InputOperator, InputPort, Operator, OperatorError, OutputPort, State
from ridgeline.engine.container import chain as relay
from ridgeline.testing import CollectorSink, LocalRun, run_local
from support.measure.reports import operator_windows

NUMBERS = pa.schema([("number", pa.int64())])
CALLS: list[tuple[str, str, int]] = []
RELAYED: list[int] = []
_run = relay.Relay.run


@pytest.fixture(autouse=True)
def forget():
    CALLS.clear()
    RELAYED.clear()


def numbers(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=NUMBERS)


class Batches(InputOperator):
    output = OutputPort(NUMBERS)
    windows: list[list[list[int]]]

    def emit_tuples(self) -> None:
        for values in self.windows[self.context.window_id]:
            self.output.emit_batch(numbers(*values))
        if self.context.window_id + 1 == len(self.windows):
            self.finish()


class Step(Operator):
    """Adds to each number; emits a batch, or tuples one by one, or nothing until the end, by what it is."""

    data = InputPort(NUMBERS)
    output = OutputPort(NUMBERS)
    seen = State(0)
    ways: list[str]
    fails_at: int = -1

    def begin_window(self, window_id: int) -> None:
        CALLS.append((self.context.name, "begin", window_id))
        if "begin" in self.ways:
            self.output.emit_batch(numbers(-1))

    @data.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        CALLS.append((self.context.name, "batch", batch.num_rows))
        self.seen += batch.num_rows
        if 0 <= self.fails_at < self.seen:
            raise ValueError("enough")
        if "batch" in self.ways:
            self.output.emit_batch(numbers(*pc.add(batch["number"], 1).to_pylist()))
        if "tuple" in self.ways:
            self.output.emit({"number": self.seen})
        if "twice" in self.ways:
            self.output.emit_batch(batch)

    def end_window(self) -> None:
        CALLS.append((self.context.name, "end", self.seen))
        if "end" in self.ways:
            self.output.emit_batch(numbers(self.seen))


def run(monkeypatch: Any, windows: Any, steps: list[Step], rows: int) -> LocalRun:
    """Run a chain; `rows`: from how many rows a batch it hands on."""

    def noted(self: relay.Relay, *arguments: Any) -> list[relay.Ran]:
        RELAYED.append(len(self._chain.operators))
        return _run(self, *arguments)

    monkeypatch.setattr(relay, "BATCH_ROWS", rows)
    monkeypatch.setattr(relay.Relay, "run", noted)
    app = Application("chain")
    before = app.add_operator("source", Batches(windows=windows)).output
    for number, step in enumerate(steps):
        added = app.add_operator(f"step{number}", step)
        app.add_stream(f"to{number}", before, added.data)
        before = added.output
    sink = app.add_operator("sink", CollectorSink(NUMBERS))
    app.add_stream("out", before, sink.input)
    return run_local(app)


def figures(found: LocalRun) -> list[Any]:
    return [
        (event.window_id, event.operator, event.tuples_in, event.tuples_out)
        for event in operator_windows(found.events)
    ]


def by_operator() -> dict[str, list[Any]]:
    return {
        name: [call[1:] for call in CALLS if call[0] == name] for name in sorted({call[0] for call in CALLS})
    }


ways = st.lists(st.sampled_from(["begin", "batch", "tuple", "twice", "end"]), unique=True)


@settings(max_examples=12, deadline=None)
@given(
    windows=st.lists(
        st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), max_size=4), min_size=1, max_size=3
    ),
    steps=st.lists(ways, min_size=2, max_size=3),
)
def test_each_operator_sees_the_same_and_reports_the_same(windows, steps):
    seen = []
    for rows in (1_000_000, 1):
        CALLS.clear()
        RELAYED.clear()
        with pytest.MonkeyPatch.context() as patch:
            found = run(patch, windows, [Step(ways=way) for way in steps], rows)
        seen.append((by_operator(), found.collected("sink"), figures(found)))
        assert len(RELAYED) == (sum(len(batches) > 1 for batches in windows) if rows == 1 else 0)
    assert seen[0] == seen[1]


def test_batches_go_through_the_chain_one_by_one(monkeypatch):
    run(monkeypatch, [[[1, 2], [3]]], [Step(ways=["batch"]), Step(ways=["end"])], 1)
    assert RELAYED == [3], "with the sink"
    assert [call[:2] for call in CALLS] == [
        ("step0", "begin"),
        ("step1", "begin"),
        ("step0", "batch"),
        ("step1", "batch"),
        ("step0", "batch"),
        ("step1", "batch"),
        ("step0", "end"),
        ("step1", "end"),
    ]


def test_turns_are_reported_as_if_one_came_after_the_other(monkeypatch):
    found = run(monkeypatch, [[[1], [2]]], [Step(ways=["batch"]) for _ in range(3)], 1)
    turns = [(event.began, event.ended) for event in operator_windows(found.events)]
    assert RELAYED == [4], "with the sink"
    assert all(began <= ended for began, ended in turns)
    assert all(before[1] <= after[0] for before, after in pairwise(turns))


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_operator_that_fails_is_named_and_no_other(monkeypatch, failing):
    steps = [Step(ways=["batch"], fails_at=2 if number == failing else -1) for number in range(3)]
    with pytest.raises(OperatorError, match=f"step{failing}") as error:
        run(monkeypatch, [[[1], [2], [3], [4]]], steps, 1)
    assert error.value.failure.callback == "process_batch of port data"
    assert RELAYED
    ended = [name for name, what, _ in CALLS if what == "end"]
    assert not ended

"""What is emitted where, when or from where it must not be, and what is changed after it was emitted."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from ridgeline import Application, InputOperator, Operator, OperatorContext, OutputPort, State
from ridgeline.api.errors import OperatorError, RidgelineError
from ridgeline.testing import CollectorSink, run_local
from support.rows import in_a_row


class Number(NamedTuple):
    n: int


class Counting(InputOperator):
    """Emits 0, 1, 2 and finishes."""

    out = OutputPort(Number)

    position = State(0)

    def emit_tuples(self) -> None:
        self.out.emit(Number(self.position))
        self.position += 1
        if self.position == 3:
            self.finish()


def run(operator: Operator) -> list[Any]:
    app = in_a_row(Application("emissions", window="1s"), numbers=operator, sink=CollectorSink())
    return [row["n"] if isinstance(row, dict) else row[0] for row in run_local(app).collected("sink")]


def fails(operator: Operator) -> str:
    with pytest.raises(OperatorError) as caught:
        run(operator)
    assert "operator `numbers` (partition 0) of application `emissions` failed" in str(caught.value)
    return str(caught.value)


class InSetup(Counting):
    def setup(self, context: OperatorContext) -> None:
        self.out.emit(Number(-1))


class InCommitted(Counting):
    def committed(self, window_id: int) -> None:
        self.out.emit(Number(-1))


class InProgress(Counting):
    def progress(self) -> None:
        self.out.emit(Number(-1))


@pytest.mark.parametrize("kind", [InSetup, InCommitted, InProgress])
def test_emission_outside_of_a_window_is_refused(kind: type[Counting]) -> None:
    callback = kind.__name__.removeprefix("In").lower()
    text = fails(kind())
    assert (
        f"in `{callback}`: RidgelineError: `out` cannot emit outside of a window; "
        "emit in `begin_window`, `process`" in text
    )


def in_thread(function: Callable[[], None]) -> Exception | None:
    """Run it in a thread of its own until it ends; what it raised."""
    raised: list[Exception] = []

    def guarded() -> None:
        try:
            function()
        except RidgelineError as error:
            raised.append(error)

    thread = threading.Thread(target=guarded, name="pusher")
    thread.start()
    thread.join()
    return raised[0] if raised else None


STRAY = (
    "`out` was emitted to by another thread than the operator's, `pusher`; "
    "hand its tuples over, such as in a `queue.Queue`"
)


class ThreadBetween(Counting):
    """Emits from a thread when its window is over."""

    def committed(self, window_id: int) -> None:
        assert STRAY in str(in_thread(lambda: self.out.emit(Number(-1))))


class ThreadWithin(Counting):
    def emit_tuples(self) -> None:
        assert STRAY in str(in_thread(lambda: self.out.emit(Number(-1))))
        assert STRAY in str(in_thread(lambda: self.out.emit_batch(pa.RecordBatch.from_pydict({"n": [-1]}))))
        super().emit_tuples()


@pytest.mark.parametrize("kind", [ThreadBetween, ThreadWithin])
def test_emission_from_another_thread_fails_the_operator_and_not_only_the_thread(
    kind: type[Counting],
) -> None:
    assert f"in `emit`: RidgelineError: {STRAY} that `emit_tuples` empties" in fails(kind())


class ReusedArray(Counting):
    def emit_tuples(self) -> None:
        values = np.zeros(3, np.int64)
        for n in range(3):
            values[:] = n
            self.out.emit_batch(pa.RecordBatch.from_arrays([pa.array(values)], names=["n"]))
        self.finish()


class ReusedBuffer(Counting):
    out = OutputPort(Number)

    def emit_tuples(self) -> None:
        memory = bytearray(np.arange(3).tobytes())
        array = pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(memory)])
        self.out.emit_batch(pa.RecordBatch.from_arrays([array], names=["n"]))
        memory[0] = 9
        self.finish()


@pytest.mark.parametrize("kind", [ReusedArray, ReusedBuffer])
def test_an_array_that_is_changed_after_it_was_emitted_is_found(kind: type[Counting]) -> None:
    assert re.search(
        r"in `end of window`: RidgelineError: "
        r"a batch of 3 tuples was changed after `out.emit_batch`, which took its arrays over; "
        r"emit a copy \(`array.copy\(\)`\), since Arrow arrays made of numpy arrays share their memory",
        fails(kind()),
    )


class ReusedDict(Counting):
    out = OutputPort(pa.schema([("n", pa.int64())]))

    def emit_tuples(self) -> None:
        row = {}
        for n in range(3):
            row["n"] = n
            self.out.emit(row)
        self.finish()


@pytest.mark.guide("004", "Mutability of tuples")
def test_a_tuple_that_is_changed_after_it_was_emitted_is_found() -> None:
    assert (
        "a tuple was changed after `out.emit`, to which it belongs since; it is now {'n': 2}; "
        "emit a new one each time" in fails(ReusedDict())
    )

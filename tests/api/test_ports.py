from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from ridgeline import InputPort, Operator, OutputPort, RidgelineError, SchemaError
from ridgeline.api.columns.schema import Schema
from ridgeline.api.operator import operator_type
from ridgeline.api.times import NO_TIME, Processing, Times


class Pair(NamedTuple):
    key: int
    value: float


class Pass(Operator):
    pairs = InputPort(Pair, key="key")
    others = InputPort(Any, optional=True)
    out = OutputPort(Pair)
    extra = OutputPort(object, optional=True)
    errors = OutputPort(Pair, error=True, optional=False)

    @pairs.process
    def take(self, pair: Pair) -> None:
        self.out.emit(pair)

    @others.process_batch
    def take_batch(self, batch: pa.RecordBatch) -> None:
        self.out.emit_batch(batch)


def opened() -> Pass:
    operator = Pass()
    operator.out.open()
    return operator


def emitted(operator: Pass) -> list[list[Any]]:
    return [part.rows for part in operator.out.drain()]


@pytest.mark.guide("002", "Ports")
def test_the_class_reports_what_its_ports_are():
    pairs, others = operator_type(Pass).inputs.values()
    assert (pairs.name, pairs.process_name, pairs.process_batch_name) == ("pairs", "take", None)
    assert (others.optional, others.process_batch_name) == (True, "take_batch")
    assert (Pass.out.optional, Pass.out.required) == (False, False)
    assert (Pass.extra.optional, Pass.extra.required) == (True, False)
    assert (Pass.errors.error, Pass.errors.required) == (True, True)
    assert Pass.pairs.schema == Schema(Pair)


@pytest.mark.guide("004", "Interface InputPort")
def test_each_instance_has_its_own_points():
    first, second = Pass(), Pass()
    assert first.out is first.out is not second.out
    assert first.pairs.operator is first
    assert first.pairs.schema == Schema(Pair)


@pytest.mark.guide("004", "Input Port")
def test_the_declared_schema_of_an_instance_is_that_of_its_points():
    operator = Pass()
    operator.declare_schema("others", Pair)
    assert operator.others.schema == Schema(Pair)
    with pytest.raises(KeyError):
        operator.declare_schema("other", Pair)


@pytest.mark.guide("004", "Ports")
def test_a_port_cannot_be_assigned():
    with pytest.raises(AttributeError, match=r"^`Pass\.out` is a port; it cannot be assigned$"):
        Pass().out = 3


@pytest.mark.guide("004", "Class DefaultOutputPort")
def test_tuples_and_batches_keep_their_order():
    operator = opened()
    operator.out.emit(Pair(1, 1.0))
    operator.out.emit(Pair(2, 2.0))
    operator.out.emit_batch(pa.RecordBatch.from_pydict({"value": [3.0], "key": [3]}))
    operator.out.emit(Pair(4, 4.0))
    assert emitted(operator) == [[Pair(1, 1.0), Pair(2, 2.0)], [Pair(3, 3.0)], [Pair(4, 4.0)]]
    assert emitted(operator) == []


@pytest.mark.guide("004", "Interface OutputPort")
def test_a_batch_is_cast_to_the_port_s_schema():
    operator = opened()
    operator.out.emit_batch(
        pa.RecordBatch.from_pydict({"value": [1, 2], "key": pa.array([3, 4], pa.uint8())})
    )
    assert emitted(operator) == [[Pair(3, 1.0), Pair(4, 2.0)]]


def test_a_tuple_that_does_not_fit_is_reported_when_the_window_ends():
    operator = opened()
    operator.out.emit(Pair(1, "x"))
    with pytest.raises(SchemaError, match="`value` must be double; got 'x'"):
        operator.out.drain()


def test_what_a_failed_window_emitted_is_discarded():
    operator = opened()
    operator.out.emit(Pair(1, 1.0))
    operator.out.emit_batch(Schema(Pair).encode([Pair(1, 1.0)]))
    operator.out.discard()
    assert emitted(operator) == []
    with pytest.raises(RidgelineError):
        operator.out.emit(Pair(1, 1.0))


DAY = datetime(2026, 1, 1, tzinfo=UTC)
MICROSECONDS = int(DAY.timestamp()) * 1_000_000


def timed() -> Pass:
    operator = Pass()
    operator.out.timed = True
    operator.out.open()
    return operator


def times(operator: Pass) -> list[Any]:
    return [
        part.times and [None if time == NO_TIME else time for time in part.times.newest.tolist()]
        for part in operator.out.drain()
    ]


@pytest.mark.guide("004", "Output Port")
def test_a_tuple_may_be_emitted_with_its_time():
    operator = timed()
    operator.out.emit(Pair(1, 1.0), timestamp=DAY)
    operator.out.emit(Pair(2, 2.0))
    operator.out.emit_batch(Schema(Pair).encode([Pair(3, 3.0)]))
    operator.out.emit(Pair(4, 4.0))
    operator.out.emit_batch(Schema(Pair).encode([Pair(5, 5.0)]))
    operator.out.emit(Pair(6, 6.0), timestamp=DAY.replace(tzinfo=None) + timedelta(seconds=1))
    assert times(operator) == [[MICROSECONDS, None], None, None, None, [MICROSECONDS + 1_000_000]]


def test_a_time_must_be_one():
    with pytest.raises(
        SchemaError,
        match=r"^the `timestamp` of a tuple is a time; got 5 in `out\.emit\(\.\.\., timestamp=\.\.\.\)`",
    ):
        opened().out.emit(Pair(1, 1.0), timestamp=5)
    with pytest.raises(RidgelineError, match="cannot emit outside of a window"):
        Pass().out.emit(Pair(1, 1.0), timestamp=DAY)


class Stamped(Operator):
    out = OutputPort(pa.schema([("n", pa.int64()), ("at", pa.timestamp("ms"))]), timestamp="at")


def test_the_column_of_the_port_has_the_time_unless_the_author_does():
    operator = Stamped()
    operator.out.timed = True
    operator.out.open()
    operator.out.emit({"n": 1, "at": DAY.replace(tzinfo=None)})
    operator.out.emit({"n": 2, "at": None})
    operator.out.emit({"n": 3, "at": DAY.replace(tzinfo=None)}, timestamp=DAY + timedelta(seconds=2))
    operator.out.emit_batch(
        pa.RecordBatch.from_pydict({"n": [4], "at": pa.array([DAY.replace(tzinfo=None)], pa.timestamp("ms"))})
    )
    assert times(operator) == [[MICROSECONDS, None, MICROSECONDS + 2_000_000], [MICROSECONDS]]


def test_single_tuples_have_the_time_of_the_tuple_being_processed():
    operator = timed()
    arrived = Times(np.array([10, 20, 30]))
    iterator = iter([1, 2, 3])
    grows = operator.out.begin(Processing(lambda: arrived, 3, iterator.__length_hint__))
    lengths = []
    for number in iterator:
        if number == 2:
            operator.out.emit_batch(Schema(Pair).encode([Pair(2, 1.0), Pair(2, 2.0)]))
            operator.out.emit(Pair(2, 3.0))
        operator.out.emit(Pair(number, 1.0), timestamp=DAY if number == 3 else None)
        lengths.append(len(grows))
    operator.out.end(lengths)
    operator.out.emit(Pair(4, 1.0))
    assert times(operator) == [[10], [20, 20], [20, 20, MICROSECONDS, None]]


def test_tuples_emitted_for_a_batch_have_its_newest_time_or_that_of_their_rows():
    operator = timed()
    operator.out.begin(Processing(lambda: Times(np.array([10, 30, 20])), 3))
    operator.out.emit(Pair(1, 1.0))
    operator.out.emit_batch(Schema(Pair).encode([Pair(2, 1.0)]), rows=[2])
    operator.out.emit_batch(Schema(Pair).encode([Pair(3, n) for n in (1.0, 2.0, 3.0)]))
    operator.out.emit_batch(Schema(Pair).encode([Pair(4, 1.0)]))
    operator.out.end()
    assert times(operator) == [[30], [20], [10, 30, 20], [30]]
    operator.out.close()
    with pytest.raises(RidgelineError, match="cannot emit outside of a window"):
        operator.out.emit(Pair(1, 1.0))

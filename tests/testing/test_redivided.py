"""A restart whose operators divide their tuples otherwise, among as many partitions."""

from typing import Any, NamedTuple

import pytest

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedPartitioner,
    KeyedState,
    Operator,
    OutputPort,
    Partition,
    Partitioner,
    RidgelineError,
    State,
    StickyPartitioner,
)
from ridgeline.api.balancing import BalancedPartitioner
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.plan.edits import Repartition
from ridgeline.plan.spec.values import write_partitioner
from ridgeline.testing import CollectorSink, Faults, LocalRun, run_local

WINDOWS = 8


class Number(NamedTuple):
    key: int
    other: int
    value: int


class Numbers(InputOperator):
    output = OutputPort(Number)
    window = State(0)

    def emit_tuples(self) -> None:
        for number in range(20):
            self.output.emit(Number(number % 7, number % 7 + 100, 1))
        self.window += 1
        if self.window == WINDOWS:
            self.finish()


class Sums(Operator):
    """Sums by key, and how many tuples this partition has had if `counts`."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number)
    counts: bool = False
    sums = KeyedState(int, key=int, default=0)
    count = State(0)

    @input.process
    def add(self, number: Number) -> None:
        self.sums[number.key] += number.value
        self.count += self.counts
        self.output.emit(Number(number.key, self.context.partition, self.sums[number.key]))


class ByOther(Sums):
    input = InputPort(Number, key="other")

    @input.process
    def add(self, number: Number) -> None:
        self.count += self.counts


class Backwards(Partitioner):
    """As the default, with the partitions in the other order."""

    def define_partitions(self, count: int, ports: Any) -> list[Partition]:
        return KeyedPartitioner().define_partitions(count, ports)[::-1]


def application(kind: type[Sums] = Sums, *, counts: bool = False, **attributes: Any) -> Application:
    app = Application("divided", window="10ms")
    numbers = app.add_operator("numbers", Numbers())
    operator = kind()
    operator.counts = counts
    sums = app.add_operator("sums", operator, partitions=3, **attributes)
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, sums.input)
    app.add_stream("sums", sums.output, sink.input)
    return app


def last_sums(run: LocalRun) -> tuple[dict[int, int], dict[int, int]]:
    """The sum of each key, and its partition, in the last window."""
    rows = [Number(*row) for row in run.collected("sink", window=WINDOWS - 1)]
    return {row.key: row.value for row in rows}, {row.key: row.other for row in rows}


WHOLE = last_sums(run_local(application()))


@pytest.mark.parametrize("later", [{"partitioner": Backwards()}, {"kind": ByOther}])
def test_what_has_no_key_is_refused(later: dict[str, Any]) -> None:
    storage = MemoryStorage()
    run_local(application(counts=True), windows=3, checkpoint=storage)
    with pytest.raises(RidgelineError, match=r"state `count` .* another partitioner or key than in the"):
        run_local(application(counts=True, **later), checkpoint=storage)
    run = run_local(application(counts=True), checkpoint=storage)
    assert last_sums(run) == WHOLE


@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
def test_keyed_states_go_back_to_the_default(partitions: int) -> None:
    storage = MemoryStorage()
    run_local(application(partitioner=Backwards()), windows=3, checkpoint=storage)
    run = run_local(application(), checkpoint=storage, attributes={"sums.partitions": partitions})
    assert last_sums(run)[0] == WHOLE[0]


def test_they_do_while_it_runs_too() -> None:
    uneven = BalancedPartitioner(3, [0, 0, 0, 2, 0, 0, 1, 0])
    edits = [
        Repartition("sums", None, write_partitioner(uneven)),
        Repartition("sums", 5),
        Repartition("sums", 3, write_partitioner(StickyPartitioner())),
        Repartition("sums", None, write_partitioner(KeyedPartitioner())),
        Repartition("sums", 2, write_partitioner(uneven)),
    ]
    changes = {1 + window: [edit] for window, edit in enumerate(edits)}
    run = run_local(application(), changes=changes, faults=Faults(seed=3))
    assert [one.state for one in run.changes] == ["APPLIED"] * len(edits), run.changes
    assert last_sums(run)[0] == WHOLE[0]

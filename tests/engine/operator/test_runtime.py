"""One operator's callbacks, window by window."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from ridgeline import InputPort, Operator, OperatorContext, OperatorError, OutputPort
from ridgeline.api.attributes import RecordingLevel
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import ContainerAbortError
from ridgeline.api.operator import SparkSource
from ridgeline.api.times import Times
from ridgeline.engine.operator.runtime import OperatorRuntime
from ridgeline.plan.protocol import WindowRequest
from ridgeline.testing import ListInput, SteppingClock
from support.engine.one_operator import runtime


class Item(NamedTuple):
    key: int


class Tracing(Operator):
    data = InputPort(Item)
    other = InputPort(object, optional=True)
    out = OutputPort(object)

    def setup(self, context: OperatorContext) -> None:
        self.calls = [f"setup {context.partition}/{context.partitions}"]

    def activate(self) -> None:
        self.calls.append("activate")

    def begin_window(self, window_id: int) -> None:
        self.calls.append(f"begin {window_id}")

    @data.process
    def take(self, item: Item) -> None:
        self.calls.append(f"item {item.key} of {self.context.window_id}")
        self.out.emit(item)

    @other.process_batch
    def take_batch(self, batch: pa.RecordBatch) -> None:
        self.calls.append(f"batch of {batch.num_rows}")

    def end_window(self) -> None:
        self.calls.append("end")

    def committed(self, window_id: int) -> None:
        self.calls.append(f"committed {window_id}")

    def deactivate(self) -> None:
        self.calls.append("deactivate")

    def teardown(self) -> None:
        self.calls.append("teardown")


CLOCK = SteppingClock()


def rows(schema: Any, *values: Any) -> list[Tuples]:
    return [Tuples.of_rows(Schema(schema), [value]) for value in values]


def run(step: OperatorRuntime, window_id: int, *keys: int, others: int = 0, final: bool = False) -> Any:
    step.start()
    inputs = {"data": rows(Item, *map(Item, keys)), "other": rows(object, *range(others))}
    return step.run(WindowRequest(window_id, 0, 1, final), inputs, ())


@pytest.mark.guide("002", "Streaming Computational Model")
@pytest.mark.guide("002", "Operator API")
@pytest.mark.guide("004", "Interface ActivationListener")
def test_the_life_cycle():
    step = runtime(Tracing())
    run(step, 0, 7, 8, others=2)
    run(step, 1)
    step.committed(1)
    step.stop()
    step.stop()
    assert step.operator.calls == [
        "setup 0/1", "activate", "begin 0", "item 7 of 0", "item 8 of 0", "batch of 1", "batch of 1",
        "end", "begin 1", "end",
        "committed 1", "deactivate", "teardown",
    ]  # fmt: skip


@pytest.mark.guide("002", "Aggregate Application Window")
@pytest.mark.guide("004", "Interface Operator")
def test_application_windows_begin_and_end_at_their_borders():
    step = runtime(Tracing(), application_window_count=3)
    for window_id in range(3, 7):
        run(step, window_id, window_id)
    run(step, 7, final=True)
    assert step.operator.calls[2:] == [
        "begin 3", "item 3 of 3", "item 4 of 4", "item 5 of 5", "end", "begin 6", "item 6 of 6", "end",
    ]  # fmt: skip


def test_the_report_counts():
    report, emitted = run(runtime(Tracing()), 0, 1, 2, others=3)
    assert report.window.tuples_in == {"data": 2, "other": 3}
    assert report.window.tuples_out == {"out": 2}
    assert [row for part in emitted["out"] for row in part.rows] == [Item(1), Item(2)]
    assert (report.window.errors, report.window.finished, report.window.dropped) == (0, False, "")
    assert report.source is None


def test_setup_that_failed_is_tried_again():
    class Flaky(Tracing):
        tries = 0

        def setup(self, context: OperatorContext) -> None:
            type(self).tries += 1
            if self.tries == 1:
                raise ConnectionError("not yet")
            super().setup(context)

    step = runtime(Flaky())
    with pytest.raises(OperatorError, match="in `setup`: ConnectionError: not yet"):
        step.start()
    run(step, 0)
    assert step.operator.calls[:2] == ["setup 0/1", "activate"]


def test_a_batch_that_fails_tells_its_first_tuple():
    class Failing(Tracing):
        @Tracing.data.process_batch
        def fail(self, batch: pa.RecordBatch) -> None:
            raise ZeroDivisionError

    step = runtime(Failing())
    step.start()
    parts = [Tuples.of_rows(Schema(Item), [Item(1), Item(2)])]
    with pytest.raises(OperatorError) as error:
        step.run(WindowRequest(4, 0, 1), {"data": parts, "other": []}, ())
    assert error.value.failure.callback == "process_batch of port data"
    assert error.value.failure.tuple == "one of a batch of 2, the first being Item(key=1)"


def test_an_abort_is_not_an_operator_s_failure():
    class Aborting(Tracing):
        @Tracing.data.process
        def take(self, item: Item) -> None:
            raise ContainerAbortError("as asked")

    with pytest.raises(ContainerAbortError, match="as asked"):
        run(runtime(Aborting()), 0, 1)


def test_inputs_that_have_finished_emit_no_more():
    source = ListInput(Item, [Item(1)])
    step = runtime(source, clock=CLOCK)
    step.start()
    first, _ = step.run(WindowRequest(0, 0, 1), {}, ())
    assert (first.window.tuples_out, first.window.finished) == ({"output": 1}, True)
    assert (first.source.consumed, first.source.remaining) == (1.0, 0.0)
    step.cells["position"].set(0)
    second, _ = step.run(WindowRequest(1, 0, 1, finished=frozenset({1})), {}, ())
    assert (second.window.tuples_out, second.window.finished) == ({"output": 0}, True)


def test_the_rows_of_spark_become_the_source_s_tuples():
    source = SparkSource()
    source.declare_schema("output", Item)
    step = runtime(source, clock=CLOCK)
    step.start()
    batches = [pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.int32())}) for keys in ([1, 2], [], [3])]
    report, emitted = step.run(WindowRequest(0, 0, 1), {}, batches)
    assert report.window.tuples_out == {"output": 3}
    assert [row for part in emitted["output"] for row in part.rows] == [Item(1), Item(2), Item(3)]


class Latest(Tracing):
    def end_window(self) -> None:
        self.out.emit("all")


def times(values: list[tuple[int, int]]) -> Times:
    return Times(*(np.array([value[place] for value in values]) for place in (0, 1)))


def ranges(
    step: OperatorRuntime, window_id: int, *values: tuple[int, int], final: bool = False
) -> list[tuple[int, int]]:
    """Run a window with one tuple for each (newest, oldest); the same of what comes out."""
    step.start()
    parts = [Tuples.of_rows(Schema(Item), [Item(0)], times([value])) for value in values]
    _, emitted = step.run(WindowRequest(window_id, 0, 1, final), {"data": parts, "other": []}, ())
    found = []
    for part in emitted["out"]:
        if part.times is not None:
            oldest = part.times.newest if part.times.oldest is None else part.times.oldest
            found += zip(part.times.newest.tolist(), oldest.tolist(), strict=True)
    return found


@pytest.mark.guide("004", "Passthrough vs End of Window tuples")
def test_what_is_emitted_for_a_tuple_has_its_times_and_for_a_window_its_range():
    step = runtime(Latest())
    assert ranges(step, 0, (5, 3), (9, 8), (4, 4)) == [(5, 3), (9, 8), (4, 4), (9, 3)]
    assert ranges(step, 1) == []
    assert ranges(step, 2, (1, 1)) == [(1, 1), (1, 1)]


def test_the_range_of_an_application_window_goes_on_from_the_window_before_however_often_one_is_repeated():
    step = runtime(Latest(), application_window_count=3)
    ranges(step, 0, (5, 3))
    ranges(step, 1, (99, 1))
    ranges(step, 1, (50, 1))
    ranges(step, 1, (7, 6))
    assert ranges(step, 2, (4, 4)) == [(4, 4), (7, 3)]
    assert ranges(step, 2, (8, 2)) == [(8, 2), (8, 2)]
    assert ranges(step, 3, (1, 1), final=True) == [(1, 1), (1, 1)]


def test_the_rows_of_spark_have_the_times_of_the_column_that_the_source_names():
    class Timed(SparkSource):
        def timestamp_of(self, port: str) -> str | None:
            return "time"

    source = Timed()
    source.declare_schema("output", pa.schema([("key", pa.int64()), ("time", pa.timestamp("ms"))]))
    step = runtime(source, clock=CLOCK)
    step.start()
    now = round(CLOCK.wall() * 1_000)
    batches = [
        pa.RecordBatch.from_pydict(
            {"key": [1, 2], "time": pa.array([now - 1_000, now - 4_000], pa.timestamp("ms"))}
        )
    ]
    _, emitted = step.run(WindowRequest(0, 0, 1), {}, batches)
    assert emitted["output"][0].time_column == "time"
    (sample,) = step.ages(0.0)
    assert (sample.place, sample.count, sample.minimum, sample.maximum, sample.total) == (
        "source",
        2,
        1.0,
        4.0,
        5.0,
    )


def test_times_are_neither_kept_nor_asked_for_if_nothing_is_recorded():
    assert ranges(runtime(Latest(), level=RecordingLevel.OFF), 0, (5, 3)) == []

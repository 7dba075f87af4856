"""What a heartbeat says of an operator in the middle of its window."""

import math
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from ridgeline import (
    InputOperator,
    InputPort,
    Operator,
    OutputPort,
)
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.times import Times
from ridgeline.engine.operator.runtime import OperatorRuntime
from ridgeline.measure.events import RunningOperator, SourceProgress
from ridgeline.plan.protocol import WindowRequest
from support.engine.one_operator import runtime


class Item(NamedTuple):
    key: int


RUNNING: list[OperatorRuntime] = []
SEEN: list[RunningOperator] = []


def look() -> None:
    """Keep what the heartbeat's thread would read now."""
    SEEN.append(RUNNING[0].running.figures())


class Twice(Operator):
    """Emits each tuple twice; the clock goes a second a tuple."""

    data = InputPort(Item)
    other = InputPort(Item, optional=True)
    out = OutputPort(Item)

    @data.process
    def take(self, item: Item) -> None:
        self.out.emit(item)
        self.context.clock.wait(1.0)
        look()
        self.out.emit(item)
        if item.key < 0:
            raise ValueError("negative")

    @other.process
    def skip(self, item: Item) -> None: ...

    def end_window(self) -> None:
        self.context.clock.wait(0.5)
        look()


class TwiceBatch(Twice):
    """The same from batches; the clock goes a second a batch."""

    @Twice.data.process_batch
    def take_batch(self, batch: pa.RecordBatch) -> None:
        self.out.emit_batch(batch)
        self.context.clock.wait(1.0)
        look()
        self.out.emit_batch(batch)


class Source(InputOperator):
    out = OutputPort(Item)

    def emit_tuples(self) -> None:
        for key in range(3):
            self.out.emit(Item(key))
        self.context.clock.wait(2.0)
        look()

    def progress(self) -> tuple[float, float | None]:
        return 3.0, 7.0


class Broken(Source):
    def progress(self) -> tuple[float, float | None]:
        if self.context.window_id >= 0 and not SEEN:
            raise RuntimeError("asked in the middle")
        return super().progress()


def watched(operator: Operator) -> OperatorRuntime:
    made = runtime(operator)
    made.start()
    SEEN.clear()
    RUNNING[:] = [made]
    return made


def run(step: OperatorRuntime, *parts: list[int], others: int = 0) -> Any:
    schema = Schema(Item)
    data = [Tuples.of_rows(schema, list(map(Item, part))) for part in parts]
    other = [Tuples.of_rows(schema, [Item(0)] * others)] if others else []
    inputs = {} if isinstance(step.operator, InputOperator) else {"data": data, "other": other}
    return step.run(WindowRequest(0, 0, 1), inputs, ())


def figures(seen: RunningOperator) -> Any:
    return (seen.seconds, seen.consumed, seen.queued, seen.active, seen.produced, seen.active_produced)


def test_tuple_by_tuple_each_is_active_in_its_turn():
    step = watched(Twice())
    run(step, [1, 2], [3], others=4)
    assert [figures(seen) for seen in SEEN] == [
        (1.0, {"data": 0, "other": 0}, {"data": 2, "other": 4}, 1, {"out": 0}, {"out": 1}),
        (2.0, {"data": 1, "other": 0}, {"data": 1, "other": 4}, 1, {"out": 2}, {"out": 1}),
        (3.0, {"data": 2, "other": 0}, {"data": 0, "other": 4}, 1, {"out": 4}, {"out": 1}),
        (3.5, {"data": 3, "other": 4}, {"data": 0, "other": 0}, 0, {"out": 6}, {}),
    ]
    assert {seen.state for seen in SEEN} == {"running"}


@pytest.mark.parametrize(
    ("key", "said"), [(None, ""), ("key", "key `7`, "), (lambda item: -item.key, "key `-7`, ")]
)
def test_a_record_that_takes_minutes_is_shown_with_its_key(key, said):
    class Slow(Operator):
        data = InputPort(Item, key=key)

        @data.process
        def take(self, item: Item) -> None:
            for _ in range(3):
                look()
                self.context.clock.wait(60.0)

    step = watched(Slow())
    step.run(WindowRequest(0, 0, 1), {"data": [Tuples.of_rows(Schema(Item), [Item(7)])]}, ())
    assert [(seen.callback_seconds, seen.record) for seen in SEEN] == [
        (0.0, ""),
        (60.0, f"{said}Item(key=7)"),
        (120.0, f"{said}Item(key=7)"),
    ]


def test_batch_by_batch_all_of_a_batch_are_active():
    step = watched(TwiceBatch())
    run(step, [1, 2], [3])
    assert [figures(seen) for seen in SEEN] == [
        (1.0, {"data": 0, "other": 0}, {"data": 1, "other": 0}, 2, {"out": 0}, {"out": 2}),
        (2.0, {"data": 2, "other": 0}, {"data": 0, "other": 0}, 1, {"out": 4}, {"out": 1}),
        (2.5, {"data": 3, "other": 0}, {"data": 0, "other": 0}, 0, {"out": 6}, {}),
    ]


def test_the_watermark_is_the_lowest_time_that_is_not_done_with():
    def timed(*seconds: int) -> Tuples:
        return Tuples.of_rows(Schema(Item), [Item(0)] * len(seconds), Times(np.array(seconds) * 1_000_000))

    step = watched(Twice())
    step.run(WindowRequest(0, 0, 1), {"data": [timed(3, 9, 5), timed(7)], "other": [timed(8)]}, ())
    assert [seen.oldest_in_flight for seen in SEEN] == [
        {"out": 3.0},
        {"out": 5.0},
        {"out": 5.0},
        {"out": 7.0},
        {},
    ]
    step = watched(TwiceBatch())
    step.run(WindowRequest(0, 0, 1), {"data": [timed(3, 9, 5), timed(7)], "other": [timed(1)]}, ())
    assert [seen.oldest_in_flight for seen in SEEN] == [{"out": 1.0}, {"out": 1.0}, {}]
    run(step, [1])
    assert SEEN[-1].oldest_in_flight == {}


def test_an_input_operator_is_one_active_element_with_work_of_its_own():
    step = watched(Source())
    report, _ = run(step)
    (seen,) = SEEN
    assert figures(seen) == (2.0, {}, {}, 1, {}, {"out": 3})
    assert seen.work == (3.0, 7.0)
    assert report.window.compute_seconds == 2.0


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (None, None),
        ((3, None), (3.0, None)),
        ((3, 4.5), (3.0, 4.5)),
        ((math.nan, 1.0), None),
        ((1.0, math.inf), None),
        (("many", 1.0), None),
        (7, None),
    ],
)
def test_what_an_input_operator_says_of_its_work_is_made_plain_or_left_out(work, told, monkeypatch):
    monkeypatch.setattr(Source, "progress", lambda _self: None if SEEN else work)
    step = watched(Source())
    run(step)
    assert SEEN[0].work == told


def test_an_input_operator_that_cannot_tell_in_the_middle_tells_nothing():
    step = watched(Broken())
    report, _ = run(step)
    assert SEEN[0].work is None
    assert report.source == SourceProgress(0.0, 0, 1, 3.0, 7.0, unit=step.operator.progress_unit)


@pytest.mark.parametrize("kind", [Twice, TwiceBatch])
def test_what_is_done_keeps_its_counts_until_the_next_window(kind):
    step = watched(kind())
    report, _ = run(step, [1, 2], [3], others=1)
    after = step.running.figures()
    assert after.state == "done"
    assert figures(after) == (
        report.window.compute_seconds,
        report.window.tuples_in,
        {"data": 0, "other": 0},
        0,
        {"out": 6},
        {},
    )
    assert figures(after) == figures(step.running.figures())
    step.running.wait()
    assert (
        step.running.figures().state,
        step.running.figures().consumed,
        step.running.figures().seconds,
    ) == ("waiting", {}, 0.0)


class Telling(Twice):
    """Says how many of its outputs are to come; nothing is known of earlier windows."""

    @Twice.data.process
    def take_telling(self, item: Item) -> None:
        self.context.expect_outputs("out", 4)
        for _ in range(4):
            self.out.emit(item)
            look()


def test_an_operator_may_say_what_is_to_come():
    run(watched(Telling()), [1])
    assert [seen.active_remaining["out"] for seen in SEEN[:-1]] == [3.0, 2.0, 1.0, 0.0]

"""Operators with `on_error=SKIP`: the run is as if the tuples on which they fail had never come."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import Application, InputPort, KeyedState, ListState, Operator, OutputPort, State
from ridgeline.api.errors import OperatorError, ValidationError
from ridgeline.measure.events import OperatorWindow
from ridgeline.plan.planner import plan_application
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep


class Number(NamedTuple):
    value: int
    time: datetime = datetime(2026, 1, 1, tzinfo=UTC)


class Out(NamedTuple):
    value: int


def refuse(value):
    if value < 0:
        raise ValueError(f"{value} is negative")


class Plain(Operator):
    """Emits the double, also of what it then refuses."""

    input = InputPort(Number)
    output = OutputPort(Out)

    @input.process
    def double(self, number):
        self.output.emit(Out(2 * number.value))
        refuse(number.value)


class Batches(Operator):
    """The same with batches."""

    input = InputPort(Number)
    output = OutputPort(Out)

    @input.process_batch
    def double(self, batch):
        self.output.emit_batch(pa.record_batch({"value": pc.multiply(batch["value"], 2)}))
        for value in batch["value"].to_pylist():
            refuse(value)


class Stateful(Operator):
    """Emits sums so far; changes all of its states before it refuses."""

    input = InputPort(Number)
    output = OutputPort(Out)

    total = State(0)
    counts = KeyedState(int, default=0)
    seen = ListState(int)

    @input.process
    def add(self, number):
        self.total += number.value
        self.counts[number.value % 3] += 1
        self.seen.append(number.value)
        self.output.emit(Out(self.total))
        refuse(number.value)

    def end_window(self):
        assert self.total == sum(self.seen)
        assert sum(count for _, count in self.counts.items()) == len(self.seen)


class StatefulBatches(Operator):
    """The same with batches."""

    input = InputPort(Number)
    output = OutputPort(Out)

    total = State(0)

    @input.process_batch
    def add(self, batch):
        for value in batch["value"].to_pylist():
            self.total += value
            self.output.emit(Out(self.total))
            refuse(value)


class Remembering(Operator):
    """Keeps a list for the window, without declaring it."""

    input = InputPort(Number)
    output = OutputPort(Out)

    def begin_window(self, window_id):
        self.seen = []

    @input.process
    def note(self, number):
        self.seen.append(number.value)
        refuse(number.value)

    def end_window(self):
        for value in self.seen:
            self.output.emit(Out(2 * value))


def application(operator, items, *, partitions=1, **attributes):
    app = Application("skips", window="1ms")
    numbers = app.add_operator("numbers", ListInput(Number, items, timestamp="time"))
    step = app.add_operator("step", operator, partitions=partitions, on_error="SKIP", **attributes)
    app.add_stream("numbers", numbers.output, step.input)
    app.add_stream("out", step.output, app.add_operator("store", CollectorSink(Out)).input)
    return app


def sums(windows):
    """Sums so far of what is not refused."""
    total, found = 0, []
    for value in (value for window in windows for value in window if value >= 0):
        total += value
        found.append(total)
    return found


DOUBLES = [Plain, Batches, Remembering]
WINDOWS = st.lists(st.lists(st.integers(-5, 20), max_size=12), min_size=1, max_size=3)


@settings(deadline=None, max_examples=deep(16))
@given(st.sampled_from([*DOUBLES, Stateful, StatefulBatches]), WINDOWS)
def test_the_result_is_that_of_the_other_tuples(kind, windows):
    items = [item for window in windows for item in [*(Number(value) for value in window), END_WINDOW]]
    run = run_local(application(kind(), items, error_tuples_kept=1000))

    found = [out.value for out in run.collected("store")]
    wanted = (
        [2 * value for window in windows for value in window if value >= 0]
        if kind in DOUBLES
        else sums(windows)
    )
    assert found == wanted
    bad = [value for window in windows for value in window if value < 0]
    assert run.errors("step") == len(bad)
    assert run.tuples_in("step") == sum(map(len, windows))
    texts = [text for event in run.events if isinstance(event, OperatorWindow) for text in event.error_tuples]
    assert [text.rpartition("): ")[2] for text in texts] == [
        f"ValueError: {value} is negative" for value in bad
    ]
    assert run.retries == []


class Divided(Plain):
    """Has error ports; the first of the tuples' schema gets them."""

    input = InputPort(Number)
    output = OutputPort(Out, optional=True)
    other = OutputPort(Out, error=True, optional=True)
    refused = OutputPort(Number, error=True, optional=True)

    @input.process
    def double(self, number):
        self.other.emit(Out(number.value))
        self.output.emit(Out(2 * number.value))
        refuse(number.value)


def test_the_error_port_gets_them_with_their_times():
    app = Application("skips", window="1ms")
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    items = [Number(value, begin + timedelta(seconds=value)) for value in (1, -2, 3, -4)]
    numbers = app.add_operator("numbers", ListInput(Number, items, timestamp="time"))
    step = app.add_operator("step", Divided(), on_error="SKIP")
    app.add_stream("numbers", numbers.output, step.input)
    for name, schema in (("output", Out), ("other", Out), ("refused", Number)):
        app.add_stream(
            name, getattr(step, name), app.add_operator(f"store_{name}", CollectorSink(schema)).input
        )

    run = run_local(app)

    assert run.collected("store_refused") == [items[1], items[3]]
    assert run.collected("store_output") == [Out(2), Out(6)]
    assert run.collected("store_other") == [Out(1), Out(3)]
    [report] = [
        event for event in run.events if isinstance(event, OperatorWindow) and event.tuples_out.get("refused")
    ]
    assert report.errors == 4  # two on each error port
    assert report.error_tuples == ()


def test_one_of_a_window_is_shown_even_if_none_are_kept():
    run = run_local(application(Plain(), [Number(-1), Number(-2)]))

    [text] = [
        text for event in run.events if isinstance(event, OperatorWindow) for text in event.error_tuples
    ]
    assert text.startswith("Number(value=-1, ")
    assert text.endswith("): ValueError: -1 is negative")
    assert run.errors("step") == 2


class Ending(Plain):
    input = InputPort(Number)
    output = OutputPort(Out)

    @input.process
    def double(self, number):
        pass

    def end_window(self):
        raise ValueError("no end")


def test_a_failure_without_a_tuple_stops_the_application():
    with pytest.raises(OperatorError, match=r"failed in window 0 in `end_window`: ValueError: no end"):
        run_local(application(Ending(), [Number(1)]))


def test_inputs_have_no_tuples_to_leave_out():
    app = application(Plain(), [])

    with pytest.raises(ValidationError) as caught:
        plan_application(app, {}, {"numbers.on_error": "SKIP"})

    [fault] = caught.value.faults
    assert str(fault) == (
        "`numbers.on_error`: attribute `on_error` would do nothing: an input operator gets no "
        "tuples to leave out; leave it out"
    )

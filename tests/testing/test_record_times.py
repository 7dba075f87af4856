"""Ages of records with known times, in process with a stepping clock, against what a hand computes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.measure.events import AgeSample, OperatorWindow
from ridgeline.operators import Filter, Map, SumKeyVal
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, LocalRun, run_local

START = datetime(2026, 1, 1, tzinfo=UTC)  # where a stepping clock starts


def ago(seconds: float) -> datetime:
    """So long before the start."""
    return START - timedelta(seconds=seconds)


class Event(NamedTuple):
    key: str
    value: int
    time: datetime | None


class Entry(NamedTuple):
    key: str
    value: int


def ages(run: LocalRun, operator: str, place: str) -> list[AgeSample | None]:
    """The ages at an operator's first partition, by window; at `commit` as of the end-window timestamp."""
    ids = [
        physical.id
        for physical in run.plan.physical.operators
        if physical.name == operator and not physical.unifier
    ]
    events = [event for event in run.events if isinstance(event, OperatorWindow) and event.operator == ids[0]]
    found = [
        (event.ended, next((sample for sample in event.ages if sample.place == place), None))
        for event in events
    ]
    return [
        sample if sample is None or not sample.as_of else later(sample, ended - sample.as_of)
        for ended, sample in found
    ]


def later(sample: AgeSample, seconds: float) -> AgeSample:
    """The same ages as of so much later."""
    return replace(
        sample,
        minimum=sample.minimum + seconds,
        maximum=sample.maximum + seconds,
        total=sample.total + sample.count * seconds,
        oldest_maximum=sample.oldest_maximum + seconds,
    )


def figures(sample: AgeSample | None) -> Any:
    """Count, minimum, maximum, total, greatest age of the oldest: seconds, to the microsecond."""
    if sample is None:
        return None
    values = (sample.minimum, sample.maximum, sample.total, sample.oldest_maximum)
    assert sum(count for _, count in sample.buckets) + sample.negative == sample.count
    return (sample.count, *(round(value, 6) for value in values))


def places(run: LocalRun) -> set[tuple[str, str, str]]:
    """(operator, place, level) of all ages."""
    names = {physical.id: physical.title for physical in run.plan.physical.operators}
    events = [event for event in run.events if isinstance(event, OperatorWindow)]
    return {(names[event.operator], sample.place, sample.level) for event in events for sample in event.ages}


class Delay(Operator):
    """Passes batches on after `seconds`."""

    data = InputPort(Entry)
    out = OutputPort(Entry)

    seconds: float = 0.5

    @data.process_batch
    def wait(self, batch: pa.RecordBatch) -> None:
        self.context.clock.wait(self.seconds)
        self.out.emit_batch(batch)


class SlowSink(Operator):
    """Needs a tenth of a second for a batch and another quarter to end the window."""

    data = InputPort(Entry)

    @data.process_batch
    def write(self, batch: pa.RecordBatch) -> None:
        self.context.clock.wait(0.1)

    def end_window(self) -> None:
        self.context.clock.wait(0.25)


TUPLE_FORM = (
    lambda: Filter(predicate=lambda event: event.value % 2 == 0),
    lambda: Map(schema=Entry, function=lambda event: Entry(event.key, event.value // 2)),
)
BATCH_FORM = (
    lambda: Filter(batch_predicate=lambda batch: pc.equal(pc.bit_wise_and(batch["value"], 1), 0)),
    lambda: Map(schema=Entry, batch_function=lambda batch: batch.select(["key", "value"])),
)


@pytest.mark.parametrize(
    ("make_filter", "make_map"), [TUPLE_FORM, BATCH_FORM, (TUPLE_FORM[0], BATCH_FORM[1])]
)
def test_ages_through_filter_map_and_aggregate_at_two_sinks(make_filter, make_map):
    first = [
        Event("a", 2, ago(1)),
        Event("a", 3, ago(4)),
        Event("b", 4, ago(2)),
        Event("a", 6, ago(5)),
        Event("b", 8, None),
    ]
    second = [Event("b", 2, ago(-1)), Event("a", 1, ago(0)), Event("a", 2, ago(-3))]
    app = Application("app", window="1s")
    source = app.add_operator("source", ListInput(Event, [*first, END_WINDOW, *second], timestamp="time"))
    even = app.add_operator("even", make_filter())
    entries = app.add_operator("entries", make_map())
    delay = app.add_operator("delay", Delay())
    sums = app.add_operator("sums", SumKeyVal(schema=Entry))
    each = app.add_operator("each", CollectorSink())
    total = app.add_operator("total", SlowSink())
    app.add_stream("events", source.output, even.data)
    app.add_stream("evens", even.output, entries.data)
    app.add_stream("mapped", entries.output, delay.data)
    app.add_stream("delayed", delay.out, sums.data, each.input)
    app.add_stream("summed", sums.sum, total.data)
    run = run_local(app)

    # Window 0 begins at 0. Read at once: 1 + 4 + 2 + 5; then half a second later without the 4.
    # The sums of both keys are of records from 1 to 5 seconds ago; after 0.5 + 0.1, and a quarter more when
    # the window ends. Window 1 begins at 1.85, a second after the end of window 0. Records of +1, 0, +3
    # seconds: ages 0.85, 1.85, -1.15.
    assert [figures(sample) for sample in ages(run, "source", "source")] == [
        (4, 1, 5, 12, 5),
        (3, -1.15, 1.85, 1.55, 1.85),
    ]
    assert [figures(sample) for sample in ages(run, "each", "emit")] == [
        (3, 1.5, 5.5, 9.5, 5.5),
        (2, -0.65, 1.35, 0.7, 1.35),
    ]
    assert [figures(sample) for sample in ages(run, "each", "commit")] == [
        (3, 1.5, 5.5, 9.5, 5.5),
        (2, -0.65, 1.35, 0.7, 1.35),
    ]
    assert [figures(sample) for sample in ages(run, "total", "emit")] == [
        (2, 1.6, 1.6, 3.2, 5.6),
        (2, -0.55, -0.55, -1.1, 1.45),
    ]
    assert [figures(sample) for sample in ages(run, "total", "commit")] == [
        (2, 1.85, 1.85, 3.7, 5.85),
        (2, -0.3, -0.3, -0.6, 1.7),
    ]
    assert [sample.negative for sample in ages(run, "each", "emit")] == [0, 1]
    assert places(run) == {
        ("source", "source", "INFO"), ("each", "emit", "INFO"), ("each", "commit", "INFO"),
        ("total", "emit", "INFO"), ("total", "commit", "INFO"),
    }  # fmt: skip


def chain(
    operator: Operator,
    windows: Sequence[Sequence[Event]],
    attributes: dict[str, Any] | None = None,
    **of_operator: Any,
) -> LocalRun:
    """Events without their time, through the operator, to a collector `sink`."""
    app = Application("app", window="1s", **(attributes or {}))
    source = app.add_operator(
        "source",
        ListInput(Event, [item for window in windows for item in (*window, END_WINDOW)], timestamp="time"),
    )
    entries = app.add_operator(
        "entries", Map(schema=Entry, function=lambda event: Entry(event.key, event.value))
    )
    step = app.add_operator("step", operator, **of_operator)
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("events", source.output, entries.data)
    app.add_stream("entries", entries.output, step.data)
    app.add_stream("out", step.out, sink.input)
    return run_local(app)


class Totals(Operator):
    """Emits one total at the end of the application window."""

    data = InputPort(Entry)
    out = OutputPort(Entry)

    total = State(0)

    @data.process
    def add(self, entry: Entry) -> None:
        self.total += entry.value

    def end_window(self) -> None:
        self.out.emit(Entry("total", self.total))


class Given(InputOperator):
    """Emits three tuples, of which one says when it happened and one is an error."""

    out = OutputPort(object)
    bad = OutputPort(object, error=True, optional=True)

    def emit_tuples(self) -> None:
        self.out.emit("now", timestamp=ago(2))
        self.out.emit("never")
        self.out.emit({1, 2}, timestamp=ago(4).replace(tzinfo=None))
        self.bad.emit("bad", timestamp=ago(9))
        self.finish()


def test_times_given_with_a_tuple_go_with_objects_too():
    app = Application("app", window="1s")
    source = app.add_operator("source", Given())
    sink = app.add_operator("sink", CollectorSink(), partitions=2)
    app.add_stream("out", source.out, sink.input)
    run = run_local(app)
    assert figures(ages(run, "source", "source")[0]) == (2, 2, 4, 6, 4)
    both = [
        sample
        for event in run.events
        if isinstance(event, OperatorWindow)
        for sample in event.ages
        if sample.place == "emit"
    ]
    assert sorted(map(figures, both)) == [(2, 2, 4, 6, 4)]  # round robin: the one in the middle has no time


EVENTS = [[Event("a", 1, ago(3)), Event("b", 2, ago(7))]]


def test_at_trace_operators_with_state_have_ages_too():
    run = chain(Totals(), EVENTS, {"metrics_recording_level": "TRACE"})
    assert places(run) == {
        ("source", "source", "INFO"),
        ("step", "state", "TRACE"),
        ("sink", "emit", "INFO"),
        ("sink", "commit", "INFO"),
    }
    assert figures(ages(run, "step", "state")[0]) == (2, 3, 7, 10, 7)


def test_switched_off_there_are_no_ages():
    run = chain(Totals(), EVENTS, {"metrics_recording_level": "OFF"})
    assert places(run) == set()
    assert run.collected("sink") == [{"key": "total", "value": 3}]


def test_records_without_times_have_no_ages():
    assert places(chain(Totals(), [[Event("a", 1, None)]])) == set()

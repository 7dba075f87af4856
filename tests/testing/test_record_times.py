"""Ages of records with known times, in process with a stepping clock, against what a hand computes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.measure.events import AgeSample, OperatorWindow
from ridgeline.operators import Map
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, LocalRun, run_local
from support.rows import in_a_row

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


def chain(
    operator: Operator,
    windows: Sequence[Sequence[Event]],
    attributes: dict[str, Any] | None = None,
    **of_operator: Any,
) -> LocalRun:
    """Events without their time, through the operator, to a collector `sink`."""
    app = in_a_row(
        Application("app", window="1s", **(attributes or {})),
        source=ListInput(
            Event, [item for window in windows for item in (*window, END_WINDOW)], timestamp="time"
        ),
        entries=Map(schema=Entry, function=lambda event: Entry(event.key, event.value)),
        step=(operator, of_operator),
        sink=CollectorSink(),
    )
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
    app = in_a_row(Application("app", window="1s"), source=Given(), sink=(CollectorSink(), {"partitions": 2}))
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

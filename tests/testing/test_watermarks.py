"""The watermark that operators see: by hand, over partitions, kills, restarts, idle and finished inputs."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    Operator,
    OutputPort,
    RecordingLevel,
    State,
    ValidationError,
)
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.operators import FileReplayInput, Filter
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep
from support.rows import in_a_row
from support.testing.shares import share

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


class Event(NamedTuple):
    key: int
    time: datetime


class Seen(NamedTuple):
    partition: int
    before: float
    after: float


def seconds(time: datetime) -> float:
    """Seconds since the start; -1 before any record, 999 at the end."""
    return max(-1.0, min(999.0, (time - START).total_seconds()))


class Look(Operator):
    """The watermark when the window begins, and when it ends."""

    first = InputPort(Event)
    second = InputPort(Event, optional=True)
    seen = OutputPort(Seen)

    def begin_window(self, window_id: int) -> None:
        self.before = seconds(self.context.watermark)

    @first.process
    @second.process
    def see(self, event: Event) -> None:
        assert seconds(self.context.watermark) == self.before

    def end_window(self) -> None:
        self.seen.emit(Seen(self.context.partition, self.before, seconds(self.context.watermark)))


def items(windows: list[Any], *, kill: bool = False) -> list[Any]:
    return [
        item
        for window in windows
        for item in (*(Event(0, at(second)) for second in window), *[ABORT] * kill, END_WINDOW)
    ][:-1]


WINDOWS: list[list[float]] = [[], [10, 7], [6], [12, 30], [], [29]]
BY_HAND = [(-1, -1), (-1, 5), (5, 5), (5, 25), (25, 25), (25, 999)]


def looking(
    stream: list[Any],
    *,
    partitions: int = 1,
    look: Any = None,
    between: Any = None,
    level: RecordingLevel = RecordingLevel.INFO,
    kill: bool = False,
    second: Any = None,
    source_partitions: int = 1,
    idle_after: str | None = None,
    **options: Any,
) -> Any:
    app = Application("looking", window="1s", metrics_recording_level=level)
    source = app.add_operator(
        "source",
        ListInput(Event, items(stream, kill=kill), "time", "5s", idle_after),
        partitions=source_partitions,
    )
    looker = app.add_operator("look", Look(), partitions=partitions, **(look or {}))
    sink = app.add_operator("sink", CollectorSink(Seen))
    output = source.output
    if between is not None:
        step = app.add_operator("between", Filter(between), partitions=2)
        app.add_stream("between", output, step.data)
        output = step.output
    app.add_stream("events", output, looker.first)
    if second is not None:
        other = app.add_operator("other", second)
        app.add_stream("others", other.output, looker.second)
    app.add_stream("seen", looker.seen, sink.input)
    return run_local(app, **options)


def seen(run: Any, partition: int = 0) -> list[tuple[float, float]]:
    return [(one.before, one.after) for one in run.collected("sink") if one.partition == partition]


@pytest.mark.parametrize(
    ("partitions", "between", "kill"), share(2, [1, 3], [None, lambda event: event.key == 1], [False, True])
)
def test_each_partition_sees_the_watermark_of_the_window(partitions: int, between: Any, kill: bool) -> None:
    run = looking(WINDOWS, partitions=partitions, between=between, kill=kill)
    assert [seen(run, partition) for partition in range(partitions)] == [BY_HAND] * partitions
    assert len(run.retries) == kill * len(WINDOWS)


@pytest.mark.parametrize("seed", range(deep(1)))
def test_it_is_the_same_with_windows_in_flight_and_without_measuring(seed: int) -> None:
    run = looking(WINDOWS, partitions=2, kill=True, interleave=seed, level=RecordingLevel.OFF)
    assert [seen(run, partition) for partition in range(2)] == [BY_HAND] * 2


def test_it_survives_the_driver() -> None:
    storage, found = MemoryStorage(), []
    for _ in WINDOWS:
        found += seen(looking(WINDOWS, checkpoint=storage, windows=1, between=lambda _: False))
    assert found == BY_HAND


def test_it_is_the_least_of_partitions_and_of_inputs() -> None:
    # Partition 0 of the source gets 10, nothing, then 70.
    run = looking([[10, 40], [50], [60, 70]], source_partitions=2)
    assert seen(run)[:2] == [(-1, 5), (5, 5)]
    other = ListInput(Event, items([[], [8], [100]]), "time", "1s")
    assert seen(looking([[10], [20], [30]], second=other)) == [(-1, -1), (-1, 7), (7, 999)]


def test_an_input_without_a_lateness_promises_nothing_and_holds_nothing_up() -> None:
    other = ListInput(Event, items([[], [], [], [], [], []]), "time")
    assert seen(looking(WINDOWS, second=other)) == BY_HAND


def test_an_idle_input_holds_nobody_up_and_time_never_goes_back() -> None:
    other = ListInput(Event, items([[7], [], [], [], [9], [50], []]), "time", "1s", "2s")
    run = looking([[10], [20], [30], [40], [50], [60], [70]], second=other)
    assert seen(run) == [(-1, 5), (5, 6), (6, 25), (25, 35), (35, 35), (35, 55), (55, 999)]
    storage, found = MemoryStorage(), []
    for _ in range(7):  # a driver that starts again waits anew
        other = ListInput(Event, items([[7], [], [], [], [9], [50], []]), "time", "1s", "2s")
        windows = [[10], [20], [30], [40], [50], [60], [70]]
        found += seen(looking(windows, second=other, checkpoint=storage, windows=1))
    assert found == [(-1, 5), (5, 6), (6, 6), (6, 6), (6, 8), (8, 55), (55, 999)]


def test_an_application_window_passes_on_what_holds_for_its_results() -> None:
    class After(Look):
        pass

    app = in_a_row(
        Application("after", window="1s"),
        source=ListInput(Event, items(WINDOWS), "time", "5s"),
        wide=(Keep(), {"application_window_count": 3}),
        look=After(),
        sink=CollectorSink(Seen),
    )
    assert seen(run_local(app)) == [(-1, -1), (-1, -1), (-1, 5), (5, 5), (5, 5), (5, 999)]


class Keep(Operator):
    events = InputPort(Event)
    kept = OutputPort(Event)
    last = State(START)

    @events.process
    def keep(self, event: Event) -> None:
        self.last = event.time

    def end_window(self) -> None:
        self.kept.emit(Event(0, self.last))


class Clicks(InputOperator):
    clicks = OutputPort(Event, timestamp="time", lateness="1500ms")
    other = OutputPort(Event, timestamp="time", lateness=4, optional=True)
    position = State(0)

    def emit_tuples(self) -> None:
        self.clicks.emit(Event(0, at(10.0 * self.position)))
        self.position += 1
        if self.position == 3:
            self.finish()


def test_a_port_may_declare_its_lateness_and_the_greatest_holds() -> None:
    app = in_a_row(Application("clicks", window="1s"), source=Clicks(), look=Look(), sink=CollectorSink(Seen))
    assert seen(run_local(app)) == [(-1, -1), (-1, 6), (6, 999)]


def test_faults_of_lateness() -> None:
    app = Application("faulty")
    replay = FileReplayInput(path="no.csv", schema=Event, format="csv", lateness="soon", idle_after=-1)
    source = app.add_operator("source", replay)
    look = app.add_operator("look", Look())
    sink = app.add_operator("sink", CollectorSink(Seen))
    app.add_stream("clicks", source.output, look.first)
    app.add_stream("seen", look.seen, sink.input)
    with pytest.raises(ValidationError) as error:
        run_local(app)
    assert str(error.value).count("must be a number of seconds, or a text such as") == 2
    replay.lateness, replay.idle_after = "1s", None
    with pytest.raises(ValidationError, match="needs `timestamp`"):
        run_local(app)


class Microseconds(Operator):
    """The times of records as numbers, in batch form."""

    events = InputPort(Event)
    seen = OutputPort(Seen)

    @events.process_batch
    def see(self, batch: Any) -> None:
        times = self.context.batch_times()
        assert times is not None
        before = seconds(START + timedelta(microseconds=self.context.watermark_microseconds - micros(START)))
        for time in times.tolist():
            self.seen.emit(Seen(len(batch), before, (time - micros(START)) / 1e6))


def micros(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def test_a_batch_has_the_times_of_its_records() -> None:
    app = in_a_row(
        Application("times", window="1s", metrics_recording_level=RecordingLevel.OFF),
        source=ListInput(Event, items(WINDOWS), "time", "5s"),
        keep=(Filter(lambda event: event.time < at(30)), {"partitions": 3}),
        look=Microseconds(),
        sink=CollectorSink(Seen),
    )
    found = sorted((one.before, one.after) for one in run_local(app).collected("sink"))
    assert found == [(-1, 7), (-1, 10), (5, 6), (5, 12), (25, 29)]


def test_a_record_far_ahead_of_the_clock_moves_no_watermark() -> None:
    """By default a day; `time_ahead_limit` sets it."""
    year_9999 = (datetime(9999, 12, 31, tzinfo=UTC) - START).total_seconds()
    stream = [[], [10, year_9999, 7], [86_400, 6], [12, 30], [], [29]]
    run = looking(stream)
    assert seen(run)[:3] == [(-1, -1), (-1, 5), (5, 999)]  # a second less than a day ahead
    run = looking(stream, partitions=2, between=lambda _: False, attributes={"time_ahead_limit": "1h"})
    assert [seen(run, partition) for partition in range(2)] == [BY_HAND] * 2
    rows = {row["operator"]: row for row in run.watch.watermarks()["operators"]}
    assert {name: row["recordsAhead"] for name, row in rows.items() if row["recordsAhead"]} == {"source": 2}


def test_the_watermarks_say_who_holds_them_back() -> None:
    other = ListInput(Event, items([[7], [], [], [], [], [], []]), "time", "1s", "2s")
    windows = [[10], [20], [30], [40], [50], [60], [70]]
    run = looking(windows, second=other, windows=1)
    assert shown(run) == {
        "source": ("running", 5, [], []),
        "other": ("running", 6, [], []),
        "look": ("running", 5, ["source"], []),
        "sink": ("running", 5, ["source"], []),
    }
    assert shown(looking([[], *windows], second=other, windows=1))["look"] == (
        "waiting",
        None,
        ["source"],
        [],
    )
    assert shown(looking(windows, second=other, windows=5)) == {
        "source": ("running", 45, [], []),
        "other": ("idle", 6, [], ["other"]),
        "look": ("running", 45, ["source"], ["other"]),
        "sink": ("running", 45, ["source"], ["other"]),
    }
    assert shown(looking(windows, second=other))["sink"] == ("finished", None, [], [])
    lags = [row["lagSeconds"] for row in run.watch.watermarks()["operators"]]
    assert lags == [-5, -6, -5, -5]


def shown(run: Any) -> dict[str, Any]:
    return {
        row["operator"]: (
            row["state"],
            None if row["watermark"] is None else row["watermark"] - START.timestamp(),
            row["heldBackBy"],
            row["idleInputs"],
        )
        for row in run.watch.watermarks()["operators"]
    }

"""What a durable queue carries beside rows: record times, watermarks, idleness; results as without it."""

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, RidgelineError, State
from ridgeline.api.times import NO_TIME
from ridgeline.operators import QueueInput, QueueOutput, Windowed, aggregate, tumbling
from ridgeline.operators._queue_files import Entry, LogWriter, QueueFolder
from ridgeline.plan.edits import Repartition
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, SteppingClock, run_local
from support.depth import deep

START = datetime(2026, 3, 29, tzinfo=UTC)
ROOM = [HealthCheck.function_scoped_fixture]


class Click(NamedTuple):
    user: int
    number: int
    time: datetime


class Bare(NamedTuple):
    """A click without its time: a reader knows it from the queue alone."""

    user: int
    number: int


class Strip(Operator):
    clicks = InputPort(Click, key="user")
    bare = OutputPort(Bare)

    @clicks.process
    def on(self, click):
        self.bare.emit(Bare(click.user, click.number))


class Times(Operator):
    """Says what times its rows have, and by which watermark they came."""

    rows = InputPort(Any)
    seen = OutputPort(object)

    @rows.process_batch
    def on(self, batch):
        times = self.context.batch_times()
        found = [None] * len(batch) if times is None else times.tolist()
        for number, time in zip(batch.column("number").to_pylist(), found, strict=True):
            self.seen.emit((number, time))


def clicks(count, seed=7, lateness=20):
    """Clicks whose times go forth, each at most `lateness` seconds late; some without a time."""
    random = Random(seed)
    return [
        Click(
            random.randrange(9), number, START + timedelta(seconds=number + random.uniform(0, lateness - 1))
        )
        for number in range(count)
    ]


def in_windows(rows, a_window):
    lists = []
    for start in range(0, len(rows), a_window):
        lists += [*rows[start : start + a_window], END_WINDOW]
    return lists


def stream(app, rows, partitions, sources=1, idle_after=None):
    source = app.add_operator(
        "source", ListInput(Click, in_windows(rows, 13), "time", 20, idle_after), partitions=sources
    )
    strip = app.add_operator("strip", Strip(), partitions=partitions)
    app.add_stream("clicks", source.output, strip.clicks)
    return strip.bare


def written(path, rows, partitions=1, **options):
    app = Application("shop")
    bare = stream(app, rows, partitions, **options)
    queue = app.add_operator("queue", QueueOutput(path=path))
    app.add_stream("bare", bare, queue.input)
    return app


def counted(app, bare, partitions=1):
    """Clicks a user and minute."""
    values = {
        "start": aggregate.window_start(),
        "clicks": aggregate.count(),
        "total": aggregate.sum("number"),
    }
    window = app.add_operator(
        "window", Windowed(tumbling("60s"), key="user", values=values), partitions=partitions
    )
    sink = app.add_operator("sink", CollectorSink())
    late = app.add_operator("late", CollectorSink(Bare))
    app.add_stream("to_window", bare, window.input)
    app.add_stream("counts", window.output, sink.input)
    app.add_stream("late", window.late, late.input)
    return app


def read(path, partitions=1, windows=1, **properties):
    app = Application("board")
    queue = app.add_operator("queue", QueueInput(path=path, schema=Bare, **properties), partitions=partitions)
    return counted(app, queue.output, windows)


def results(run):
    assert run.collected("late") == []
    return sorted(
        tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in run.collected("sink")
    )


def without_queue(rows):
    app = Application("plain")
    return results(run_local(counted(app, stream(app, rows, 1))))


@pytest.mark.parametrize(
    ("written_by", "read_by"), [(1, 1), (1, 3), (2, 2), (2, 5), (3, 1), (3, 5), (5, 2), (5, 3)]
)
def test_windows_by_record_time_are_those_without_the_queue(tmp_path, written_by, read_by):
    rows = clicks(300)
    run_local(written(tmp_path, rows, written_by))

    assert results(run_local(read(tmp_path, read_by, 2))) == without_queue(rows)


@settings(max_examples=deep(2), deadline=None, suppress_health_check=ROOM)
@given(seed=st.integers(0, 2**32))
def test_stops_faults_and_repartition_of_both_sides(tmp_path, seed):
    random = Random(seed)
    folder = tmp_path / uuid4().hex
    rows = clicks(260, seed)
    found, windows = [], 0
    kinds = ("exception", "kill", "repeat", "restart")
    expected = without_queue(rows)
    while windows < 60 and len(found) < len(expected):
        windows += 1
        for role in ("writer", "reader"):
            many = random.choice([1, 2, 3, 5])
            app = written(folder / "queue", rows, many) if role == "writer" else read(folder / "queue", many)
            name = "strip" if role == "writer" else "queue"
            run = run_local(
                app,
                checkpoint=folder / role,
                windows=random.randrange(1, 7),
                faults=Faults(seed=random.randrange(2**32), rate=0.05, kinds=kinds),
                interleave=random.choice([None, random.randrange(1000)]),
                changes={random.randrange(3): [Repartition(name, random.choice([1, 2, 3, 5]))]},
            )
            if role == "reader":
                found += results(run)

    assert sorted(found) == expected


def test_results_come_as_the_watermark_passes_and_not_only_at_the_end(tmp_path):
    rows = clicks(300)
    run_local(written(tmp_path, rows, 2), checkpoint=tmp_path / "writer", windows=20)
    found = results(run_local(read(tmp_path, 2), checkpoint=tmp_path / "reader", windows=3))

    assert 0 < len(found) < len(without_queue(rows))
    assert found == without_queue(rows)[: len(found)] or set(found) < set(without_queue(rows))


class Quiet(InputOperator):
    """Partition 0 emits a click a window; the others emit one and are silent from then on."""

    output = OutputPort(Click, timestamp="time", lateness="1s")
    silence: float | None = None
    count = State(0, moves="least")

    def idle_seconds(self):
        return self.silence

    def emit_tuples(self):
        number = self.count
        self.count += 1
        if self.context.partition == 0 or number == 0:
            self.output.emit(Click(1, number, START + timedelta(seconds=number)))


def quiet(path, silence):
    app = Application("shop")
    source = app.add_operator("source", Quiet(silence), partitions=2)
    strip = app.add_operator("strip", Pass())
    queue = app.add_operator("queue", QueueOutput(path=path))
    app.add_stream("clicks", source.output, strip.clicks)
    app.add_stream("bare", strip.bare, queue.input)
    return app


class Pass(Strip):
    """In the partitions of what comes before."""

    clicks = InputPort(Click, parallel=True)

    @clicks.process
    def on(self, click):
        self.bare.emit(Bare(click.user, click.number))


@pytest.mark.parametrize("silence", [None, 10.0])
def test_idle_partitions_hold_nothing_back(tmp_path, silence):
    clock = SteppingClock()
    app = quiet(tmp_path / "queue", silence)
    run_local(app, checkpoint=tmp_path / "writer", windows=40, clock=clock)
    clock.advance(60)
    run_local(app, checkpoint=tmp_path / "writer", windows=100, clock=clock)
    found = results(run_local(read(tmp_path / "queue", 2), checkpoint=tmp_path / "reader", windows=3))

    assert bool(found) is (silence is not None)


def micros(time):
    return round(time.timestamp() * 1e6)


def times_of(path, partitions=1, **properties):
    """The numbers of all rows in a queue, with their times."""
    app = Application("board")
    queue = app.add_operator("queue", QueueInput(path=path, **properties), partitions=partitions)
    times = app.add_operator("times", Times())
    sink = app.add_operator("sink", CollectorSink(object))
    app.add_stream("rows", queue.output, times.rows)
    app.add_stream("seen", times.seen, sink.input)
    return dict(run_local(app).collected("sink"))


def test_the_reader_sees_the_times_of_its_rows(tmp_path):
    rows = clicks(40)
    run_local(written(tmp_path, rows, 2))

    assert times_of(tmp_path, 2) == {row.number: micros(row.time) for row in rows}


class Maybe(NamedTuple):
    number: int
    time: datetime | None


def straight(path, rows, **options):
    """A source right before the queue: its rows have their times in a column."""
    app = Application("shop")
    source = app.add_operator("source", ListInput(Maybe, rows, **options))
    queue = app.add_operator("queue", QueueOutput(path=path))
    app.add_stream("rows", source.output, queue.input)
    return app


MAYBE = [
    Maybe(0, START),
    Maybe(1, None),
    END_WINDOW,
    Maybe(2, datetime(1, 1, 1, tzinfo=UTC)),
    Maybe(3, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
]
OF_MAYBE = {
    row.number: None if row.time is None else micros(row.time) for row in MAYBE if row is not END_WINDOW
}


def test_times_in_a_column_take_no_room(tmp_path):
    run_local(straight(tmp_path / "timed", MAYBE, timestamp="time", lateness=5))
    run_local(straight(tmp_path / "plain", MAYBE))
    (timed,), (plain,) = ([*(tmp_path / name / "segments").iterdir()] for name in ("timed", "plain"))

    found = {
        number: None if time == NO_TIME else time for number, time in times_of(tmp_path / "timed").items()
    }
    assert found == OF_MAYBE
    assert timed.stat().st_size - plain.stat().st_size < 200
    assert set(times_of(tmp_path / "plain").values()) == {None}
    assert set(times_of(tmp_path / "plain", timestamp="time").values()) == {*OF_MAYBE.values()} - {None} | {
        NO_TIME
    }


def test_timestamp_of_the_reader_wins(tmp_path):
    class Twice(NamedTuple):
        number: int
        first: datetime
        second: datetime

    rows = [Twice(n, START, START + timedelta(seconds=n)) for n in range(5)]
    app = Application("shop")
    source = app.add_operator("source", ListInput(Twice, rows, "first", 0))
    queue = app.add_operator("queue", QueueOutput(path=tmp_path))
    app.add_stream("rows", source.output, queue.input)
    run_local(app)

    assert times_of(tmp_path) == {n: micros(START) for n in range(5)}
    assert times_of(tmp_path, timestamp="second") == {row.number: micros(row.second) for row in rows}


class Sum(Operator):
    """One row a window, of the newest and the oldest time of those that it was made of."""

    rows = InputPort(Maybe)
    sums = OutputPort(Bare)

    def begin_window(self, window_id):
        self.total = 0

    @rows.process
    def add(self, row):
        self.total += row.number

    def end_window(self):
        if self.total:
            self.sums.emit(Bare(0, self.total))


def ages(app, **options):
    """The greatest age of the newest and of the oldest time at a sink, since `START`."""
    clock = SteppingClock(START + timedelta(seconds=100))
    run = run_local(app, clock=clock, **options)
    names = "at", "minMs", "maxMs", "oldestMs", "count"
    return [
        tuple(row[name] for name in names)
        for row in run.watch.record_age()["operators"]
        if row["operator"] == "sink"
    ]


@pytest.mark.parametrize("level", ["TRACE", "INFO", "OFF"])
def test_ages_at_the_sink_are_those_without_the_queue(tmp_path, level):
    rows = [Maybe(1, START), Maybe(2, START + timedelta(seconds=50)), Maybe(3, None)]

    def application(name):
        app = Application(name)
        app.attributes["metrics_recording_level"] = level
        return app

    def summed(app):
        source = app.add_operator("source", ListInput(Maybe, rows, timestamp="time"))
        total = app.add_operator("sum", Sum())
        app.add_stream("rows", source.output, total.rows)
        return total.sums

    plain, shop, board = map(application, ("plain", "shop", "board"))
    sink = plain.add_operator("sink", CollectorSink(Bare))
    plain.add_stream("sums", summed(plain), sink.input)
    queue = shop.add_operator("queue", QueueOutput(path=tmp_path))
    shop.add_stream("sums", summed(shop), queue.input)
    run_local(shop)
    queue = board.add_operator("queue", QueueInput(path=tmp_path, schema=Bare))
    sink = board.add_operator("sink", CollectorSink(Bare))
    board.add_stream("sums", queue.output, sink.input)

    found = ages(board)
    assert found == ages(plain)
    assert bool(found) is (level != "OFF")


def test_a_queue_of_a_later_format_is_refused(tmp_path):
    run_local(written(tmp_path, clicks(2)))
    description = json.loads((tmp_path / "queue.json").read_text())
    (tmp_path / "queue.json").write_text(json.dumps({**description, "format": 3}))

    for app in (read(tmp_path), written(tmp_path, clicks(2))):
        with pytest.raises(
            RidgelineError, match="has files of format 3, this version reads 2; use the version"
        ):
            run_local(app)


def test_who_begins_in_the_middle_of_the_log_knows_the_watermarks(tmp_path):
    folder = QueueFolder(str(tmp_path))
    folder.make()
    marks = ((5, False), (7, True))
    entries = [
        Entry(number, number, 0.0, 0, (), False, marks if number == 0 else None) for number in range(5)
    ]
    LogWriter(folder).append(entries[:3], 2**30, 0.0)  # a file each
    LogWriter(folder).append(entries[3:], 2**30, 0.0)

    for first in range(5):
        assert folder.log_reader(first).read()[0].marks == marks


def test_a_reader_of_what_comes_next_knows_the_watermarks(tmp_path):
    rows = clicks(300)
    run_local(written(tmp_path / "queue", rows, 2), checkpoint=tmp_path / "writer", windows=20)
    app = read(tmp_path / "queue", 2, begin="latest")
    run = run_local(app, checkpoint=tmp_path / "reader", windows=1)
    seen = {row["operator"]: row["watermark"] for row in run.watch.watermarks()["operators"]}

    assert seen["window"] is not None

"""What a durable queue carries beside rows: record times, watermarks, idleness; results as without it."""

import json
from datetime import UTC, datetime, timedelta
from itertools import chain
from random import Random
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, InputPort, Operator, OutputPort, RidgelineError
from ridgeline.api.columns.arrow_stream import arrow_stream
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.support.sealed import seal
from ridgeline.api.times import NO_TIME, Times
from ridgeline.operators import QueueInput, QueueOutput, Windowed, aggregate, tumbling
from ridgeline.operators._queue_files import QueueFolder
from ridgeline.operators._queue_log import LogReader
from ridgeline.operators.queue_output import divided_times, plain_schema, united, with_times
from ridgeline.plan.edits import Repartition
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local
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


def stream(app, rows, partitions):
    source = app.read("source", ListInput(Click, in_windows(rows, 13), "time", 20))
    return source.process("strip", Strip(), partitions=partitions)


def written(path, rows, partitions=1):
    app = Application("shop")
    stream(app, rows, partitions).write("queue", QueueOutput(path=path))
    return app


def counted(app, bare):
    """Clicks a user and minute."""
    values = {
        "start": aggregate.window_start(),
        "clicks": aggregate.count(),
        "total": aggregate.sum("number"),
    }
    window = Windowed(tumbling("60s"), key="user", values=values)
    bare.process("window", window).write("sink", CollectorSink())
    app.stream(window.late).write("late", CollectorSink(Bare))
    return app


def read(path, partitions=1):
    app = Application("board")
    return counted(app, app.read("queue", QueueInput(path=path, schema=Bare), partitions=partitions))


def results(run):
    assert run.collected("late") == []
    return sorted(
        tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in run.collected("sink")
    )


def without_queue(rows):
    app = Application("plain")
    return results(run_local(counted(app, stream(app, rows, 1))))


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


def test_a_queue_of_a_later_format_is_refused(tmp_path):
    run_local(written(tmp_path, clicks(2)))
    description = {**json.loads((tmp_path / "queue.json").read_text()), "format": 7}
    del description["crc32"]
    (tmp_path / "queue.json").write_bytes(seal("queue.json", description))

    for app in (read(tmp_path), written(tmp_path, clicks(2))):
        with pytest.raises(
            RidgelineError, match="has format 7; this version reads 6; run it with the version"
        ):
            run_local(app)


def test_who_begins_in_the_middle_of_the_log_knows_the_watermarks(tmp_path):
    run_local(written(tmp_path, clicks(50)))
    entries = list(chain.from_iterable(iter(LogReader(QueueFolder(str(tmp_path)), 0).read, [])))
    assert len(entries) > 1
    assert all(entry.marks for entry in entries)


COLUMNS = pa.schema(
    [
        ("number", pa.int64()),
        ("kind", pa.dictionary(pa.int32(), pa.string())),
        ("at", pa.timestamp("ns", "Europe/Berlin")),
        ("__newest", pa.int64()),
    ]
)
KINDS = "none", "column", "same", "newest", "both", "one"


def made(random, kind, first):
    """A batch, and the newest and oldest time of each row."""
    count = random.randrange(1, 9)
    at = [random.choice([None, random.randrange(-(10**9), 10**9)]) for _ in range(count)]
    numbers = range(first, first + count)
    columns = [
        pa.array(numbers),
        pa.array([random.choice("abc") for _ in numbers]).dictionary_encode(),
        pa.array([None if time is None else time * 1000 + 999 for time in at], COLUMNS.field("at").type),
        pa.array([7] * count),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=COLUMNS.with_metadata({"ridgeline.times": "newest"}))
    if kind == "none":
        return batch, Tuples.of_batch(Schema(COLUMNS), batch), [(NO_TIME, NO_TIME)] * count
    if kind == "column":
        found = [NO_TIME if time is None else time for time in at]
        return batch, Tuples.of_batch(Schema(COLUMNS), batch, "at"), list(zip(found, found, strict=True))
    newest = np.array([random.choice([NO_TIME, random.randrange(10**6)]) for _ in numbers], np.int64)
    if kind == "one":
        newest = np.broadcast_to(np.int64(5), count)
    oldest = np.where(newest == NO_TIME, NO_TIME, newest - 3) if kind in {"both", "one"} else None
    times = Times(newest, oldest)
    return (
        batch,
        Tuples.of_batch(Schema(COLUMNS), batch, times),
        list(zip(newest.tolist(), (newest if oldest is None else oldest).tolist(), strict=True)),
    )


@pytest.mark.parametrize("seed", range(60))
def test_rows_and_times_come_back(seed):
    random = Random(seed)
    kinds = random.choice([[random.choice(KINDS)], KINDS])
    stored, expected, rows = [], [], []
    for _ in range(random.randrange(1, 6)):
        batch, tuples, times = made(random, random.choice(kinds), len(expected))
        stored.append(with_times(batch, tuples))
        expected += times
        rows += batch.to_pylist()
    batches = list(pa.ipc.open_stream(arrow_stream(united(stored))))

    found = []
    for batch in batches:
        plain, times = divided_times(batch)
        assert plain.schema.equals(COLUMNS)
        found += [(row, *time) for row, time in zip(plain.to_pylist(), pairs(plain, times), strict=True)]
    assert found == [(row, *time) for row, time in zip(rows, expected, strict=True)]
    assert plain_schema(batches[0]).equals(COLUMNS, check_metadata=True)


def pairs(batch, times):
    if isinstance(times, str):
        times = Tuples.of_batch(Schema(COLUMNS), batch, times).times
    if times is None:
        return [(NO_TIME, NO_TIME)] * len(batch)
    oldest = times.newest if times.oldest is None else times.oldest
    return list(zip(times.newest.tolist(), oldest.tolist(), strict=True))

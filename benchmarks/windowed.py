"""`Windowed` beside Bytewax's windows on the same data: tumbling, sliding and session windows.

Counts and sums of 100 keys, of records that come up to 5 s out of order. Each runs in one process and reads
what is in memory: ours Arrow batches, Bytewax Python tuples, which are made before the time is taken. CPU
time counts, so a busy machine does little harm. Each result is checked against one by pandas.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.frame import OURS, Benchmark, Figures, Goal, Round
from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.operators import Session, Sliding, Windowed, aggregate, session, sliding, tumbling
from ridgeline.testing import run_local

ROWS, QUICK_ROWS, KEYS, BATCH_ROWS = 400_000, 20_000, 100, 65_536
MINUTE, LATENESS, GAP = timedelta(minutes=1), timedelta(seconds=5), timedelta(milliseconds=350)
START = datetime(2026, 1, 1, tzinfo=UTC)
RATE = "records per CPU second/s"
EVENTS = pa.schema([("key", pa.string()), ("value", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
Results = set[tuple[str, datetime, int, int]]
"""Key, start of the window, number of its records, their sum."""


@dataclass(frozen=True)
class Windows:
    """What both compute: `windows` for us, and `windower` makes Bytewax's."""

    windows: Sliding | Session
    windower: Callable[[Any], Any]
    slide: timedelta = MINUTE
    copies: int = 1


KINDS = {
    "tumbling": Windows(tumbling(MINUTE), lambda of: of.TumblingWindower(length=MINUTE, align_to=START)),
    "sliding": Windows(
        sliding(MINUTE, MINUTE / 4),
        lambda of: of.SlidingWindower(length=MINUTE, offset=MINUTE / 4, align_to=START),
        MINUTE / 4,
        4,
    ),
    "session": Windows(session(GAP), lambda of: of.SessionWindower(gap=GAP)),
}


def batches_of(of_round: Round) -> list[pa.RecordBatch]:
    """A record a millisecond, each up to 5 s late."""
    rows = QUICK_ROWS if of_round.quick else ROWS
    random = np.random.default_rng(7)
    begin = int(START.timestamp() * 1_000_000)
    times = begin + np.arange(rows) * 1_000 - random.integers(0, 5_000_000, rows)
    columns = [
        pa.array([f"key{key}" for key in random.integers(0, KEYS, rows).tolist()]),
        pa.array(random.integers(0, 1_000, rows)),
        pa.array(np.maximum(times, begin)).cast(EVENTS.field("time").type),
    ]
    return list(pa.table(columns, schema=EVENTS).to_batches(max_chunksize=BATCH_ROWS))


def by_pandas(kind: str, batches: list[pa.RecordBatch], *, joins_at_gap: bool) -> Results:
    """The same on the sorted data. `joins_at_gap`: whether records that are as far apart share a session."""
    frame = pa.Table.from_batches(batches).to_pandas().sort_values(["key", "time"])
    windows = KINDS[kind]
    if kind == "session":
        apart = frame["time"].diff()
        new = (apart > GAP if joins_at_gap else apart >= GAP) | (frame["key"] != frame["key"].shift())
        frame["start"] = frame.groupby(new.cumsum())["time"].transform("min")
        parts = [frame]
    else:
        first = frame["time"].dt.floor(windows.slide)
        parts = [frame.assign(start=first - number * windows.slide) for number in range(windows.copies)]
    found = pd.concat(parts).groupby(["key", "start"])["value"].agg(["size", "sum"]).reset_index()
    return {
        (key, start.to_pydatetime(), count, total)
        for key, start, count, total in found.itertuples(index=False)
    }


class Batches(InputOperator):
    """A batch a window."""

    events = OutputPort(EVENTS, timestamp="time", lateness=LATENESS.total_seconds())
    held: list[Any]
    position = State(0)

    def emit_tuples(self) -> None:
        """Emit the next batch."""
        self.events.emit_batch(self.held[self.position])
        self.position += 1
        if self.position == len(self.held):
            self.finish()


FOUND: list[pa.RecordBatch] = []
"""The results of ours."""


class Keep(Operator):
    """Keeps the results."""

    results = InputPort(Any)

    @results.process_batch
    def keep(self, batch: pa.RecordBatch) -> None:
        """Keep a batch of results."""
        FOUND.append(batch)


def ours(of_round: Round, kind: str) -> Figures:
    """In the in-process runner, with its commits in memory."""
    batches = batches_of(of_round)
    app = Application("windowed", window=0)
    source = app.add_operator("source", Batches(held=batches))
    values = {
        "start": aggregate.window_start(),
        "count": aggregate.count(),
        "sum": aggregate.sum("value"),
    }
    windowed = app.add_operator("windowed", Windowed(KINDS[kind].windows, key="key", values=values))
    keep = app.add_operator("keep", Keep())
    app.add_stream("events", source.events, windowed.input)
    app.add_stream("results", windowed.output, keep.results)
    began = time.process_time()
    run_local(app)
    seconds = time.process_time() - began
    rows = (tuple(row.values()) for batch in FOUND for row in batch.to_pylist())
    return checked(of_round, kind, seconds, rows, joins_at_gap=False)


def bytewax(of_round: Round, kind: str) -> Figures:
    """`fold_window` with an `EventClock`.

    Its watermark goes on by the computer's clock between records, so it waits for a second more.
    """
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.operators import windowing
    from bytewax.testing import TestingSink, TestingSource, run_main

    items = [
        (row["key"], (row["value"], row["time"].astimezone(UTC)))
        for batch in batches_of(of_round)
        for row in batch.to_pylist()
    ]
    flow = Dataflow("windowed")
    stream = op.input("in", flow, TestingSource(items, batch_size=1_000))
    wait = LATENESS + timedelta(seconds=1)
    clock = windowing.EventClock(lambda item: item[1], wait_for_system_duration=wait)
    out: list[Any] = []
    windows = KINDS[kind]
    folded = (
        windowing.fold_window("fold", stream, clock, windows.windower(windowing), *_WITH_START)
        if kind == "session"
        else windowing.fold_window("fold", stream, clock, windows.windower(windowing), *_COUNT_AND_SUM)
    )
    op.output("out", folded.down, TestingSink(out))
    began = time.process_time()
    run_main(flow)
    seconds = time.process_time() - began
    rows = (
        (key, total[2] if kind == "session" else START + number * windows.slide, *total[:2])
        for key, (number, total) in out
    )
    return checked(of_round, kind, seconds, rows, joins_at_gap=True)


_LATEST = datetime.max.replace(tzinfo=UTC)
_COUNT_AND_SUM = (
    lambda: (0, 0),
    lambda total, item: (total[0] + 1, total[1] + item[0]),
    lambda one, other: (one[0] + other[0], one[1] + other[1]),
)
_WITH_START = (  # its number says nothing of when a session began
    lambda: (0, 0, _LATEST),
    lambda total, item: (total[0] + 1, total[1] + item[0], min(total[2], item[1])),
    lambda one, other: (one[0] + other[0], one[1] + other[1], min(one[2], other[2])),
)


def checked(
    of_round: Round, kind: str, seconds: float, rows: Iterator[Any], *, joins_at_gap: bool
) -> Figures:
    """The rate, if the results are right. Raises AssertionError."""
    batches = batches_of(of_round)
    found, expected = list(rows), by_pandas(kind, batches, joins_at_gap=joins_at_gap)
    if len(found) != len(expected) or set(found) != expected:
        raise AssertionError(
            f"{len(set(found) ^ expected)} of {len(expected)} windows differ from those of pandas"
        )
    of_round.note(f"{len(found)} windows, all as of pandas; {seconds:.2f} CPU seconds")
    return {RATE: [sum(map(len, batches)) / seconds]}


BENCHMARKS = tuple(
    Benchmark(
        name=f"windowed-{kind}",
        title=f"{kind} windows of record time, counts and sums of 100 keys, records a CPU second",
        contestants={OURS: partial(ours, kind=kind), "bytewax": partial(bytewax, kind=kind)},
        goals=(Goal(figure=RATE, against="bytewax", at_least=3.0),),
        part_of_all=False,
    )
    for kind in KINDS
)

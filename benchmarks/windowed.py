"""`Windowed` beside Bytewax's windows on the same data: `python -m benchmarks.windowed [ROWS]`.

Counts and sums of 100 keys in tumbling windows of a minute, of records that come up to 5 s out of order. Both
run in one process and read batches that are in memory; CPU time counts, so a busy machine does little harm.
The results are compared. The goal: at least three times as many records a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.operators import Windowed, aggregate, tumbling
from ridgeline.testing import run_local

KEYS, BATCH_ROWS = 100, 65_536
MINUTE, LATENESS = timedelta(minutes=1), timedelta(seconds=5)
START = datetime(2026, 1, 1, tzinfo=UTC)
EVENTS = pa.schema([("key", pa.string()), ("value", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
Results = dict[tuple[str, datetime], tuple[int, int]]
"""By key and start of the window: the number of records, and their sum."""


def batches_of(rows: int) -> list[pa.RecordBatch]:
    """A record a millisecond, each up to 5 s late."""
    random = np.random.default_rng(7)
    begin = int(START.timestamp() * 1_000_000)
    times = begin + np.arange(rows) * 1_000 - random.integers(0, 5_000_000, rows)
    columns = [
        pa.array([f"key{key}" for key in random.integers(0, KEYS, rows).tolist()]),
        pa.array(random.integers(0, 1_000, rows)),
        pa.array(np.maximum(times, begin)).cast(EVENTS.field("time").type),
    ]
    table = pa.table(columns, schema=EVENTS)
    return list(table.to_batches(max_chunksize=BATCH_ROWS))


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


FOUND: Results = {}
"""Of the last run of ours."""


class Keep(Operator):
    """Keeps the results."""

    results = InputPort(Any)

    @results.process_batch
    def keep(self, batch: pa.RecordBatch) -> None:
        """Keep a batch of results."""
        for row in batch.to_pylist():
            FOUND[row["key"], row["start"]] = row["count"], row["sum"]


def ours(batches: list[pa.RecordBatch]) -> Results:
    """In the in-process runner, with its commits in memory."""
    app = Application("windowed", window=0)
    source = app.add_operator("source", Batches(held=batches))
    values = {
        "start": aggregate.window_start(),
        "count": aggregate.count(),
        "sum": aggregate.sum("value"),
    }
    windowed = app.add_operator("windowed", Windowed(tumbling(60), key="key", values=values))
    keep = app.add_operator("keep", Keep())
    app.add_stream("events", source.events, windowed.input)
    app.add_stream("results", windowed.output, keep.results)
    FOUND.clear()
    run_local(app)
    return dict(FOUND)


def bytewax(batches: list[pa.RecordBatch]) -> Results:
    """`fold_window` with an `EventClock`; items are made of the batches once, before the time is taken.

    Its watermark goes on by the computer's clock between records, so it gets a second more.
    """
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.operators import windowing
    from bytewax.testing import TestingSink, TestingSource, run_main

    items = [
        (row["key"], (row["value"], row["time"].astimezone(UTC)))
        for batch in batches
        for row in batch.to_pylist()
    ]
    flow = Dataflow("windowed")
    stream = op.input("in", flow, TestingSource(items, batch_size=1_000))
    clock = windowing.EventClock(
        lambda item: item[1], wait_for_system_duration=LATENESS + timedelta(seconds=1)
    )
    windower = windowing.TumblingWindower(length=MINUTE, align_to=START)
    folded = windowing.fold_window(
        "fold",
        stream,
        clock,
        windower,
        lambda: (0, 0),
        lambda total, item: (total[0] + 1, total[1] + item[0]),
        lambda one, other: (one[0] + other[0], one[1] + other[1]),
    )
    out: list[Any] = []
    op.output("out", folded.down, TestingSink(out))
    global _begun  # noqa: PLW0603  the items are made
    _begun = time.process_time()
    run_main(flow)
    return {(key, START + number * MINUTE): total for key, (number, total) in out}


_begun = 0.0


def measured(
    run: Callable[[list[pa.RecordBatch]], Results], batches: list[pa.RecordBatch]
) -> tuple[float, Results]:
    """CPU seconds of a run, and what it found."""
    global _begun  # noqa: PLW0603  see `bytewax`
    _begun = time.process_time()
    found = run(batches)
    return time.process_time() - _begun, found


def main() -> int:
    """Run both and compare."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    batches = batches_of(rows)
    measured(ours, batches[:2])
    seconds, found = measured(ours, batches)
    print(f"ridgeline  {rows / seconds:12,.0f} records per CPU second")
    theirs, expected = measured(bytewax, batches)
    print(f"bytewax    {rows / theirs:12,.0f} records per CPU second")
    print(f"ratio      {theirs / seconds:12.1f}")
    if found != expected:
        print(f"the results differ in {len(set(found.items()) ^ set(expected.items()))} windows")
    return int(found != expected or theirs < 3 * seconds)


if __name__ == "__main__":
    sys.exit(main())

"""Catching up: windows that adapt beside one window that is as large as all that waits.

`catch-up`: rows wait in memory, or in files, when the first window is committed. The rate is that from then
on to the commit of the last one. Two operators follow, over a stream by key. `catch-up-age`: rows arrive at a
steady rate; the age is that of the oldest row of a window when the window is committed. After a backlog it
must be what it is without one.
"""

from __future__ import annotations

import shutil
import threading
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks import spark
from benchmarks.frame import Benchmark, Figures, Goal, Round
from ridgeline import Application, InputPort, Operator, OutputPort, Publisher
from ridgeline.connect import PartitionedInput, Source, SourceReader
from ridgeline.operators import FileInput

RATE, P50, P99 = "rows/s", "p50 age seconds", "p99 age seconds"
ROW = pa.schema([("key", pa.int64()), ("value", pa.float64()), ("created", pa.float64())])
_ROWS, _FILE_ROWS, _FILES = 30_000_000, 500_000, 40
_FIRST = 1_000
"""Rows of the first window: once it is committed all others are there."""
_PARTS = 2
_PER_SECOND, _SECONDS = 20_000, 15.0
_SETTLED_SECONDS = 1.0
_WHOLE = {"window_records": 2**46, "window_bytes": 2**46}
"""More than all that waits."""
_AT_ONCE = 65_536


def rows_of(start: int, end: int, since: float, backlog: int) -> pa.RecordBatch:
    """Rows of a part; those of the backlog are as old as the run."""
    numbers = np.arange(start, end)
    created = since + np.maximum(0.0, numbers - backlog) * _PARTS / _PER_SECOND
    return pa.RecordBatch.from_arrays(
        [pa.array(one) for one in (numbers % 1_000, numbers / 8, created)], schema=ROW
    )


class MemorySource(Source):
    """Computed rows: a backlog, which is there once a first window is committed, and a steady rate."""

    poll_seconds: ClassVar[float] = 0.002

    def __init__(self, backlog: int, seconds: float) -> None:
        self._backlog, self._seconds = backlog, seconds
        self._since = time.time()
        self._released = False

    def partitions(self) -> list[str]:
        """The name has what the reader needs."""
        return [f"{number}:{self._since}:{self._backlog}" for number in range(_PARTS)]

    def ends(self, wait: float) -> dict[str, int]:
        """The first rows; then the backlog and what has arrived by now."""
        if not self._released:
            return dict.fromkeys(self.partitions(), _FIRST)
        arrived = int(min(self._seconds, time.time() - self._since) * _PER_SECOND / _PARTS)
        return dict.fromkeys(self.partitions(), self._backlog + arrived + _FIRST)

    def finished(self) -> bool:
        """Once all has arrived."""
        return self._released and time.time() - self._since > self._seconds

    def start(self, partitions: Sequence[str], begin: Any) -> dict[str, int]:
        """At the first row."""
        return dict.fromkeys(partitions, 0)

    def committed(self, positions: Mapping[str, int]) -> None:
        """The first window is: let all others be there."""
        self._released = True


class MemoryReader(SourceReader):
    """Computes the rows."""

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """In batches."""
        _, since, backlog = part.partition.split(":")
        for start in range(part.start, part.end, _AT_ONCE):
            end = min(part.end, start + _AT_ONCE)
            yield rows_of(start, end, float(since), int(backlog) + _FIRST)


class MemoryInput(PartitionedInput[Any]):
    """A backlog, and rows at a steady rate for some seconds."""

    output = OutputPort(ROW)
    backlog: int
    seconds: float = 0.0

    def source(self) -> Source:
        """The driver's half."""
        return MemorySource(self.backlog, self.seconds)

    def reader(self) -> SourceReader:
        """The container's half."""
        return MemoryReader()


class Arrived(Publisher):
    """By committed window: when it was, how many rows have arrived, when the oldest was created."""

    moments, created = array("d"), array("d")
    counts = array("q")

    def __init__(self) -> None:
        self._staged: list[tuple[int, float]] = []

    def stage(self, window_id: int, values: Sequence[tuple[int, float]]) -> None:
        """Keep it until the commit."""
        self._staged.extend(values)

    def publish(self, window_id: int) -> None:
        """Add it."""
        rows = sum(count for count, _ in self._staged)
        if rows:
            Arrived.moments.append(time.time())
            Arrived.counts.append(rows + (Arrived.counts[-1] if Arrived.counts else 0))
            Arrived.created.append(min(oldest for count, oldest in self._staged if count))
        self._staged.clear()


class Sum(Operator):
    """The sums of a window by key."""

    data = InputPort(ROW, key="key")
    sums = OutputPort(ROW)

    @data.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch up."""
        found = (
            pa.table(batch)
            .group_by("key")
            .aggregate([("value", "sum"), ("created", "min"), ("key", "count")])
        )
        counts = found["key_count"].cast(pa.float64())
        columns = [found["key"], counts, found["created_min"]]
        for one in pa.Table.from_arrays(columns, schema=ROW).to_batches():
            self.sums.emit_batch(one)


class Sink(Operator):
    """Counts the rows that went into sums."""

    sums = InputPort(ROW)

    def begin_window(self, window_id: int) -> None:
        """Nothing yet."""
        self.counted, self.oldest = 0, float("inf")

    @sums.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Count a batch."""
        self.counted += int(batch.column("value").to_numpy().sum())
        self.oldest = min(self.oldest, float(batch.column("created").to_numpy().min()))

    def end_window(self) -> None:
        """Hand over what there was."""
        self.context.hand_over((self.counted, self.oldest))

    def publisher(self) -> Arrived:
        """The driver's half."""
        return Arrived()


def _started(of_round: Round, source: Any, window: str, *, bounded: bool) -> Any:
    app = Application("catch-up", window=window, window_work=None if bounded else "1h")
    sums = app.read("rows", source, partitions=_PARTS).process("sums", Sum())
    sums.write("sink", Sink())
    return app.start(spark.MASTER, port=None, quiet=True, checkpoint=str(of_round.folder / "checkpoint"))


def _rate(of_round: Round, wanted: int) -> Figures:
    """The rate from the first commit to the last. Raises ValueError for a wrong number of rows."""
    if Arrived.counts[-1] != wanted:
        raise ValueError(f"{wanted} rows were there; got {Arrived.counts[-1]}")
    seconds = Arrived.moments[-1] - Arrived.moments[0]
    of_round.note(f"{len(Arrived.moments)} windows in {seconds:.2f} s")
    return {RATE: [(wanted - Arrived.counts[0]) / seconds]}


def memory(of_round: Round, *, bounded: bool) -> Figures:
    """A backlog in memory."""
    count = 1_000_000 if of_round.quick else _ROWS
    with _started(of_round, MemoryInput(count // _PARTS, **_WHOLE), "10ms", bounded=bounded) as handle:
        handle.wait()
    return _rate(of_round, count + _PARTS * _FIRST)


def prepare(of_round: Round) -> None:
    """Write the files."""
    count = 50_000 if of_round.quick else _FILE_ROWS
    (of_round.data / "files").mkdir()
    for number in range(_FILES):
        rows = rows_of(number * count, (number + 1) * count, 0.0, 0)
        pyarrow.csv.write_csv(rows, of_round.data / "files" / f"{number:02}.csv")
    pyarrow.csv.write_csv(rows_of(0, _FIRST, 0.0, 0), of_round.data / "first.csv")


def files(of_round: Round, *, bounded: bool) -> Figures:
    """Files that appear once a first one is read."""
    count = _FILES * (50_000 if of_round.quick else _FILE_ROWS)
    folder = of_round.folder / "read"
    folder.mkdir()
    shutil.copy(of_round.data / "first.csv", folder)
    source = FileInput(str(folder), ROW, format="csv", settle=0, discover_every=0.02, **_WHOLE)
    with _started(of_round, source, "10ms", bounded=bounded) as handle:
        _await(1)
        for file in sorted(Path(of_round.data / "files").iterdir()):
            (folder / file.name).hardlink_to(file)
        _await(count + _FIRST)
        handle.stop()
    return _rate(of_round, count + _FIRST)


def _await(count: int) -> None:
    """Wait until so many rows have arrived."""
    pause = threading.Event()
    while not Arrived.counts or Arrived.counts[-1] < count:
        pause.wait(0.01)


def ages(of_round: Round, *, backlog: int) -> Figures:
    """The ages of rows that arrive at a steady rate, once a backlog is worked off."""
    seconds = 4.0 if of_round.quick else _SECONDS
    backlog = min(backlog, 1_000_000) if of_round.quick else backlog
    source = MemoryInput(backlog // _PARTS, seconds=seconds)
    with _started(of_round, source, "10ms", bounded=True) as handle:
        handle.wait()
    moments, created, counts = (np.array(one) for one in (Arrived.moments, Arrived.created, Arrived.counts))
    waited = moments - created
    done = moments[np.argmax((counts > backlog) & (waited < 1.0))] + _SETTLED_SECONDS
    found = waited[moments > done]
    of_round.note(
        f"{len(found)} windows from {done - moments[0]:.1f} s on, the oldest {found.max() * 1e3:.1f} ms"
    )
    p50, p99 = np.percentile(found, [50, 99])
    return {P50: [float(p50)], P99: [float(p99)]}


BENCHMARKS = (
    Benchmark(
        name="catch-up",
        title="catch-up: a backlog in windows that adapt, beside one window for all of it",
        contestants={
            "memory": partial(memory, bounded=True),
            "memory, one window": partial(memory, bounded=False),
            "files": partial(files, bounded=True),
            "files, one window": partial(files, bounded=False),
        },
        goals=[
            Goal(figure=RATE, of="memory", against="memory, one window", at_least=0.9),
            Goal(figure=RATE, of="files", against="files, one window", at_least=0.9),
        ],
        rounds=3,
        budget_seconds=300,
        prepare=prepare,
        part_of_all=False,
    ),
    Benchmark(
        name="catch-up-age",
        title="catch-up-age: the age of rows at 20,000/s, after a backlog and without one",
        contestants={
            "after a backlog": partial(ages, backlog=10_000_000),
            "steady": partial(ages, backlog=0),
        },
        goals=[Goal(figure=P99, of="after a backlog", against="steady", at_most=1.25)],
        rounds=3,
        budget_seconds=300,
        part_of_all=False,
    ),
)

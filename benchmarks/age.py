"""Age of a record when a reader sees its result: 1,000 records a second, a running sum of 1,000 keys.

All contestants get the same lines as they are written, and answer with a row for each key that a window
changed: its sum so far and its newest record. The sink's clock is read on the driver: of ours when a window
is committed and published, of the others when the rows of a micro-batch are collected, which is before Spark
logs its commit. From a key's newest record and the one before it follows which records a row shows for the
first time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.feed import RECORDS_PER_SECOND, feeding
from benchmarks.frame import WARM_UP, Benchmark, Figures, Goal, Round
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.api.publisher import Publisher

KEYS = 1_000
VALUES = 7
"""Record n has the key n % KEYS and the value n % VALUES."""
WARM_UP_SECONDS = 10.0
LONGEST_WARM_UP_SECONDS = 30.0
"""For contestants that need longer for the first windows."""
MEASURED_SECONDS = 20.0


class Record(NamedTuple):
    number: int
    created: int
    key: int
    value: int


class Total(NamedTuple):
    key: int
    number: int
    created: int
    total: int


class Seen:
    """What the reader has seen: for each window the sink's clock and its rows. Says when that is enough."""

    def __init__(self, *, quick: bool) -> None:
        self.warm_up_seconds, self.measured_seconds, self.warm_up = (
            (2.0, 3.0, 4) if quick else (WARM_UP_SECONDS, MEASURED_SECONDS, WARM_UP)
        )
        self.enough = threading.Event()
        self._windows: list[tuple[float, npt.NDArray[np.int64]]] = []
        self._from = float("inf")  # warm from here, seconds since 1970

    def add(self, columns: Sequence[Sequence[Any]]) -> None:
        """The rows of a window, as columns of `Total`, can be read from now on."""
        now = time.time()
        self._windows.append((now, np.asarray(columns, np.int64).reshape(4, -1)))
        since = now - self._windows[0][0]
        warm = (
            len(self._windows) > self.warm_up and since >= self.warm_up_seconds
        ) or since >= LONGEST_WARM_UP_SECONDS
        if self._from == float("inf") and warm:
            self._from = now
        if len(columns[2]) and max(columns[2]) / 1e6 > self._from + self.measured_seconds:
            self.enough.set()

    def figures(self) -> Figures:
        """Ages of all records created within the measured time.

        Raises ValueError if a sum or a record's time is not right.
        """
        newest = np.arange(KEYS) - KEYS  # of each key
        ages = []
        for now, (keys, numbers, created, totals) in self._windows:
            if (
                len(np.unique(keys)) != len(keys)
                or (numbers % KEYS != keys).any()
                or (totals != _expected(numbers)).any()
            ):
                raise ValueError(
                    "the sums of a window are not those of its records; "
                    f"got keys {keys[:5]}, numbers {numbers[:5]}, totals {totals[:5]}"
                )
            for key, number, its_time in zip(keys, numbers, created, strict=True):
                shown = np.arange(newest[key] + KEYS, number + 1, KEYS)
                times = its_time / 1e6 - (number - shown) / RECORDS_PER_SECOND
                ages += (
                    now - times[(times >= self._from) & (times < self._from + self.measured_seconds)]
                ).tolist()
                newest[key] = number
        if (
            abs(len(ages) - self.measured_seconds * RECORDS_PER_SECOND) > KEYS
        ):  # of the last windows' keys, some come with the next one
            raise ValueError(f"the records of {self.measured_seconds:g} s are to be seen; got {len(ages)}")
        ends = [now for now, _ in self._windows if now >= self._from]
        p50, p99 = np.percentile(ages, [50, 99])
        return {"p50 age seconds": [p50], "p99 age seconds": [p99], "window seconds": np.diff(ends).tolist()}


def _expected(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The sum of a key's values up to a record. KEYS and VALUES are coprime: values repeat."""
    whole, rest = np.divmod(numbers // KEYS + 1, VALUES)
    first = (np.arange(VALUES)[None, :] * KEYS + (numbers % KEYS)[:, None]) % VALUES
    partial = np.where(np.arange(VALUES)[None, :] < rest[:, None], first, 0).sum(axis=1)
    return whole * (VALUES * (VALUES - 1) // 2) + partial


class Lines(InputOperator):
    """What a file has got since the last window, a tuple a line: a window has one to three of them."""

    output = OutputPort(Record)
    path: str
    position = State(0)

    def emit_tuples(self) -> None:
        with Path(self.path).open("rb") as file:
            file.seek(self.position)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self.position += len(text)
        for line in text.splitlines():
            number, created = map(int, line.split(b","))
            self.output.emit(Record(number, created, number % KEYS, number % VALUES))


class Sum(Operator):
    """Running sum of each key; a row for each that the window has changed."""

    data = InputPort(Record, key="key")
    totals = OutputPort(Total)
    sums = KeyedState(int, default=0)

    def begin_window(self, window_id: int) -> None:
        self.newest: dict[int, Record] = {}

    @data.process
    def add(self, record: Record) -> None:
        self.sums[record.key] += record.value
        self.newest[record.key] = record

    def end_window(self) -> None:
        for key, record in self.newest.items():
            self.totals.emit(Total(key, record.number, record.created, self.sums[key]))


class Show(Operator):
    """Hands the rows of each window over to the reader."""

    totals = InputPort(Total, parallel=True)

    def begin_window(self, window_id: int) -> None:
        self.rows: list[Total] = []

    @totals.process
    def take(self, total: Total) -> None:
        self.rows.append(total)

    def end_window(self) -> None:
        if self.rows:
            self.context.hand_over(list(zip(*self.rows, strict=True)))

    def publisher(self) -> Reader:
        return Reader()


class Reader(Publisher):
    """Looks at the clock when the rows are published, be it of one window or of several of one commit."""

    groups_windows = True
    seen: Seen
    """One process runs one application."""

    def __init__(self) -> None:
        self._staged: list[Any] = []

    def stage(self, window_id: int, values: Sequence[Any]) -> None:
        self._staged += values

    def publish(self, window_id: int) -> None:
        parts, self._staged = self._staged, []
        self.seen.add(np.concatenate(parts, axis=1) if parts else np.empty((4, 0)))  # type: ignore[arg-type]


def ours(of_round: Round) -> Figures:
    """One partition and one window at a time: with more under way, windows wait for each other."""
    from benchmarks import ours

    Reader.seen = Seen(quick=of_round.quick)
    path = of_round.folder / "records.csv"
    path.touch()
    app = Application("age", window=0)
    lines = app.add_operator("lines", Lines(path=str(path)))
    sums = app.add_operator("sum", Sum())
    show = app.add_operator("show", Show())
    app.add_stream("records", lines.output, sums.data)
    app.add_stream("totals", sums.totals, show.totals)
    with feeding("file", path):
        ours.run(of_round, app, None, stop=Reader.seen.enough, attributes={"windows_in_flight": 1})
    return Reader.seen.figures()


def _records(of_round: Round) -> Any:
    """The lines as a streaming DataFrame of `Record`, from Spark's socket source."""
    from benchmarks import spark

    session = spark.session("age", spark.ROCKS)
    path = of_round.folder / "port"
    while not path.exists():
        time.sleep(0.01)
    lines = (
        session.readStream.format("socket")
        .option("host", "127.0.0.1")
        .option("port", path.read_text())
        .load()
    )
    record = lines.selectExpr(
        "cast(split_part(value, ',', 1) as long) as number",
        "cast(split_part(value, ',', 2) as long) as created",
    )
    return record.selectExpr("number", "created", f"number % {KEYS} as key", f"number % {VALUES} as value")


def _watch(of_round: Round, frame: Any) -> Figures:
    """Run a query of `Total` until enough is seen."""
    seen = Seen(quick=of_round.quick)

    def collect(batch: Any, _number: int) -> None:
        rows = batch.collect()
        seen.add(list(zip(*rows, strict=True)) if rows else np.empty((4, 0)))  # type: ignore[arg-type]

    writer = frame.writeStream.outputMode("update").option(
        "checkpointLocation", str(of_round.folder / "checkpoint")
    )
    query = writer.foreachBatch(collect).start()
    while not seen.enough.wait(0.5):
        if not query.isActive:
            raise RuntimeError(f"the query ended: {str(query.exception())[:500]}")
    return seen.figures()


def native(of_round: Round) -> Figures:
    with feeding("socket", of_round.folder / "port"):
        from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

        groups = _records(of_round).groupBy("key")
        totals = [
            F.max("number").alias("number"),
            F.max("created").alias("created"),
            F.sum("value").alias("total"),
        ]
        return _watch(of_round, groups.agg(*totals))


def add_up(key: tuple[Any, ...], frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """Running sum of one key, as a function for `applyInPandasWithState`."""
    import pandas as pd

    total = state.get[0] if state.exists else 0
    number = created = 0
    for frame in frames:
        total += int(frame["value"].sum())
        number, created = int(frame["number"].max()), int(frame["created"].max())
    state.update((total,))
    yield pd.DataFrame({"key": [key[0]], "number": [number], "created": [created], "total": [total]})


def in_pandas(of_round: Round) -> Figures:
    with feeding("socket", of_round.folder / "port"):
        kind = "key long, number long, created long, total long"
        groups = _records(of_round).groupBy("key")
        return _watch(
            of_round, groups.applyInPandasWithState(add_up, kind, "total long", "update", "NoTimeout")
        )


def bytewax(of_round: Round) -> Figures:
    """Polls the file as ours does; a sum a key in `stateful_batch`. No recovery, so nothing is committed."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import DynamicSource, StatelessSourcePartition
    from bytewax.testing import run_main

    from benchmarks import dataflow

    seen = Seen(quick=of_round.quick)
    path = of_round.folder / "records.csv"
    path.touch()

    class Share(StatelessSourcePartition[Any]):
        position = 0

        def next_batch(self) -> list[tuple[str, tuple[int, int, int]]]:
            """What the file has got; StopIteration once enough is seen."""
            if seen.enough.is_set():
                raise StopIteration
            with path.open("rb") as file:
                file.seek(self.position)
                text = file.read()
            text = text[: text.rfind(b"\n") + 1]
            self.position += len(text)
            records = (map(int, line.split(b",")) for line in text.splitlines())
            return [(str(number % KEYS), (number, created, number % VALUES)) for number, created in records]

    class Source(DynamicSource[Any]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Share:
            """The one share."""
            return Share()

    class Running(op.StatefulBatchLogic[Any, Any, int]):
        def __init__(self, resumed: int | None) -> None:
            self.total = resumed or 0

        def on_batch(self, values: list[tuple[int, int, int]]) -> tuple[list[Any], bool]:
            self.total += sum(value for _, _, value in values)
            number, created = max((number, created) for number, created, _ in values)
            return [(number, created, self.total)], False

        def snapshot(self) -> int:
            return self.total

    def take(rows: list[tuple[str, tuple[int, int, int]]]) -> None:
        newest = {int(key): row for key, row in rows}
        columns = zip(*((key, *row) for key, row in newest.items()), strict=True)
        seen.add(list(columns) if newest else np.empty((4, 0)))  # type: ignore[arg-type]

    flow = Dataflow("age")
    sums = op.stateful_batch("sum", op.input("input", flow, Source()), Running)
    op.output("output", sums, dataflow.Each(take))
    with feeding("file", path):
        run_main(flow)
    return seen.figures()


def _sum_by_hand(path: Path, pipe: Any) -> None:
    """What comes after each word of the other process: newest records and sums of the keys that have some."""
    sums: dict[int, int] = {}
    position = 0
    with path.open("rb", buffering=0) as file:
        while pipe.recv():
            file.seek(position)
            text = file.read()
            text = text[: text.rfind(b"\n") + 1]
            position += len(text)
            newest = {}
            for line in text.splitlines():
                number, created = map(int, line.split(b","))
                key = number % KEYS
                sums[key] = sums.get(key, 0) + number % VALUES
                newest[key] = number, created
            pipe.send([(key, *newest[key], sums[key]) for key in newest])


def by_hand(of_round: Round) -> Figures:
    """The least that a durable window can be in two processes: what has changed is written, synced and shown.

    No Spark, no framework; nothing is measured, and nothing could be recovered.
    """
    import multiprocessing
    import os
    import pickle

    seen = Seen(quick=of_round.quick)
    path = of_round.folder / "records.csv"
    path.touch()
    pipe, other = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_sum_by_hand, args=(path, other), daemon=True)
    process.start()
    with feeding("file", path), (of_round.folder / "journal").open("wb", buffering=0) as journal:
        while not seen.enough.is_set():
            pipe.send("more")
            if rows := pipe.recv():
                journal.write(pickle.dumps(rows))
                os.fdatasync(journal.fileno())
                seen.add(list(zip(*rows, strict=True)))
    pipe.send("")
    process.join()
    return seen.figures()


BENCHMARKS = (
    Benchmark(
        name="age",
        title="age of a record at the sink: 1,000 tuples/s, keyed running sum, windows as short as they get",
        contestants={
            "ours": ours,
            "Bytewax": bytewax,
            "by hand": by_hand,
            "native": native,
            "applyInPandasWithState": in_pandas,
        },
        goals=[
            Goal(figure=f"{percentile} age seconds", against=against, at_most=limit)
            for against, limit in (("Bytewax", 1.0), ("native", 0.02), ("applyInPandasWithState", 0.02))
            for percentile in ("p50", "p99")
        ],
        rounds=2,
        budget_seconds=215,
    ),
)

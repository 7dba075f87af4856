"""The Yahoo Streaming Benchmark, batch form, as `ysb_data.py` says; of JSON lines.

Parse, filter, project, join to campaign, count per campaign and 10 s of event time. A window is two files;
after it the counts that it changed are at the driver.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import spark, ysb_data
from benchmarks.frame import OURS, WARM_UP, Benchmark, Figures, Goal, Round
from benchmarks.throughput import PARTITIONS, RATE, Latest, check, rates_of_ours, slow_windows
from benchmarks.ysb_data import BUCKET_MILLISECONDS, FILE_EVENTS, FILES
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.api.context import OperatorContext

WINDOW_EVENTS = FILES * FILE_EVENTS
MEASURED = 30
EVENT = pa.schema(
    [("ad_id", pa.large_string()), ("event_type", pa.large_string()), ("event_time", pa.large_string())]
)
"""What is read of an event."""
VIEW = pa.schema([("ad_id", pa.large_string()), ("event_time", pa.int64())])


class Count(NamedTuple):
    """Views of a campaign in 10 seconds of event time."""

    campaign: str
    bucket: int
    count: int


class Events(InputOperator):
    """Each partition reads one file a window of those that are its share."""

    output = OutputPort(EVENT)

    folder: str
    window = State(0)

    def emit_tuples(self) -> None:
        """A file's events."""
        import polars as pl

        paths = ysb_data.file_paths(Path(self.folder), self.window + 1)[self.window * FILES :]
        for path in paths[self.context.partition :: self.context.partitions]:
            events = pl.read_ndjson(path, schema=dict.fromkeys(EVENT.names, pl.String))
            for batch in events.to_arrow().to_batches():
                self.output.emit_batch(batch)
        self.window += 1


class Views(Operator):
    """Lets views through, with what is needed of them."""

    events = InputPort(EVENT, parallel=True)
    views = OutputPort(VIEW)

    @events.process_batch
    def select(self, batch: pa.RecordBatch) -> None:
        """Filter and project."""
        views = batch.filter(pc.equal(batch["event_type"], "view"))
        self.views.emit_batch(
            pa.RecordBatch.from_arrays([views["ad_id"], views["event_time"].cast(pa.int64())], schema=VIEW)
        )


class Campaigns(Operator):
    """Joins views to their ads' campaigns, and counts those of a batch."""

    views = InputPort(VIEW, parallel=True)
    counts = OutputPort(Count)

    campaigns: dict[str, str]

    def setup(self, context: OperatorContext) -> None:
        """Ads and campaigns as arrays."""
        self.ads = pa.array(list(self.campaigns), pa.large_string())
        self.names = pa.array(self.campaigns.values()).dictionary_encode()

    @views.process_batch
    def count(self, batch: pa.RecordBatch) -> None:
        """Join and count: a campaign and a bucket as one number."""
        campaign = self.names.indices.take(pc.index_in(batch["ad_id"], self.ads)).cast(pa.int64())
        bucket = pc.divide(batch["event_time"], BUCKET_MILLISECONDS)
        counted = pc.add(pc.multiply(bucket, len(self.names.dictionary)), campaign).value_counts()
        number = counted.field("values")
        bucket = pc.divide(number, len(self.names.dictionary))
        campaign = pc.subtract(number, pc.multiply(bucket, len(self.names.dictionary)))
        columns = [
            self.names.dictionary.take(campaign),
            pc.multiply(bucket, BUCKET_MILLISECONDS),
            counted.field("counts"),
        ]
        self.counts.emit_batch(pa.RecordBatch.from_arrays(columns, names=list(Count._fields)))


class Counts(Operator):
    """The counts; emits those that a window changed."""

    partial = InputPort(Count, key=("campaign", "bucket"))
    changed = OutputPort(Count)
    counts = KeyedState(int, default=0)

    @partial.process
    def add(self, partial: Count) -> None:
        """Add to a count."""
        self.counts[partial.campaign, partial.bucket] += partial.count

    def end_window(self) -> None:
        """Emit what changed."""
        for (campaign, bucket), count in self.counts.changed():
            self.changed.emit(Count(campaign, bucket, count))


def ours(of_round: Round) -> Figures:
    """An operator a step; polars parses. Two partitions of each; checkpoints on."""
    os.environ["POLARS_MAX_THREADS"] = "1"  # of each of the two workers
    app = Application("ysb", window=0, window_work="10s")  # budgets are kept, and never hold an event back
    source = app.add_operator("events", Events(folder=str(of_round.data)), partitions=PARTITIONS)
    views = app.add_operator("views", Views())
    joined = app.add_operator("campaigns", Campaigns(campaigns=ysb_data.campaigns(of_round.data)))
    counts = app.add_operator("counts", Counts(), partitions=PARTITIONS)
    latest = app.add_operator("latest", Latest())
    app.add_stream("events", source.output, views.events)
    app.add_stream("views", views.views, joined.views)
    app.add_stream("partial", joined.counts, counts.partial)
    app.add_stream("changed", counts.changed, latest.data)
    windows = of_round.windows(MEASURED)
    figures = rates_of_ours(of_round, app, windows, lambda _window: WINDOW_EVENTS)
    check("counts", Latest.found, ysb_data.recount(of_round.data, windows))
    return figures


def native(of_round: Round) -> Figures:
    """`from_json`, a broadcast join, `groupBy().count()` in update mode, state in RocksDB."""
    from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

    session = spark.session("ysb", spark.ROCKS)
    ads = session.createDataFrame(
        list(ysb_data.campaigns(of_round.data).items()), "ad_id string, campaign string"
    )
    lines = session.readStream.option("maxFilesPerTrigger", FILES).text(str(ysb_data.events(of_round.data)))
    event = F.from_json("value", "ad_id string, event_type string, event_time string")
    views = (
        lines.select(event.alias("event"))
        .select("event.*")
        .where("event_type = 'view'")
        .select("ad_id", "event_time")
    )
    bucket = F.floor(F.col("event_time").cast("long") / BUCKET_MILLISECONDS) * BUCKET_MILLISECONDS
    counts = views.join(F.broadcast(ads), "ad_id").groupBy("campaign", bucket.alias("bucket")).count()
    latest: ysb_data.Counts = {}
    windows, warm_up = slow_windows(of_round)

    def each(changed: Any, number: int) -> None:
        campaign, buckets, count = (column.to_pylist() for column in changed.toArrow().columns)
        if number < windows:
            latest.update(zip(zip(campaign, buckets, strict=True), count, strict=True))

    times = spark.batch_times(of_round, counts, windows - 1, each, outputMode="update")
    check("counts", latest, ysb_data.recount(of_round.data, windows))
    return {RATE: [WINDOW_EVENTS / seconds for seconds in times[warm_up:]]}


def bytewax(of_round: Round, processes: int = 1) -> Figures:
    """orjson parses; lines go in batches of 10,000, whose counts are added up by campaign and bucket.

    No recovery.
    """
    import bytewax.operators as op
    import orjson

    from benchmarks import dataflow

    of_ad = ysb_data.campaigns(of_round.data)

    class Running(op.StatefulBatchLogic[int, int, int]):
        def __init__(self, resumed: int | None) -> None:
            self.count = resumed or 0

        def on_batch(self, values: list[int]) -> tuple[Iterable[int], bool]:
            self.count += sum(values)
            return [self.count], False

        def snapshot(self) -> int:
            return self.count

    def blocks(path: Path) -> Iterable[list[bytes]]:
        lines = path.read_bytes().splitlines()
        return [lines[first : first + 10_000] for first in range(0, len(lines), 10_000)]

    def counted(lines: list[bytes]) -> Iterable[tuple[str, int]]:
        parsed = map(orjson.loads, lines)
        counts = Counter(
            (of_ad[event["ad_id"]], int(event["event_time"]) // BUCKET_MILLISECONDS)
            for event in parsed
            if event["event_type"] == "view"
        )
        return [
            (f"{campaign} {bucket * BUCKET_MILLISECONDS}", count)
            for (campaign, bucket), count in counts.items()
        ]

    latest: dict[str, int] = {}
    windows, warm_up = slow_windows(of_round)
    source = dataflow.Pieces(ysb_data.file_paths(of_round.data, windows), blocks, warm_up * FILES)
    flow = dataflow.Flow(
        source,
        lambda lines: op.stateful_batch("count", op.flat_map("counted", lines, counted), Running),
        latest.update,
        latest,
    )
    seconds = flow.run(processes)
    found = {(key.split()[0], int(key.split()[1])): count for key, count in flow.found.items()}
    check("counts", found, ysb_data.recount(of_round.data, windows))
    return {RATE: [(windows - warm_up) * WINDOW_EVENTS / seconds]}


def polars_alone(of_round: Round) -> Figures:
    """A lazy query a window on 2 threads, whose counts are added up: the limit."""
    os.environ["POLARS_MAX_THREADS"] = str(PARTITIONS)
    import polars as pl

    of_ad = ysb_data.campaigns(of_round.data)
    ads = pl.LazyFrame({"ad_id": list(of_ad), "campaign": list(of_ad.values())})
    bucket = pl.col("event_time").cast(pl.Int64) // BUCKET_MILLISECONDS * BUCKET_MILLISECONDS
    windows = of_round.windows(MEASURED)
    paths = ysb_data.file_paths(of_round.data, windows)
    counts: Counter[tuple[str, int]] = Counter()
    rates = []
    for window in range(windows):
        began = time.perf_counter()
        events = pl.scan_ndjson(
            paths[window * FILES : (window + 1) * FILES], schema=dict.fromkeys(EVENT.names, pl.String)
        )
        views = (
            events.filter(pl.col("event_type") == "view").select("ad_id", bucket=bucket).join(ads, on="ad_id")
        )
        for campaign, start, count in views.group_by("campaign", "bucket").len().collect().iter_rows():
            counts[campaign, start] += count
        rates.append(WINDOW_EVENTS / (time.perf_counter() - began))
    check("counts", counts, ysb_data.recount(of_round.data, windows))
    return {RATE: of_round.warm(rates)}


def _prepare(of_round: Round) -> None:
    ysb_data.write(of_round.data, WARM_UP + MEASURED + 2)


BENCHMARKS = [
    Benchmark(
        name="ysb",
        title=f"Yahoo Streaming Benchmark, batch form, {WINDOW_EVENTS:,} events a window",
        contestants={
            OURS: ours,
            "native": native,
            "Bytewax": bytewax,
            "Bytewax, 2 processes": partial(bytewax, processes=2),
            "polars alone": polars_alone,
        },
        goals=[
            Goal(figure=RATE, against="native", at_least=6.0),
            Goal(figure=RATE, against="Bytewax", at_least=2.0),
            Goal(figure=RATE, against="Bytewax, 2 processes", at_least=1.2),
            Goal(figure=RATE, against="polars alone", at_least=0.6),
        ],
        prepare=_prepare,
    )
]

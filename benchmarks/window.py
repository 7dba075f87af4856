"""What a window costs when there is next to nothing to do: 100 tuples, two partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data import Number
from benchmarks.frame import Benchmark, Figures, Goal, Round
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort
from ridgeline.operators import SparkInput

TUPLES = 100
STAGES = 2
WINDOWS = 100
SLOT_WINDOWS = 3_000
"""Where a window takes milliseconds."""
SECONDS = "window seconds"
P99 = "p99 window seconds"


BATCH = pa.record_batch([pa.array(range(TUPLES // 2)), pa.array(range(TUPLES // 2))], names=["key", "value"])


class Numbers(InputOperator):
    """The half of a window's tuples, in each of its two partitions."""

    output = OutputPort(Number)

    def emit_tuples(self) -> None:
        self.output.emit_batch(BATCH)


class Count(Operator):
    """How often each key has come."""

    data = InputPort(Number, key="key")
    totals = KeyedState(int, default=0)

    @data.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        keys = batch["key"].to_numpy()
        self.totals.put_many(keys, self.totals.get_many(keys) + 1)


class CountInPlace(Operator):
    """As `Count`, in the container of the input partition that it counts."""

    data = InputPort(Number, key="key", parallel=True)  # of the keys that its input partition gives
    totals = KeyedState(int, default=0)

    @data.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        keys = batch["key"].to_numpy()
        self.totals.put_many(keys, self.totals.get_many(keys) + 1)


def _ours(
    of_round: Round,
    app: Application,
    windows: int = WINDOWS,
    attributes: Mapping[str, Any] | None = None,
) -> Figures:
    from benchmarks import ours

    count = of_round.windows(windows) + 1
    seen = ours.run(of_round, app, count, attributes=attributes)
    times = of_round.warm(ours.window_times(seen))
    return {SECONDS: times, P99: [float(np.percentile(times, 99))]}


def _two_stages() -> Application:
    app = Application("window", window=0)
    numbers = app.add_operator("numbers", Numbers(), partitions=2)
    count = app.add_operator("count", Count(), partitions=2)
    app.add_stream("numbers", numbers.output, count.data)
    return app


def in_slots(of_round: Round) -> Figures:
    """One window a stage; with four, as by default, there are more windows a second, which wait longer."""
    return _ours(of_round, _two_stages(), SLOT_WINDOWS, {"windows_in_flight": STAGES})


def spark_input(of_round: Round) -> Figures:
    app = Application("window", window=0)
    options: dict[str, bool | int | float | str] = {"rowsPerBatch": TUPLES, "numPartitions": 2}
    source = SparkInput(format="rate-micro-batch", options=options, schema=Number, transform=numbered)
    numbers = app.add_operator("numbers", source, partitions=2)
    count = app.add_operator("count", Count(), partitions=2)
    app.add_stream("numbers", numbers.output, count.data)
    return _ours(of_round, app)


def one_container(of_round: Round) -> Figures:
    app = Application("window", window=0)
    numbers = app.add_operator("numbers", Numbers(), partitions=2)
    count = app.add_operator("count", CountInPlace())
    app.add_stream("numbers", numbers.output, count.data, locality="CONTAINER_LOCAL")
    return _ours(of_round, app)


def numbered(frame: Any) -> Any:
    return frame.selectExpr("value % 50 as key", "value")


def first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the tick brings is dropped; the tuples are made here, as by our input operator."""
    for _batch in batches:
        yield BATCH


def second(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)])], names=["rows"])


def _by_hand(of_round: Round, settings: dict[str, str], *, shuffle: bool) -> Figures:
    from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

    from benchmarks import spark

    source = spark.session("window", settings).readStream.format("rate-micro-batch")
    frame = (
        source.option("rowsPerBatch", 2)
        .option("numPartitions", 2)
        .load()
        .mapInArrow(first, "key long, value long")
    )
    if shuffle:
        frame = frame.repartition(2, F.col("key")).mapInArrow(second, "rows long")

    def collect(batch: Any, _number: int) -> None:
        rows = batch.collect()
        found = sum(row.rows for row in rows) if shuffle else len(rows)
        if found != TUPLES:
            raise ValueError(f"{TUPLES} tuples go through a batch; got {found}")

    return {SECONDS: of_round.warm(spark.batch_times(of_round, frame, of_round.windows(WINDOWS), collect))}


def by_hand(of_round: Round) -> Figures:
    return _by_hand(of_round, {}, shuffle=True)


def by_hand_our_daemon(of_round: Round) -> Figures:
    from benchmarks.spark import OUR_DAEMON

    return _by_hand(of_round, OUR_DAEMON, shuffle=True)


def by_hand_one_stage(of_round: Round) -> Figures:
    return _by_hand(of_round, {}, shuffle=False)


BENCHMARKS = (
    Benchmark(
        name="window",
        title="window overhead: two stages, 2 partitions, 100 tuples a window; commit and state included",
        contestants={
            "ours": in_slots,
            "by hand": by_hand,
            "by hand, our daemon": by_hand_our_daemon,
            "ours, rate-micro-batch": spark_input,
        },
        goals=[
            Goal(figure=SECONDS, against="by hand", at_most=0.02),
            Goal(figure=P99, at_most=0.005),
            Goal(figure=SECONDS, of="ours, rate-micro-batch", against="by hand, our daemon", at_most=0.9),
        ],
        budget_seconds=195,
    ),
    Benchmark(
        name="one-container",
        title="window overhead: one stage without a shuffle, 2 partitions, 100 tuples a window",
        contestants={"ours": one_container, "by hand": by_hand_one_stage},
        goals=[Goal(figure=SECONDS, against="by hand", at_most=0.4)],
        budget_seconds=90,
    ),
)

"""From one container to another: 64-byte tuples, two generators, a shuffle by key, two counters.

The first windows, which are left out, are small: what they warm up is the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import cache, partial

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import spark
from benchmarks.data import ROW, rows
from benchmarks.frame import WARM_UP, Benchmark, Figures, Goal, Round
from benchmarks.throughput import PARTITIONS, RATE, Totalled, Totals, check, rates_of_ours
from ridgeline import Application, InputOperator, InputPort, OutputPort
from ridgeline.api.context import OperatorContext

BATCH_ROWS = 65_536
BATCHES = 16
"""Of a partition in a window: 2,097,152 tuples a window in all."""
BY_VALUE = {"spark.ridgeline.blocks.byReference": "false"}


def batches_of(window: int) -> int:
    """How many batches a partition makes in a window."""
    return BATCHES if window > WARM_UP else 1


def tuples_in(window: int) -> int:
    """How many tuples a window has."""
    return batches_of(window) * BATCH_ROWS * PARTITIONS


def expected(windows: int) -> dict[str, int]:
    """What the counters must come to."""
    times = sum(map(batches_of, range(windows)))
    value = sum(pc.sum(rows(BATCH_ROWS, partition)["value"]).as_py() for partition in range(PARTITIONS))
    return {"count": times * PARTITIONS * BATCH_ROWS, "value": times * value}


class Generate(InputOperator):
    """The same batch again and again."""

    output = OutputPort(ROW)

    def setup(self, context: OperatorContext) -> None:
        """Make the batch."""
        self.batch = rows(BATCH_ROWS, context.partition)

    def emit_tuples(self) -> None:
        """A window's batches."""
        for _ in range(batches_of(self.context.window_id)):
            self.output.emit_batch(self.batch)


class Count(Totalled):
    """Count the tuples of its keys and add up their values; as in `fused_chain`, but with a port by key."""

    data = InputPort(ROW, key="key")

    def begin_window(self, window_id: int) -> None:
        """Nothing yet."""
        self.counted, self.value = 0, 0

    @data.process_batch
    def count(self, batch: pa.RecordBatch) -> None:
        """Count a batch."""
        self.counted += batch.num_rows
        self.value += pc.sum(batch["value"]).as_py()

    def end_window(self) -> None:
        """Hand over what there was."""
        self.context.hand_over({"count": self.counted, "value": self.value})


def by_reference(of_round: Round, conf: Mapping[str, str] | None = None) -> Figures:
    """Blocks in shared memory."""
    app = Application("hop", window=0)
    source = app.add_operator("source", Generate(), partitions=PARTITIONS)
    sink = app.add_operator("sink", Count(), partitions=PARTITIONS)
    app.add_stream("rows", source.output, sink.data, locality="NODE_LOCAL")
    windows = of_round.windows(30)
    figures = rates_of_ours(of_round, app, windows, tuples_in, conf)
    check("counted", dict(Totals.found), expected(windows))
    return figures


def by_value(of_round: Round) -> Figures:
    """Blocks through Spark's shuffle, as between hosts."""
    return by_reference(of_round, BY_VALUE)


def by_hand(of_round: Round) -> Figures:
    """Rows: `mapInArrow -> repartition(2, key) -> mapInArrow`, a job a window."""
    session = spark.session("hop", {"spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS)})
    windows = of_round.windows(10)
    found = {"count": 0, "value": 0}
    rates = []
    for window in range(windows):
        began = time.perf_counter()
        ids = session.range(PARTITIONS, numPartitions=PARTITIONS)
        tuples = ids.mapInArrow(partial(_produce, batches_of(window)), "key long, value long, pad binary")
        for row in (
            tuples.repartition(PARTITIONS, "key").mapInArrow(_count, "count long, value long").collect()
        ):
            found = {name: found[name] + row[name] for name in found}
        rates.append(tuples_in(window) / (time.perf_counter() - began))
    check("counted", found, expected(windows))
    return {RATE: of_round.warm(rates)}


def _produce(batches: int, ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in ids:
        for partition in batch["id"].to_pylist():
            yield from [_made(partition)] * batches


@cache
def _made(partition: int) -> pa.RecordBatch:
    """Once in a worker process, as ours is."""
    batch = rows(BATCH_ROWS, partition)
    return batch.set_column(2, "pad", batch["pad"].cast(pa.binary()))


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    counted = value = 0
    for batch in batches:
        counted += batch.num_rows
        value += pc.sum(batch["value"]).as_py() or 0
    yield pa.RecordBatch.from_pydict({"count": [counted], "value": [value]})


BENCHMARKS = [
    Benchmark(
        name="hop",
        title="hop: 64-byte tuples to another container, by key",
        contestants={"by reference": by_reference, "by value": by_value, "by hand": by_hand},
        goals=[
            Goal(figure=RATE, of="by value", against="by hand", at_least=3.5),
            Goal(figure=RATE, of="by reference", against="by hand", at_least=12.0),
        ],
    )
]

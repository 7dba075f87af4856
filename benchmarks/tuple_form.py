"""A running sum for each of 1,000 keys, tuple form: plain Python for each tuple, and one result for each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import spark
from benchmarks.data import KEYS, Number
from benchmarks.frame import OURS, Benchmark, Figures, Goal, Round
from benchmarks.throughput import PARTITIONS, RATE, Totalled, Totals, check, rates_of_ours, slow_windows
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort
from ridgeline.api.context import OperatorContext

if TYPE_CHECKING:
    import pandas as pd

WINDOW_ROWS = 100_000
MEASURED = 100
_DIFFERENT_VALUES = 97


class Total(NamedTuple):
    """A result: a key's sum so far."""

    key: int
    total: int


def numbers(first: int, last: int) -> pa.RecordBatch:
    """The tuples number `first` to `last` - 1 of a window."""
    keys = np.arange(first, last) % KEYS
    return pa.RecordBatch.from_arrays(
        [pa.array(keys), pa.array(keys % _DIFFERENT_VALUES)], names=list(Number._fields)
    )


def expected(windows: int) -> dict[str, int]:
    """How many results there must be, and the sum of all of them."""
    times = windows * WINDOW_ROWS // KEYS
    total = sum(key % _DIFFERENT_VALUES * times * (times + 1) // 2 for key in range(KEYS))
    return {"count": windows * WINDOW_ROWS, "total": total}


class Generate(InputOperator):
    """A partition's share of the same tuples again and again."""

    output = OutputPort(Number)

    def setup(self, context: OperatorContext) -> None:
        """Make them."""
        share = WINDOW_ROWS // context.partitions
        self.batch = numbers(share * context.partition, share * (context.partition + 1))

    def emit_tuples(self) -> None:
        """A window's tuples."""
        self.output.emit_batch(self.batch)


class Sum(Operator):
    """What an author writes."""

    numbers = InputPort(Number, key="key")
    sums = OutputPort(Total)
    totals = KeyedState(int, default=0)

    @numbers.process
    def add(self, number: Number) -> None:
        """Add to the key's sum, and say it."""
        key, value = number
        totals = self.totals
        totals[key] = total = totals[key] + value
        self.sums.emit(Total(key, total))


class Count(Totalled):
    """Counts the results, and adds them up."""

    data = InputPort(Total, parallel=True)

    @data.process_batch
    def count(self, batch: pa.RecordBatch) -> None:
        """Hand over what is in a batch."""
        self.context.hand_over({"count": batch.num_rows, "total": pc.sum(batch["total"]).as_py()})


def ours(of_round: Round) -> Figures:
    """Two partitions of each operator, tuples sent to them by key; checkpoints on."""
    app = Application("tuple-form", window=0)
    source = app.add_operator("source", Generate(), partitions=PARTITIONS)
    total = app.add_operator("sum", Sum(), partitions=PARTITIONS)
    count = app.add_operator("count", Count())
    app.add_stream("numbers", source.output, total.numbers)
    app.add_stream("sums", total.sums, count.data)
    windows = of_round.windows(MEASURED)
    figures = rates_of_ours(of_round, app, windows, lambda _window: WINDOW_ROWS)
    check("results", Totals.found, expected(windows))
    return figures


def bytewax(of_round: Round, processes: int = 1) -> Figures:
    """`stateful_map`; the source has its tuples as Python objects already. No recovery."""
    import bytewax.operators as op

    from benchmarks import dataflow

    batch = numbers(0, WINDOW_ROWS)
    items = list(zip(map(str, batch["key"].to_pylist()), batch["value"].to_pylist(), strict=True))
    pieces = [items[first : first + 10_000] for first in range(0, WINDOW_ROWS, 10_000)]
    found = {"count": 0, "total": 0}

    def add(total: int | None, value: int) -> tuple[int, int]:
        new = (total or 0) + value
        return new, new

    def take(results: list[tuple[str, int]]) -> None:
        found["count"] += len(results)
        found["total"] += sum(map(itemgetter(1), results))

    windows, warm_up = slow_windows(of_round)
    source = dataflow.Pieces(pieces * windows, list, warm_up * len(pieces))
    flow = dataflow.Flow(source, lambda tuples: op.stateful_map("sum", tuples, add), take, found)
    seconds = flow.run(processes)
    check("results", flow.found, expected(windows))
    return {RATE: [(windows - warm_up) * WINDOW_ROWS / seconds]}


def with_state(of_round: Round) -> Figures:
    """`applyInPandasWithState`, a loop over the values of each key."""
    from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

    session = spark.session("tuple-form", spark.ROCKS)
    options = {"rowsPerBatch": WINDOW_ROWS, "numPartitions": PARTITIONS}
    rows = session.readStream.format("rate-micro-batch").options(**options).load()
    tuples = rows.select((F.col("value") % KEYS).alias("key")).withColumn(
        "value", F.col("key") % _DIFFERENT_VALUES
    )
    results = tuples.groupBy("key").applyInPandasWithState(
        _add, "key long, total long", "total long", "append", "NoTimeout"
    )
    found = {"count": 0, "total": 0}
    windows, warm_up = slow_windows(of_round)

    def each(batch: Any, number: int) -> None:
        (row,) = batch.agg(F.count("total").alias("count"), F.sum("total").alias("total")).collect()
        if number < windows:
            found["count"] += row["count"]
            found["total"] += row["total"]

    times = spark.batch_times(of_round, results, windows - 1, each)
    check("results", found, expected(windows))
    return {RATE: [WINDOW_ROWS / seconds for seconds in times[warm_up:]]}


def _add(key: tuple[int], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    import pandas as pd

    (total,) = state.get if state.exists else (0,)
    for frame in frames:
        totals = []
        for value in frame["value"].tolist():
            total += value
            totals.append(total)
        yield pd.DataFrame({"key": list(repeat(key[0], len(totals))), "total": totals})
    state.update((total,))


BENCHMARKS = [
    Benchmark(
        name="tuple-form",
        title=f"keyed running sum, tuple form, {WINDOW_ROWS:,} tuples a window",
        contestants={
            OURS: ours,
            "Bytewax": bytewax,
            "Bytewax, 2 processes": partial(bytewax, processes=2),
            "applyInPandasWithState": with_state,
        },
        goals=[
            Goal(figure=RATE, against="Bytewax", at_least=2.0),
            Goal(figure=RATE, against="Bytewax, 2 processes", at_least=1.5),
            Goal(figure=RATE, against="applyInPandasWithState", at_least=12.0),
        ],
    )
]

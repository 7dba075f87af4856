"""Cost of the engine alone: generator, filter, map and count in one container, beside a loop over pyarrow.

The first windows, which are left out, are small.
"""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data import KEYS, NUMBERS, ROW, rows
from benchmarks.frame import OURS, WARM_UP, Benchmark, Figures, Goal, Round
from benchmarks.throughput import RATE, Totalled, Totals, check, rates_of_ours
from ridgeline import Application, InputOperator, InputPort, OutputPort
from ridgeline.api.context import OperatorContext
from ridgeline.operators import Filter, Map

BATCH_ROWS = 100_000
BATCHES = 100
"""In a window: 10,000,000 tuples."""


def batches_of(window: int) -> int:
    """How many batches a window has."""
    return BATCHES if window > WARM_UP else 2


def tuples_in(window: int) -> int:
    """How many tuples a window has."""
    return batches_of(window) * BATCH_ROWS


def is_chosen(batch: pa.RecordBatch) -> pa.Array:
    """Half of the keys."""
    return pc.less(batch["key"], KEYS // 2)


def tripled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Keys with three times the value."""
    return pa.RecordBatch.from_arrays([batch["key"], pc.multiply(batch["value"], 3)], schema=NUMBERS)


def expected(windows: int) -> dict[str, int]:
    """What the count must come to."""
    times = sum(map(batches_of, range(windows)))
    batch = tripled(rows(BATCH_ROWS).filter(is_chosen(rows(BATCH_ROWS))))
    return {"count": times * batch.num_rows, "value": times * pc.sum(batch["value"]).as_py()}


class Generate(InputOperator):
    """The same batch again and again."""

    output = OutputPort(ROW)

    def setup(self, context: OperatorContext) -> None:
        """Make the batch."""
        self.batch = rows(BATCH_ROWS)

    def emit_tuples(self) -> None:
        """A window's batches."""
        for _ in range(batches_of(self.context.window_id)):
            self.output.emit_batch(self.batch)


class Count(Totalled):
    """Counts, and adds the values up."""

    data = InputPort(NUMBERS)

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


def ours(of_round: Round) -> Figures:
    """One partition of each operator."""
    app = Application("fused-chain", window=0)
    source = app.add_operator("source", Generate())
    chosen = app.add_operator("chosen", Filter(batch_predicate=is_chosen))
    mapped = app.add_operator("tripled", Map(schema=NUMBERS, batch_function=tripled))
    count = app.add_operator("count", Count())
    app.add_stream("rows", source.output, chosen.data)
    app.add_stream("half", chosen.output, mapped.data)
    app.add_stream("numbers", mapped.output, count.data)
    windows = of_round.windows(30)
    figures = rates_of_ours(of_round, app, windows, tuples_in)
    check("counted", dict(Totals.found), expected(windows))
    return figures


def pyarrow_alone(of_round: Round) -> Figures:
    """The same calls on the same batches, batch after batch; no Spark, no engine, no windows."""
    batch = rows(BATCH_ROWS)
    windows = of_round.windows(30)
    counted = value = 0
    rates = []
    for window in range(windows):
        began = time.perf_counter()
        for _ in range(batches_of(window)):
            made = tripled(batch.filter(is_chosen(batch)))
            counted += made.num_rows
            value += pc.sum(made["value"]).as_py()
        rates.append(tuples_in(window) / (time.perf_counter() - began))
    check("counted", {"count": counted, "value": value}, expected(windows))
    return {RATE: of_round.warm(rates)}


BENCHMARKS = [
    Benchmark(
        name="fused-chain",
        title="generator, filter, map and count in one container, on one core",
        contestants={OURS: ours, "pyarrow alone": pyarrow_alone},
        goals=[Goal(figure=RATE, against="pyarrow alone", at_least=0.7)],
    )
]

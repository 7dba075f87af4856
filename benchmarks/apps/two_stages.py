"""Two stages: numbers made in two partitions, divided by key, counted.

`ridgeline run` starts this file alone, so it imports nothing of the benchmarks, though `window.py` is alike.
"""

from typing import NamedTuple

import pyarrow as pa

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort


class Number(NamedTuple):
    """That of `benchmarks/data.py`."""

    key: int
    value: int


class Numbers(InputOperator):
    output = OutputPort(Number)

    def emit_tuples(self) -> None:
        self.output.emit_batch(
            pa.record_batch([pa.array(range(50)), pa.array(range(50))], names=["key", "value"])
        )


class Count(Operator):
    data = InputPort(Number, key="key")
    totals = KeyedState(int, default=0)

    @data.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        keys = batch["key"].to_numpy()
        self.totals.put_many(keys, self.totals.get_many(keys) + 1)


app = Application("two-stages", window=0)
numbers = app.add_operator("numbers", Numbers(), partitions=2)
count = app.add_operator("count", Count(), partitions=2)
app.add_stream("numbers", numbers.output, count.data)

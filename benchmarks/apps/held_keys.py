"""A counter that holds many keys and touches few a window: `held_keys.py --held N` for `ridgeline run`."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.api.context import OperatorContext
from ridgeline.api.publisher import Publisher

TOUCHED = 10_000
"""Keys that a window touches."""
LOADED = 500_000
"""Keys that a window adds until all are held."""
PARTITIONS = 2


class Key(NamedTuple):
    key: int


class Keys(InputOperator):
    """Each key once, `LOADED` a window; then `TOUCHED` of them by chance."""

    output = OutputPort(Key)
    held: int
    made = State(0)
    window = State(0)

    def setup(self, context: OperatorContext) -> None:
        self.partition = context.partition

    def emit_tuples(self) -> None:
        share = self.held // PARTITIONS
        if self.made < share:
            numbers = np.arange(self.made, min(share, self.made + LOADED // PARTITIONS))
            self.made += len(numbers)
        else:
            self.window += 1
            numbers = np.random.default_rng([self.partition, self.window]).integers(
                0, max(share, 1), TOUCHED // PARTITIONS
            )
        keys = (numbers * PARTITIONS + self.partition) * 0x9E3779B1  # scattered
        self.output.emit_batch(pa.record_batch([pa.array(keys)], names=["key"]))


class Count(Operator):
    """How often each key has come; reports how many are held."""

    data = InputPort(Key, key="key")
    counts = KeyedState(int, default=0)

    def setup(self, context: OperatorContext) -> None:
        self.reported: list[int] = []  # in this process

    @data.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        self.filling = batch.num_rows > TOUCHED or not self.reported
        keys, times = np.unique(batch["key"].to_numpy(), return_counts=True)
        self.counts.put_many(keys, self.counts.get_many(keys) + times)

    def end_window(self) -> None:
        if self.filling:  # to count them costs what was touched since the last time
            self.reported.append(len(self.counts))
            self.context.hand_over((self.context.partition, self.reported[-1]))

    def publisher(self) -> Publisher:
        return Held()


class Held(Publisher):
    """Knows how many keys are held as of the last window."""

    keys = 0
    """One process runs one application."""

    def __init__(self) -> None:
        self._staged: dict[int, int] = {}

    def stage(self, window_id: int, values: Sequence[tuple[int, int]]) -> None:
        self._staged.update(values)

    def publish(self, window_id: int) -> None:
        Held.keys = sum(self._staged.values())


def application(held: int = 10_000) -> Application:
    app = Application("held-keys", window=0)
    keys = app.add_operator("keys", Keys(held=held), partitions=PARTITIONS)
    count = app.add_operator("count", Count(), partitions=PARTITIONS)
    app.add_stream("keys", keys.output, count.data)
    return app

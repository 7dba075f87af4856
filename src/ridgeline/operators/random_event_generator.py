"""Reproducible random integers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputOperator, OutputPort, State
from ridgeline.api.codec import mix

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


class RandomInteger(NamedTuple):
    """One random integer.

    Example:
        >>> RandomInteger(42)
        RandomInteger(value=42)
    """

    value: int


def random_integers(seed: int, start: int, stop: int, minimum: int, maximum: int) -> npt.NDArray[np.int64]:
    """Return the random integers with the numbers `start` to `stop` - 1 of a seed.

    Each lies between `minimum` and `maximum`, both included. Number i is a hash of seed and i, modulo the
    size of the range. The hash is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), advanced to its i-th
    value. The bias is less than size / 2^64. So each number can be computed without those before it.
    """
    values = mix(np.arange(start, stop, dtype=np.uint64) * _GAMMA + np.uint64(seed % 2**64))
    return (values % np.uint64(maximum - minimum + 1)).astype(np.int64) + np.int64(minimum)


class RandomEventGenerator(InputOperator):
    """Emit random integers from `minimum` to `maximum`, both included.

    `tuples_per_window`: tuples a window, over all partitions. `count`: tuples in all; None: without end. The
    sequence depends on `seed` only. Each window's part of it is divided among the partitions in contiguous
    ranges. Read in the order of partitions they are the same sequence, whatever their number.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.operators import RandomEventGenerator
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> app = Application("dice")
        >>> generator = RandomEventGenerator(minimum=1, maximum=6, tuples_per_window=3, count=5)
        >>> dice = app.add_operator("dice", generator)
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("rolls", dice.integer_data, sink.input)
        >>> run = run_local(app)
        >>> [[roll["value"] for roll in run.collected("sink", window)] for window in run.window_ids]
        [[2, 1, 2], [5, 2]]
    """

    progress_unit = "records"
    integer_data = OutputPort(RandomInteger)

    minimum: int = Field(default=0, ge=-(2**62), le=2**62)
    maximum: int = Field(default=99, ge=-(2**62), le=2**62)
    tuples_per_window: int = Field(default=1_000, ge=1, le=10**9)
    count: int | None = Field(default=None, ge=0)
    seed: int = 0

    position = State(0, moves="same")  # how many all partitions together have made; the same in each

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a `minimum` above `maximum`."""
        if self.minimum <= self.maximum:
            return []
        return [("minimum", self.minimum, f"must not be above `maximum`, which is {self.maximum}")]

    def emit_tuples(self) -> None:
        """Emit this partition's range of the window's numbers; finish after the last one."""
        start, stop = self.position, self.position + self.tuples_per_window
        if self.count is not None:
            stop = min(stop, self.count)
        size, partition, partitions = max(0, stop - start), self.context.partition, self.context.partitions
        first, last = start + size * partition // partitions, start + size * (partition + 1) // partitions
        if last > first:
            values = random_integers(self.seed, first, last, self.minimum, self.maximum)
            self.integer_data.emit_batch(pa.RecordBatch.from_arrays([pa.array(values)], names=["value"]))
        self.position = max(start, stop)
        if self.count is not None and self.position >= self.count:
            self.finish()

    def is_paced(self) -> bool:
        """True: so many a window."""
        return True

    def progress(self) -> tuple[float, float | None]:
        """This partition's share of tuples emitted and still to be emitted; None without `count`."""
        of = self.context.partitions
        return self.position / of, None if self.count is None else max(0, self.count - self.position) / of

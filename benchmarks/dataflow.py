"""Bytewax as an alternative, with a stop watch. Imported by contestants only: it is installed for benchmarks alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow, Stream
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main


class Pieces(DynamicSource[Any]):
    """Items from pieces of data, each opened when its turn comes; workers take turns.

    `began`: when the first piece after warm-up was asked for.
    """

    def __init__(self, pieces: Sequence[Any], read: Callable[[Any], Iterable[Any]], warm_up: int) -> None:
        self.began = 0.0
        self._pieces, self._read, self._warm_up = pieces, read, warm_up

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSourcePartition[Any]:
        """A worker's share."""
        return _Share(self, iter(range(worker_index, len(self._pieces), worker_count)))

    def read(self, number: int) -> Iterable[Any]:
        """The items of a piece."""
        if number >= self._warm_up and not self.began:
            self.began = time.perf_counter()
        return self._read(self._pieces[number])


class _Share(StatelessSourcePartition[Any]):
    def __init__(self, source: Pieces, numbers: Iterable[int]) -> None:
        self._source, self._numbers = source, iter(numbers)

    def next_batch(self) -> Iterable[Any]:
        """The next piece's items; StopIteration at the end."""
        return self._source.read(next(self._numbers))


class _Each(DynamicSink[Any], StatelessSinkPartition[Any]):
    def __init__(self, take: Callable[[list[Any]], None]) -> None:
        self._take = take

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition[Any]:
        """The same for all workers, which are threads."""
        return self

    def write_batch(self, items: list[Any]) -> None:
        """Give them on."""
        self._take(items)


def seconds(source: Pieces, steps: Callable[[Stream[Any]], Stream[Any]], take: Callable[[list[Any]], None], workers: int = 1) -> float:
    """How long a dataflow needs for the pieces after warm-up, without recovery. `take` gets what comes out."""
    flow = Dataflow("alternative")
    op.output("output", steps(op.input("input", flow, source)), _Each(take))
    cluster_main(flow, [], 0, worker_count_per_proc=workers)
    return time.perf_counter() - source.began

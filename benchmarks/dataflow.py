"""Bytewax as an alternative, with a stop watch.

Imported by contestants only: it is installed for benchmarks alone.
"""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow, Stream
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main


@dataclass
class Pieces(DynamicSource[Any]):
    """Items from pieces of data, each read when its turn comes; workers take turns.

    `began`: when the first piece after `warm_up` of them was asked for.
    """

    pieces: Sequence[Any]
    read: Callable[[Any], Iterable[Any]]
    warm_up: int
    began: float = 0.0

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSourcePartition[Any]:
        """A worker's share."""
        return _Share(self, iter(range(worker_index, len(self.pieces), worker_count)))

    def items(self, number: int) -> Iterable[Any]:
        """The items of a piece."""
        if number >= self.warm_up and not self.began:
            self.began = time.perf_counter()
        return self.read(self.pieces[number])


@dataclass
class _Share(StatelessSourcePartition[Any]):
    source: Pieces
    numbers: Iterable[int]

    def next_batch(self) -> Iterable[Any]:
        """The next piece's items; StopIteration at the end."""
        return self.source.items(next(iter(self.numbers)))


@dataclass
class Each(DynamicSink[Any], StatelessSinkPartition[Any]):
    """Gives what comes out to `take`."""

    take: Callable[[list[Any]], None]

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition[Any]:
        """A process has one worker."""
        return self

    def write_batch(self, items: list[Any]) -> None:
        """Give them on."""
        self.take(items)


@dataclass
class Flow:
    """A dataflow without recovery.

    `take` gets what comes out and puts numbers by name into `found`; those of processes are added.
    """

    source: Pieces
    steps: Callable[[Stream[Any]], Stream[Any]]
    take: Callable[[list[Any]], None]
    found: dict[Any, int] = field(default_factory=dict)

    def run(self, processes: int) -> float:
        """Run it in `processes` processes, one worker each; return the pieces' seconds after warm-up."""
        addresses = _free_addresses(processes)
        answers: multiprocessing.Queue[tuple[float, float, dict[Any, int]]] = multiprocessing.Queue()
        others = [
            multiprocessing.Process(target=lambda at=at: answers.put(self._run(addresses, at)))
            for at in range(1, processes)
        ]
        for other in others:
            other.start()
        ran = [self._run(addresses, 0), *(answers.get() for _ in others)]
        for other in others:
            other.join()
        found: Counter[Any] = Counter()
        for _, _, part in ran:
            found.update(part)
        self.found = dict(found)
        return max(ended for _, ended, _ in ran) - min(began for began, _, _ in ran if began)

    def _run(self, addresses: list[str], process: int) -> tuple[float, float, dict[Any, int]]:
        flow = Dataflow("alternative")
        op.output("output", self.steps(op.input("input", flow, self.source)), Each(self.take))
        cluster_main(flow, addresses if len(addresses) > 1 else [], process)
        return self.source.began, time.perf_counter(), self.found


def _free_addresses(count: int) -> list[str]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]

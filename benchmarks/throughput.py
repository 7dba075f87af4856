"""What the throughput benchmarks share: results that come to the driver, rates, checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from benchmarks import ours
from benchmarks.frame import Figures, Round
from ridgeline import Application, InputPort, Operator
from ridgeline.api.publisher import Publisher

RATE = "tuples/s"
PARTITIONS = 2


def slow_windows(of_round: Round) -> tuple[int, int]:
    """Windows, and warm-up windows, of an alternative that takes half a second or more for each."""
    return (5, 2) if of_round.quick else (20, 6)


class Totals(Publisher):
    """Adds up, on the driver, the numbers by name that partitions hand over; of committed windows only."""

    found: ClassVar[Counter[str]] = Counter()
    """One process runs one application."""

    def __init__(self) -> None:
        self._staged: Sequence[Mapping[str, int]] = ()

    def stage(self, window_id: int, values: Sequence[Mapping[str, int]]) -> None:
        """Keep them until the commit."""
        self._staged = values

    def publish(self, window_id: int) -> None:
        """Add them."""
        for numbers in self._staged:
            self.found.update(numbers)
        self._staged = ()


class Totalled(Operator):
    """An operator that hands numbers by name over to `Totals`."""

    def publisher(self) -> Totals:
        """The driver's half."""
        return Totals()


class LatestPublisher(Publisher):
    """Keep, on the driver, the latest value (the last column) of each key (the other columns)."""

    def __init__(self) -> None:
        self._staged: Sequence[pa.RecordBatch] = ()

    def stage(self, window_id: int, values: Sequence[pa.RecordBatch]) -> None:
        """Keep them until the commit."""
        self._staged = values

    def publish(self, window_id: int) -> None:
        """Take them over."""
        for batch in self._staged:
            *keys, values = [column.to_pylist() for column in batch.columns]
            Latest.found.update(
                zip(keys[0] if len(keys) == 1 else zip(*keys, strict=True), values, strict=True)
            )
        self._staged = ()


class Latest(Operator):
    """Shows each key's latest value at the driver."""

    data = InputPort(Any, parallel=True)
    found: ClassVar[dict[Any, int]] = {}

    @data.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Hand the batch over."""
        self.context.hand_over(batch)

    def publisher(self) -> LatestPublisher:
        """The driver's half."""
        return LatestPublisher()


def rates_of_ours(
    of_round: Round,
    app: Application,
    windows: int,
    tuples_in: Callable[[int], int],
    conf: Mapping[str, str] | None = None,
) -> Figures:
    """Tuples a second of the warm windows among so many; `tuples_in` says how many a window has."""
    seen = ours.run(of_round, app, windows, conf=conf)
    return {
        RATE: of_round.warm(
            [tuples_in(number) / seconds for number, seconds in enumerate(ours.window_times(seen), 1)]
        )
    }


def check(what: str, found: Mapping[Any, int], expected: Mapping[Any, int]) -> None:
    """Raises ValueError naming the first difference if a contestant came to something else than it must."""
    for key in [*expected, *found]:
        if found.get(key) != expected.get(key):
            raise ValueError(f"{what}: {key!r} must be {expected.get(key)}; got {found.get(key)}")

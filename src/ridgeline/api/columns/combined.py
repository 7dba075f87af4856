"""Partial results that travel in place of tuples to an operator that merges them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.times import Microseconds, Positions, Times

Parts = tuple[Any, ...]
_VALUE_BYTES = 12
"""About so much a value of a part takes as a message."""


class PackedCombined(NamedTuple):
    """Partial results on their way to another process: all that a `Combined` has but its schema."""

    keys: pa.RecordBatch
    starts: Positions
    counts: Positions
    newest: Microseconds
    oldest: Microseconds | None
    parts: Sequence[Parts]

    @property
    def size(self) -> int:
        """About how many bytes it takes as a message."""
        numbers = (self.starts, self.counts, self.newest, *(() if self.oldest is None else (self.oldest,)))
        values = sum(map(len, self.parts[:1])) * len(self.parts)
        return self.keys.nbytes + sum(one.nbytes for one in numbers) + values * _VALUE_BYTES


class Combined(Tuples):
    """Partial results of tuples, a row for each key and window; as long as the tuples are many. Immutable.

    `batch` has the columns of the key only. `starts`: where the window of each row begins, in microseconds
    since 1970. `counts`: how many tuples each row stands for. `times`: the newest and the oldest time of
    those. `parts`: of each row the partial result of every aggregate.
    """

    __slots__ = ("counts", "parts", "size", "starts")

    def __init__(
        self,
        schema: Schema,
        keys: pa.RecordBatch,
        starts: Positions,
        counts: Positions,
        times: Times,
        parts: Sequence[Parts],
    ) -> None:
        super().__init__(schema, None, keys, times)
        self.starts = starts
        self.counts = counts
        self.parts = parts
        self.size = int(counts.sum())

    def __len__(self) -> int:
        return self.size

    @property
    def rows(self) -> list[Any]:
        """The keys, for people; without columns pyarrow lists none."""
        return self.batch.to_pylist() or [{}] * len(self.counts)

    @property
    def delivered(self) -> Combined:
        """Itself: only operators that merge partial results get some."""
        return self

    def take(self, indices: Positions) -> Combined:
        """The rows at these positions, in that order."""
        times = self.times
        assert times is not None  # noqa: S101  they are given
        return Combined(
            self.schema,
            self.batch.take(pa.array(indices)) if self.batch.num_columns else self.batch,
            self.starts[indices],
            self.counts[indices],
            times.take(indices),
            [self.parts[place] for place in indices.tolist()],
        )

    def read_as(self, schema: Schema) -> Combined:
        """The same: the operator that merges them knows its columns."""
        return self

    def packed(self) -> PackedCombined:
        """As it is sent."""
        times = self.times
        assert times is not None  # noqa: S101  they are given
        return PackedCombined(self.batch, self.starts, self.counts, times.newest, times.oldest, self.parts)

    @classmethod
    def of_packed(cls, schema: Schema, packed: PackedCombined) -> Combined:
        """Open what was sent."""
        times = Times(packed.newest, packed.oldest)
        return cls(schema, packed.keys, packed.starts, packed.counts, times, packed.parts)


class Combination(NamedTuple):
    """The partial results of a sequence of tuples, and who is in which.

    `firsts`: for each row of `combined` a tuple with its key. `groups`: for each tuple the row that it is in.
    """

    combined: Combined
    firsts: Tuples
    groups: Positions


class Combiner(ABC):
    """Makes partial results of tuples before they are sent; picklable, and without a state.

    To merge partial results must be the same as to process the tuples, whatever their order.
    """

    @abstractmethod
    def combine(self, tuples: Tuples) -> Combination | None:
        """The partial results of a sequence of tuples; None if they are better sent as they are."""


class Combines(ABC):
    """A mixin of operators that may get a `Combined` in place of a batch, at their only input port."""

    @abstractmethod
    def combiner(self, outputs: Collection[str]) -> Combiner | None:
        """The combiner that makes partial results for this operator; None if it must get its tuples.

        `outputs`: its output ports that are connected.
        """

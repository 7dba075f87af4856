"""What travels in place of batches: partial results to be merged, and tuples whose batch is to be made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeVar

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


Method = TypeVar("Method", bound=Callable[..., Any])


class PendingTuples(Tuples):
    """Tuples whose batch is made when it is first asked for. Immutable.

    Only an operator whose method `takes_pending` gets them: it reads `columns`, whose `arrow` is the batch.
    Any other one gets a batch. A tuple was made of each of `source`; `timed`: it has its time. `time_column`:
    the column of these tuples that has the times, if one does.
    """

    __slots__ = ("_made", "_size", "_timed", "columns", "source")
    _made: pa.RecordBatch | None

    def __init__(
        self, schema: Schema, source: Tuples, columns: Any, *, timed: bool, time_column: str | None
    ) -> None:
        self.source = source
        self.columns = columns
        self._timed = timed
        self._size = len(source)
        super().__init__(schema, None, None, time_column if timed else None)

    @property
    def _batch(self) -> pa.RecordBatch:
        """The batch, which is made now if it was not before."""
        if self._made is None:
            self._made = self.schema.conform(self.columns.arrow)
        return self._made

    @_batch.setter
    def _batch(self, batch: pa.RecordBatch | None) -> None:
        self._made = batch

    def __len__(self) -> int:
        return self._size

    @property
    def delivered(self) -> PendingTuples:
        """Themselves."""
        return self

    @property
    def timed(self) -> bool:
        """True if the tuples may have times."""
        return self._timed and self.source.timed

    @property
    def times(self) -> Times | None:
        """The times of the tuples that these are made of; no batch is made."""
        return self.source.times if self._timed else None

    def read_as(self, schema: Schema) -> Tuples:
        """The same tuples: who takes them as they are has a port of the same columns."""
        return self if schema.arrow.equals(self.schema.arrow) else self._made_batch().read_as(schema)

    def take(self, indices: Positions) -> Tuples:
        """The tuples at these positions, in that order."""
        return self._made_batch().take(indices)

    def _made_batch(self) -> Tuples:
        """The same as a batch."""
        return Tuples(self.schema, None, self.batch, self.time_column or self.times)


def takes_pending(method: Method) -> Method:
    """Decorate a `process_batch` method that takes `PendingTuples`, too. Methods that replace it do not."""
    vars(method)["takes_pending"] = True
    return method


def can_take_pending(method: object) -> bool:
    """True of a method that `takes_pending` has decorated."""
    return getattr(method, "takes_pending", False) is True

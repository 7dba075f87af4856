"""Tuples that are still to be computed: a step hands them to the next one, which computes its own too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.times import Positions, Times

if TYPE_CHECKING:
    from ridgeline.api.operator import Operator

Method = TypeVar("Method", bound=Callable[..., Any])


class PendingQuery(ABC):
    """A computation of the columns of tuples from those of others, row by row."""

    @abstractmethod
    def make(self, source: Tuples) -> pa.RecordBatch:
        """The batch for the tuples of `source`. Raises PendingError."""


class PendingTuples(Tuples):
    """A tuple for each of `source`, whose columns `query` computes when they are first asked for. Immutable.

    Only an operator whose method `takes_pending` gets them. Any other one gets a batch. `timed`: the tuples
    have the times of `source`. `time_column`: the column of these tuples that has them, if one does.
    """

    __slots__ = ("_made", "_timed", "query", "source")
    _made: pa.RecordBatch | None

    def __init__(
        self,
        schema: Schema,
        source: Tuples,
        query: PendingQuery,
        *,
        timed: bool = False,
        time_column: str | None = None,
    ) -> None:
        self.source = source
        self.query: Any = query
        self._timed = timed
        super().__init__(schema, None, None, time_column if timed else None)

    @property
    def _batch(self) -> pa.RecordBatch:
        """The batch, which is computed now if it was not before."""
        if self._made is None:
            self._made = self.query.make(self.source)
        return self._made

    @_batch.setter
    def _batch(self, batch: pa.RecordBatch | None) -> None:
        self._made = batch

    def __len__(self) -> int:
        return len(self.source)

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
        """The times of the tuples that these are made of; nothing is computed."""
        return self.source.times if self._timed else None

    def read_as(self, schema: Schema) -> Tuples:
        """The same tuples: who takes them as they are has a port of the same columns."""
        return self if schema.arrow.equals(self.schema.arrow) else self._computed().read_as(schema)

    def take(self, indices: Positions) -> Tuples:
        """The tuples at these positions, in that order."""
        return self._computed().take(indices)

    def _computed(self) -> Tuples:
        """The same as a batch."""
        return Tuples(self.schema, None, self.batch, self.time_column or self.times)


class PendingError(Exception):
    """A step of a query has failed; the cause says why.

    `operator`: the operator whose step it is. `tuples`: what it got.
    """

    def __init__(self, operator: Operator, tuples: Tuples) -> None:
        super().__init__("a step of a query has failed")
        self.operator = operator
        self.tuples = tuples


def takes_pending(method: Method) -> Method:
    """Decorate a `process_batch` method that takes `PendingTuples`, too. Methods that replace it do not."""
    vars(method)["takes_pending"] = True
    return method


def hands_pending(method: Method) -> Method:
    """Decorate one that emits `PendingTuples` where `OperatorContext.engine.defers` says so."""
    vars(method)["hands_pending"] = True
    return method


def can_take_pending(method: object) -> bool:
    """True of a method that `takes_pending` has decorated."""
    return getattr(method, "takes_pending", False) is True


def can_hand_pending(method: object) -> bool:
    """True of a method that `hands_pending` has decorated."""
    return getattr(method, "hands_pending", False) is True

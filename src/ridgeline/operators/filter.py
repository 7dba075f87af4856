"""Let tuples through that a predicate likes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import pyarrow as pa

from ridgeline.api import InputPort, Operator, OutputPort
from ridgeline.operators._unnamed import named


class Filter(Operator):
    """Let the tuples through for which a predicate is true, in their order.

    Give one of `predicate`, which takes a tuple and returns True or False, and `batch_predicate`, which takes
    an Arrow batch and returns a boolean Arrow (or numpy) array with one value a tuple; null counts as False.
    Without a name it is `predicate`: `Filter(is_large)`. Raises TypeError when it is made if neither or both
    are given. Partitions: round robin.
    """

    data = InputPort(Any)
    output = OutputPort(Any)

    predicate: Callable[[Any], bool] | None = None
    batch_predicate: Callable[[pa.RecordBatch], Any] | None = None

    def __new__(cls, *_unnamed: Any, **properties: Any) -> Self:
        """A `Filter` whose port takes tuples or batches, as the predicate does."""
        return super().__new__(BatchFilter if cls is Filter and "batch_predicate" in properties else cls)  # type: ignore[return-value]

    def __init__(self, *unnamed: Any, **properties: Any) -> None:
        properties = named("Filter", "predicate", unnamed, properties)
        super().__init__(**properties)
        if (self.predicate is None) == (self.batch_predicate is None):
            found = "neither" if self.predicate is None else "both"
            message = f"`Filter` needs one of `predicate` and `batch_predicate`; got {found}; give one"
            raise TypeError(message)

    @data.process
    def sift(self, tuple: Any) -> None:
        """Emit a tuple if the predicate is true for it."""
        if self.predicate is not None and self.predicate(tuple):
            self.output.emit(tuple)


class BatchFilter(Filter):
    """What `Filter(batch_predicate=...)` makes."""

    data = InputPort(Any)

    @data.process_batch
    def sift_batch(self, batch: pa.RecordBatch) -> None:
        """Emit the tuples of a batch for which the predicate is true."""
        if self.batch_predicate is not None:
            mask = self.batch_predicate(batch)
            mask = mask if isinstance(mask, pa.Array) else pa.array(mask, pa.bool_())
            self.output.emit_batch(batch.filter(mask), rows=mask)

"""Choose a share of a stream, by the hash of a key or of whole tuples."""

from __future__ import annotations

from typing import Any, Generic

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, Operator, OutputPort, RidgelineError
from ridgeline.api.codec import hash_column, mix
from ridgeline.api.errors import did_you_mean
from ridgeline.operators._shaped import T


def chosen(keys: list[pa.Array], share: float, seed: int) -> npt.NDArray[np.bool_]:
    """Which rows are in a share: the same for equal keys, in any partition and process."""
    mixed = np.full(len(keys[0]) if keys else 0, seed % 2**64, np.uint64)
    for column in keys:
        if pa.types.is_nested(column.type):  # what cannot be a key can still decide, as text
            column = pa.array([repr(value) for value in column.to_pylist()], pa.string())  # noqa: PLW2901
        mixed = mix(mixed ^ hash_column(column))
    return (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53 < share


class Sampler(Operator, Generic[T]):
    """Let a share of the tuples through, on `output`; the others go to `rest`, if a stream reads it.

    `share`: from 0 to 1. `key`: the column that decides: all tuples of a key go the same way. Without one all
    columns decide: equal tuples go the same way. `seed`: another one chooses others. The same
    tuples are chosen in each run, with any number of partitions. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Sampler
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("some")
        >>> numbers = app.add_operator("numbers", ListInput(Number, [(n,) for n in range(1000)]))
        >>> sampler = app.add_operator("sampler", Sampler(share=0.01, seed=7), partitions=2)
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("all", numbers.output, sampler.data)
        >>> app.add_stream("some", sampler.output, sink.input)
        >>> sorted(number.value for number in run_local(app).collected("sink"))
        [105, 213, 244, 258, 331, 451, 562, 847, 904, 944, 973, 978]
    """

    data = InputPort[T](Any)
    output = OutputPort[T](Any)
    rest = OutputPort[T](Any, optional=True)

    share: float = Field(ge=0, le=1)
    key: str | None = None
    seed: int = 0

    @data.process_batch
    def sample(self, batch: pa.RecordBatch) -> None:
        """Divide a batch. Raises RidgelineError for a key that is no column."""
        if self.key is not None and self.key not in batch.schema.names:
            hint = did_you_mean(self.key, batch.schema.names)
            raise RidgelineError(
                f"`{self.context.name}` samples by the key `{self.key}`, which is no column; {hint}"
            )
        columns = batch.columns if self.key is None else [batch.column(self.key)]
        mask = chosen(columns, self.share, self.seed)
        self.output.emit_batch(batch.filter(pa.array(mask)), rows=mask)
        self.rest.emit_batch(batch.filter(pa.array(~mask)), rows=~mask)

"""Divide a stream by shares, by the hash of a key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Generic

import numpy as np
import pyarrow as pa
from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api import InputPort, Schema
from ridgeline.operators._divided import Columns, check_columns, columns_of
from ridgeline.operators._shaped import NamedOutputs
from ridgeline.operators.sampler import shares_of

T = TypeVar("T", default=Any)
_NEAR = 1e-9


class SplitByShare(NamedOutputs, Generic[T]):
    """Divide a stream by shares: `SplitByShare({"a": 0.9, "b": 0.1}, key="user")`.

    Input: any stream with columns. Output: a port for each name, with its share of the keys; the shares sum
    up to 1. Tuples keep their order and times.

    `key`: a column, or several: all tuples of a key go the same way. Without one all columns decide: equal
    tuples go the same way. The way is the same in each run, with any number of partitions. If the first share
    grows, no key leaves it. `seed`: another one divides in another way.

    Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import SplitByShare
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Visit(NamedTuple):
        ...     user: int
        >>> app = Application("experiment")
        >>> visits = app.add_operator("visits", ListInput(Visit, [(n % 100,) for n in range(300)]))
        >>> ab = app.add_operator("ab", SplitByShare({"a": 0.9, "b": 0.1}, key="user"))
        >>> app.add_stream("visits", visits.output, ab.input)
        >>> for name in ("a", "b"):
        ...     sink = app.add_operator(f"{name}_sink", CollectorSink(Visit))
        ...     app.add_stream(name, getattr(ab, name), sink.input)
        >>> run = run_local(app)
        >>> sorted({visit.user for visit in run.collected("b_sink")})
        [5, 12, 14, 34, 46, 53, 55, 59, 68, 88, 92, 98]
    """

    input = InputPort[T](Any)

    shares: dict[str, float] = Field(min_length=1)
    key: Columns | None = None
    seed: int = 0

    shaped_by = "shares"

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse other ports than those of the application, and shares that do not sum up to 1."""
        if faults := super().property_faults():
            return faults
        given = list(self.shares.values())
        if not all(0 <= share <= 1 for share in given) or not math.isclose(sum(given), 1, abs_tol=_NEAR):
            return [("shares", self.shares, "must be from 0 to 1 each, and 1 in sum")]
        return []

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """That of the input. Raises SchemaError for a key that is no column."""
        if "input" in inputs and self.key is not None:
            check_columns(inputs["input"], columns_of(self.key), "`key`")
        return None

    @input.process_batch
    def divide(self, batch: pa.RecordBatch) -> None:
        """Divide a batch."""
        names = columns_of(self.key)
        columns = [batch.column(name) for name in names] or list(batch.columns)
        borders = np.cumsum(list(self.shares.values()))[:-1]
        ways = np.searchsorted(borders, shares_of(columns, self.seed), side="right")
        for way, name in enumerate(self.shares):
            mask = ways == way
            port: Any = getattr(self, name)
            port.emit_batch(batch.filter(pa.array(mask)), rows=mask)

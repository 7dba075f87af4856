"""The base of operators with an error port for tuples that do not fit, and why they do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.api import InputPort, OutputPort, RidgelineError, Schema
from ridgeline.operators._halving import Sifted, sift
from ridgeline.operators._joined import joined_schema
from ridgeline.operators._shaped import DerivingOperator

_REMEDY = "read the port `bad`, or leave such tuples out by the attribute `on_error=SKIP`"


class CheckingOperator(DerivingOperator):
    """An operator whose port `bad` has the tuples that do not fit, with the reason as the last column."""

    input = InputPort(Any)
    output = OutputPort(Any)
    bad = OutputPort(Any, error=True, optional=True)

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Emit what becomes of the tuples of a batch. Raises RidgelineError for bad ones without a reader."""
        raise NotImplementedError

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of the output, and of the port `bad`. Raises SchemaError for what does not fit."""
        made = super().derived_schema("output", inputs)
        if port != "bad" or "input" not in inputs:
            return made
        reason = pa.field("reason", pa.string(), nullable=False)
        return joined_schema(list(inputs["input"].arrow), [reason], "_2", "bad")

    def emit_bad(
        self, batch: pa.RecordBatch, reasons: Mapping[int, str], what: Callable[[int], str]
    ) -> list[int]:
        """Emit the rows that have a reason; returns the others.

        Raises RidgelineError for the first if no stream reads them. `what`: says what a row is not, or where
        it cannot go, before its reason.
        """
        rows = sorted(reasons)
        if rows and not self.bad.connected:
            raise RidgelineError(f"{what(rows[0])}: {reasons[rows[0]]}; {_REMEDY}")
        if rows:
            columns = [column.take(pa.array(rows)) for column in batch.columns]
            columns.append(pa.array([reasons[row] for row in rows], pa.string()))
            schema = self.bad.schema.arrow
            self.bad.emit_batch(pa.RecordBatch.from_arrays(columns, schema=schema), rows=rows)
        return [row for row in range(len(batch)) if row not in reasons]


def fitting(rows: Sequence[int], convert: Callable[[int, int], Any]) -> Sifted:
    """What `convert(begin, end)` makes of rows with these numbers, without those for which it raises."""
    wrong = (ValueError, pa.ArrowException, RidgelineError)
    return sift(np.array(rows, np.int64), convert, lambda _, error: ("", str(error)), wrong)

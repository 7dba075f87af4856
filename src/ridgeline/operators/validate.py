"""Check tuples by a pydantic model; the base of operators with an error port for tuples that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ValidationError

from ridgeline.api import InputPort, OutputPort, RidgelineError, Schema, SchemaError
from ridgeline.api.errors import did_you_mean, shorten
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


class Validate(CheckingOperator):
    """Check each tuple by a pydantic model; those that it refuses go to an error port.

    Input: any stream with columns. Output: the tuples that the model accepts, as they came: what the model
    changes (defaults, conversions) is not taken over. Those that it refuses go to the error port `bad`: all
    columns of the input, and the `reason`. If no stream reads `bad`, it is an error, which names tuple and
    reason; with `on_error="SKIP"` the tuple becomes a dead letter.

    `model`: a pydantic model. Its required fields must be columns; it gets all columns by name.

    Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from pydantic import BaseModel, Field
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Validate
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Payment(NamedTuple):
        ...     user: str
        ...     cents: int
        >>> class Valid(BaseModel):
        ...     user: str = Field(pattern="^[a-z]+$")
        ...     cents: int = Field(gt=0)
        >>> app = Application("payments")
        >>> source = app.add_operator("source", ListInput(Payment, [("ann", 5), ("bob", -1), ("", 7)]))
        >>> check = app.add_operator("check", Validate(Valid))
        >>> sink = app.add_operator("sink", CollectorSink(Payment))
        >>> bad = app.add_operator("bad", CollectorSink())
        >>> app.add_stream("payments", source.output, check.input)
        >>> app.add_stream("valid", check.output, sink.input)
        >>> app.add_stream("refused", check.bad, bad.input)
        >>> run = run_local(app)
        >>> [payment.user for payment in run.collected("sink")]
        ['ann']
        >>> run.collected("bad")[0]["reason"]
        'cents: Input should be greater than 0'
    """

    model: type[BaseModel]

    def derived(self, given: Schema) -> object:
        """Those of the input, and the reason. Raises SchemaError for fields that the stream lacks."""
        if given.pickled:
            raise SchemaError("tuples of `object` have no columns to check; give the port before it a schema")
        names = given.arrow.names
        for name, field in self.model.model_fields.items():
            key = field.alias or name
            if field.is_required() and key not in names:
                what = f"`{self.model.__name__}` needs the field `{key}`, which the stream lacks"
                raise SchemaError(f"{what}; {did_you_mean(key, names)}")
        return None

    def take(self, batch: pa.RecordBatch) -> None:
        """Emit the tuples that the model accepts. Raises RidgelineError for others that no stream reads."""
        validate, reasons = self.model.__pydantic_validator__.validate_python, {}
        tuples = batch.to_pylist()
        for row, values in enumerate(tuples):
            try:
                validate(values)
            except ValidationError as error:
                reasons[row] = _reason(error)
                if not self.bad.connected:
                    break
        good = self.emit_bad(
            batch, reasons, lambda row: f"{shorten(tuples[row])} is no {self.model.__name__}"
        )
        if not reasons:
            self.output.emit_batch(batch)
        else:
            self.output.emit_batch(batch.take(pa.array(good, pa.int64())), rows=good)


def _reason(error: ValidationError) -> str:
    """The faults of a tuple in a line."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'model'}: {one['msg']}" for one in found)

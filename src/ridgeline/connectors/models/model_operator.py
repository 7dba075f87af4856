"""Predict by a model: its results are columns beside those of the stream."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import (
    InputPort,
    Metric,
    Operator,
    OutputPort,
    RidgelineError,
    Schema,
    SchemaError,
    State,
)
from ridgeline.api.context import OperatorContext
from ridgeline.connectors.models._columns import (
    ResultColumns,
    Results,
    check_features,
    first_gap,
    is_text,
    present,
    result_fields,
    row_of,
)
from ridgeline.connectors.models._predictors import Predictor, check_same, loaded, model_fault, settled_model
from ridgeline.operators.frames._columns import columns_of

Missing = Literal["error", "null", "pass"]


class ModelOperator(Operator):
    """Predict by a model, batch by batch: the columns of the stream, then the columns of its results.

    `model`: a file, an estimator, a function, or `module:name`, which names one of the last two. Files of
    scikit-learn end with `.joblib`, `.pkl` or `.pickle`, those of ONNX with `.onnx`. A function takes the
    features as an Arrow batch and returns a list or array, or several columns by name. A pickle is code: a
    file that others could have written is refused, see docs/security.md.

    `features`: the columns that the model reads, in its order. `result`: the name of a column of floats, or
    names with their types: `{"label": str}`. `method`: of an estimator which method predicts, of an ONNX
    model which output is taken. `pick`: the column, or class, of a result that has several.

    A null or NaN among the features is missing. With `missing="error"` such a row is refused. With "null" its
    results are null, and the model does not get it. With "pass" the model gets it, nulls as NaN.

    A model is loaded in `setup`, and again when a property changes while the application runs: all
    partitions change between the same two windows. One that cannot be loaded, or does not fit features and
    results, is refused, and the one before stays. A file must not change under its name. One that does is
    refused, unless `version` changes with it. `version_column`: a column with the `version`, by default the
    name of the file without its ending. `other_versions`: take pickles of another version of scikit-learn.

    Rows keep their order and times. State: which file was used, by its SHA-256. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> import pyarrow.compute as pc
        >>> from ridgeline import Application
        >>> from ridgeline.connectors.models import ModelOperator
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Payment(NamedTuple):
        ...     user: str
        ...     cents: int
        >>> def score(features):
        ...     return pc.divide(features["cents"], 1000.0)
        >>> app = Application("fraud")
        >>> source = app.add_operator("source", ListInput(Payment, [("ann", 250), ("bob", 900)]))
        >>> scored = app.add_operator("scored", ModelOperator(score, ["cents"], "risk"))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("payments", source.output, scored.input)
        >>> app.add_stream("scores", scored.output, sink.input)
        >>> [tuple(row.values()) for row in run_local(app).collected("sink")]
        [('ann', 250, 0.25), ('bob', 900, 0.9)]
    """

    input = InputPort(Any)
    output = OutputPort(Any)

    model: Any
    features: list[str] = Field(min_length=1)
    result: Results = "prediction"
    method: str = Field(default="", kw_only=True)
    pick: Any = Field(default=None, kw_only=True)
    missing: Missing = Field(default="error", kw_only=True)
    version: str = Field(default="", kw_only=True)
    version_column: str | None = Field(default=None, kw_only=True)
    other_versions: bool = Field(default=False, kw_only=True)
    batch_size: int = Field(default=10_000, ge=1, kw_only=True)

    predicted = Metric(0, kind="counter", help="Rows for which the model was asked.")
    not_predicted = Metric(0, kind="counter", help="Rows with a missing feature, whose results are null.")

    used: State[tuple[str, ...]] = State((), moves="greatest")
    """The file of the model: its path, the version, and the SHA-256 of its content."""

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse models of no known kind, and columns of one name."""
        faults: list[tuple[str, object, str]] = []
        rule = model_fault(self.model)
        if rule is not None:
            faults.append(("model", self.model, rule))
        try:
            fields = result_fields(self.result, nullable=False)
        except SchemaError as error:
            return [*faults, ("result", self.result, str(error))]
        if not fields:
            faults.append(("result", self.result, "must name a column at least"))
        if self.version_column is not None and self.version_column in [field.name for field in fields]:
            faults.append(("version_column", self.version_column, "must not have the name of a result"))
        double = next((one for one in self.features if self.features.count(one) > 1), None)
        if double is not None:
            faults.append(("features", double, "must not be named twice"))
        return faults

    def settle_properties(self) -> None:
        """Make a relative path absolute."""
        self.model = settled_model(self.model)

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of the stream, the results, the version. Raises SchemaError for what does not fit."""
        if port != "output" or "input" not in inputs:
            return None
        check_features(inputs["input"], self.features)
        columns = columns_of(inputs["input"])
        added = result_fields(self.result, nullable=self.missing == "null")
        if self.version_column is not None:
            added.append(pa.field(self.version_column, pa.string(), nullable=False))
        for field in added:
            if field.name in columns.names:
                where = "version_column" if field.name == self.version_column else "result"
                raise SchemaError(
                    f"`{where}` names `{field.name}`, which the stream has already; give another name"
                )
        return pa.schema([*columns, *added])

    def setup(self, context: OperatorContext) -> None:
        """Load the model, and see whether features and results fit it. Raises RidgelineError."""
        fields = [self.input.schema.arrow.field(name) for name in self.features]
        self.predictor: Predictor = loaded(
            self.model, self.method, fields, other_versions=self.other_versions
        )
        name = self.predictor.name
        self.columns = ResultColumns(self.result, self.pick, name, nullable=self.missing == "null")
        self.version_text = self.version or name
        if self.predictor.digest:
            self._try(fields)

    def _try(self, fields: list[pa.Field]) -> None:
        """Let the model of a file predict a made-up row. One that refuses this row may take others.

        Raises RidgelineError if the result is no such column.
        """
        values = [pa.array(["" if is_text(field.type) else 0]).cast(_plain(field.type)) for field in fields]
        row = pa.RecordBatch.from_arrays(values, names=[field.name for field in fields])
        try:
            result = self.predictor.run(row)
        except Exception:  # noqa: BLE001  the row is made up
            return
        self.columns.arrays(result, 1)

    def begin_window(self, window_id: int) -> None:
        """Refuse a file that is not the one of the windows before. Raises RidgelineError."""
        if not self.predictor.digest:
            return
        now = (os.fspath(self.model), self.version, self.predictor.digest)
        check_same(self.used, now, "give the new one another name, or change `version`")
        if self.used != now:
            self.used = now

    @input.process_batch
    def predict(self, batch: pa.RecordBatch) -> None:
        """Emit a batch with the results. Raises RidgelineError for what the model refuses or returns."""
        if not len(batch):
            return
        rows = batch.select(self.features)
        there = None if self.missing == "pass" else present(rows)
        if there is not None:
            if self.missing == "error":
                row, name = first_gap(rows, there)
                what = f"`{name}` has no value (null or NaN) in {dict(row_of(batch, row))}"
                remedy = 'give the step `missing="null"` or `missing="pass"`, or fill it before'
                raise RidgelineError(
                    f"the model `{self.predictor.name}` needs each feature; {what}; {remedy}"
                )
            rows = rows.filter(pa.array(there))
        added = self._results(rows)
        if there is not None:
            self.not_predicted += len(batch) - len(rows)
            places = pa.array(np.where(there, np.cumsum(there) - 1, -1), mask=~there)
            added = [column.take(places) for column in added]
        if self.version_column is not None:
            added.append(pa.array([self.version_text], pa.string()).take(pa.array(np.zeros(len(batch), int))))
        schema = self.output.schema.arrow
        self.output.emit_batch(pa.RecordBatch.from_arrays([*batch.columns, *added], schema=schema))

    def _results(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The columns of results for rows, `batch_size` of them at a time."""
        self.predicted += len(rows)
        parts = [self._part(rows.slice(at, self.batch_size)) for at in range(0, len(rows), self.batch_size)]
        if not parts:
            return [pa.array([], field.type) for field in self.columns.fields]
        if len(parts) == 1:
            return parts[0]
        return [pa.concat_arrays(list(column)) for column in zip(*parts, strict=True)]

    def _part(self, rows: pa.RecordBatch) -> list[pa.Array]:
        try:
            result = self.predictor.run(rows)
        except Exception as error:
            count = f"{len(rows):,} rows, the first" if len(rows) > 1 else "the row"
            what = f"the model `{self.predictor.name}` failed with {type(error).__name__}: {error}"
            raise RidgelineError(
                f"{what}; it got {count} {dict(row_of(rows))}; fix the rows before, or leave them out"
            ) from error
        return self.columns.arrays(result, len(rows))


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of a made-up value."""
    return pa.string() if is_text(kind) else kind

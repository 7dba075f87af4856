"""Steps of streams that give tuples another form, fill gaps in them, predict by models, and run scripts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Unpack, overload

from pydantic import BaseModel

from ridgeline.api import OperatorAttributes, SchemaType
from ridgeline.connectors.models import ModelOperator
from ridgeline.operators import (
    FillForward,
    Format,
    Parse,
    ScriptOperator,
    Validate,
)
from ridgeline.operators._divided import Columns
from ridgeline.operators.format import WrittenFormat
from ridgeline.operators.parse import LineFormat
from ridgeline.streams.connecting import Made, Steps, T_co
from ridgeline.streams.expressions import Record, split_options

if TYPE_CHECKING:
    import pyarrow as pa

    from ridgeline.streams.stream import Stream


class ParseOptions(OperatorAttributes, total=False):
    """Properties of `Parse` that `parse` passes on, and attributes of the operator."""

    pattern: str | None
    delimiter: str
    written: str | dict[str, Any] | None
    framed: bool
    registry: str | None


class ShapingSteps(Steps[T_co]):
    """The steps of `Stream` that give tuples another form."""

    def parse(
        self,
        name: str,
        column: str,
        format: LineFormat = "json",
        *,
        schema: SchemaType[Made],
        keep: Columns = (),
        **options: Unpack[ParseOptions],
    ) -> Stream[Made]:
        """Parse a column of texts into columns, see `Parse`. Texts that do not fit are the stream `bad`."""
        own, attributes = split_options(options, ParseOptions)
        operator = Parse(column, format, schema=schema, keep=keep, **own)
        return self._step(name, operator, attributes)

    def format(
        self,
        name: str,
        format: WrittenFormat = "json",
        column: str = "text",
        *,
        columns: Columns | None = None,
        keep: Columns = (),
        delimiter: str = ",",
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[Any]:
        """Write each tuple as a text: the reverse of `parse`; see `Format`."""
        operator = Format(format, column, columns=columns, keep=keep, delimiter=delimiter)
        return self._step(name, operator, attributes)

    def validate(
        self, name: str, model: type[BaseModel], **attributes: Unpack[OperatorAttributes]
    ) -> Stream[T_co]:
        """Check tuples by a pydantic model, see `Validate`. Those that it refuses are the stream `bad`."""
        return self._step(name, Validate(model), attributes)

    def fill_forward(
        self,
        name: str,
        columns: Columns,
        key: Columns | None = None,
        *,
        within: float | str | None = None,
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[T_co]:
        """The last value of a key in the place of nulls; see `FillForward`."""
        return self._step(name, FillForward(columns, key, within), attributes)


class Predicts(Protocol):
    """An estimator, as those of scikit-learn."""

    def predict(self, _rows: Any, /) -> Any:
        """The results for rows of features."""


class Transforms(Protocol):
    """An estimator that makes columns of columns."""

    def transform(self, _rows: Any, /) -> Any:
        """The results for rows of features."""


Model = str | os.PathLike[str] | Predicts | Transforms | Callable[["pa.RecordBatch"], Any]
"""A file, `module:name`, an estimator, or a function of a batch."""


class PredictOptions(OperatorAttributes, total=False):
    """Properties of `ModelOperator` that `predict` passes on, and attributes of the operator."""

    method: str
    pick: Any
    missing: Literal["error", "null", "pass"]
    version: str
    version_column: str | None
    other_versions: bool
    batch_size: int


class ModelSteps(Steps[T_co]):
    """The steps of `Stream` that predict by a model, or run a script."""

    def predict(
        self,
        name: str,
        model: Model,
        features: Sequence[str],
        result: str | dict[str, Any] = "prediction",
        **options: Unpack[PredictOptions],
    ) -> Stream[Record]:
        """Add the results of a model as columns: `predict("score", "fraud.onnx", ["cents"], "risk")`.

        `model`: a file of a pickle or of ONNX, `module:name`, an estimator, or a function of a batch.
        `result`: the name of a column of floats, or names with types. See `ridgeline.connectors.models`
        for others, such as `method="predict_proba"`. Further keyword arguments are attributes.
        """
        own, attributes = split_options(options, PredictOptions)
        return self._step(name, ModelOperator(model, list(features), result, **own), attributes)

    @overload
    def script(
        self, name: str, text: str, *, schema: SchemaType[Made], **attributes: Unpack[OperatorAttributes]
    ) -> Stream[Made]: ...
    @overload
    def script(self, name: str, text: str, **attributes: Unpack[OperatorAttributes]) -> Stream[Record]: ...
    def script(
        self, name: str, text: str, *, schema: Any = None, **attributes: Unpack[OperatorAttributes]
    ) -> Stream[Any]:
        """Run Python text that defines `process(row)` or `process_batch(batch)`; see `ScriptOperator`.

        `schema`: of the results; by default that of the stream.
        """
        return self._step(name, ScriptOperator(text, schema=schema), attributes)

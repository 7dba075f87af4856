"""Steps of streams that predict by models, and run scripts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Unpack, overload

from ridgeline.api import OperatorAttributes, SchemaType
from ridgeline.connectors.models import ModelOperator
from ridgeline.operators import ScriptOperator
from ridgeline.streams.connecting import Made, Steps, T_co
from ridgeline.streams.expressions import Record, split_options

if TYPE_CHECKING:
    import pyarrow as pa

    from ridgeline.streams.stream import Stream


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

"""Models of ONNX predict what the estimators predict that they were made of."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ridgeline import Application, OperatorError
from ridgeline.connectors.models import ModelOperator
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its imports
    from onnx import TensorProto, helper
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType


class Row(NamedTuple):
    key: int
    a: float
    b: int
    kind: str


RANDOM = np.random.default_rng(5)
ROWS = [Row(n, float(RANDOM.normal()), int(RANDOM.integers(-5, 5)), "xyz"[n % 3]) for n in range(200)]
X = np.array([[row.a, row.b] for row in ROWS])
LABELS = (X.sum(axis=1) > 0).astype(int)
LINEAR = LinearRegression().fit(X, X[:, 0] * 3 + X[:, 1])
LOGISTIC = LogisticRegression().fit(X, LABELS)


def written(path: Path, estimator: Any, inputs: Any = None, **options: Any) -> Path:
    kinds = [("features", FloatTensorType([None, 2]))] if inputs is None else inputs
    path.write_bytes(convert_sklearn(estimator, initial_types=kinds, **options).SerializeToString())
    return path


def application(operator: ModelOperator, **attributes: Any) -> Application:
    app = Application("models")
    items = [item for row in ROWS for item in ([row, END_WINDOW] if row.key % 30 == 29 else [row])]
    rows = app.read("rows", ListInput(Row, items))
    rows.process("score", operator, **attributes).write("sink", CollectorSink())
    return app


def predictions(operator: ModelOperator, **attributes: Any) -> list[Any]:
    rows = run_local(application(operator, **attributes)).collected("sink")
    return [row["prediction"] for row in sorted(rows, key=lambda row: row["key"])]


def failure(operator: ModelOperator) -> str:
    with pytest.raises(OperatorError) as caught:
        run_local(application(operator))
    return str(caught.value)


def test_outputs_of_a_classifier(tmp_path: Path) -> None:
    path = written(tmp_path / "mapped.onnx", LOGISTIC)
    labels = ModelOperator(path, ["a", "b"], {"prediction": int})
    assert predictions(labels) == LOGISTIC.predict(X).tolist()
    alone = LOGISTIC.predict_proba(X)[:, 1]
    chosen = ModelOperator(path, ["a", "b"], method="output_probability", pick=1)
    assert np.allclose(predictions(chosen), alone, atol=1e-5)
    assert "choose the class by `pick`, one of [0, 1]" in failure(
        ModelOperator(path, ["a", "b"], method="output_probability")
    )
    assert "knows no class 7" in failure(ModelOperator(path, ["a", "b"], method="output_probability", pick=7))
    matrix = written(tmp_path / "matrix.onnx", LOGISTIC, options={id(LOGISTIC): {"zipmap": False}})
    both = ModelOperator(matrix, ["a", "b"], method="probabilities", pick=1)
    assert np.allclose(predictions(both), alone, atol=1e-5)


def test_an_input_for_each_column(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS)[["kind", "a", "b"]]
    encoded = ColumnTransformer([("kind", OneHotEncoder(), ["kind"]), ("rest", StandardScaler(), ["a", "b"])])
    pipeline = make_pipeline(encoded, LogisticRegression()).fit(frame, np.where(LABELS, "good", "bad"))
    kinds = [
        ("kind", StringTensorType([None, 1])),
        ("a", FloatTensorType([None, 1])),
        ("b", Int64TensorType([None, 1])),
    ]
    path = written(tmp_path / "columns.onnx", pipeline, kinds)
    found = predictions(ModelOperator(path, ["b", "kind", "a"], {"prediction": str}))
    assert found == pipeline.predict(frame).tolist()
    assert "was trained with `kind`, `a`, `b`; `features` lacks `b`" in failure(
        ModelOperator(path, ["kind", "a"])
    )
    assert "columns are others: `kind`" in failure(
        ModelOperator(written(tmp_path / "linear.onnx", LINEAR), ["a", "kind"])
    )


def graph(path: Path, operation: str, kind: int, shape: list[Any], given: str, **options: Any) -> Path:
    """A model of one operation. Its input is called `given`, its output has the same shape."""
    ends = [helper.make_tensor_value_info(name, kind, shape) for name in (given, "made")]
    node = helper.make_node(operation, [given], ["made"], **options)
    made = helper.make_graph([node], "graph", ends[:1], ends[1:])
    opset = helper.make_opsetid("", 11)
    path.write_bytes(helper.make_model(made, opset_imports=[opset], ir_version=8).SerializeToString())
    return path


def echo(path: Path, kind: int) -> Path:
    """A model whose result is its input, a column of this type."""
    return graph(path, "Identity", kind, [None, 1], "given")


def test_a_whole_number_beyond_the_range_of_an_input_is_refused(tmp_path: Path) -> None:
    path = echo(tmp_path / "echo.onnx", TensorProto.INT32)
    app = Application("echo")
    rows = app.read("rows", ListInput(Row, [Row(2**31 - 1, 0.0, 0, "x"), Row(2**40 + 5, 0.0, 0, "x")]))
    rows.predict("score", path, ["key"], {"made": int}).write("sink", CollectorSink())
    with pytest.raises(OperatorError, match="1099511627781 came, which int32 does not have"):
        run_local(app)


def test_what_is_no_model(tmp_path: Path) -> None:
    path = written(tmp_path / "linear.onnx", LINEAR)
    assert "takes 2 features, and `features` has 1" in failure(ModelOperator(path, ["a"]))
    assert "has no output `label`; known are `output_label`" in failure(
        ModelOperator(written(tmp_path / "c.onnx", LOGISTIC), ["a", "b"], method="label")
    )
    assert "returned float for `prediction`, which is declared as string" in failure(
        ModelOperator(path, ["a", "b"], {"prediction": str})
    )
    path.write_bytes(path.read_bytes()[:100])
    assert "it is damaged, no ONNX file, or newer" in failure(ModelOperator(path, ["a", "b"]))

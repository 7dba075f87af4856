"""Models predict what they predict alone: on batches, in partitions, after kills, changed while they run."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ridgeline import Application, OperatorError
from ridgeline.connectors.models import ModelOperator
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local


class Row(NamedTuple):
    key: int
    a: float
    b: int
    kind: str


RANDOM = np.random.default_rng(7)
COUNT = 400
ROWS = [
    Row(number, float(RANDOM.normal()), int(RANDOM.integers(-5, 5)), ("x", "y")[number % 2])
    for number in range(COUNT)
]
X = np.array([[row.a, row.b] for row in ROWS])
LABELS = (X[:, 0] + X[:, 1] + RANDOM.normal(size=COUNT) > 0).astype(int)
LOGISTIC = LogisticRegression().fit(X, LABELS)
LINEAR = LinearRegression().fit(X, X[:, 0] * 2 - X[:, 1])


def in_windows(rows: Iterable[Any], size: int = 37) -> list[Any]:
    found: list[Any] = []
    for place, row in enumerate(rows):
        if place and place % size == 0:
            found.append(END_WINDOW)
        found.append(row)
    return found


def application(
    operator: ModelOperator, items: list[Any] | None = None, schema: Any = Row, **attributes: Any
) -> Application:
    app = Application("models")
    source = app.read("source", ListInput(schema, in_windows(ROWS) if items is None else items))
    source.process("score", operator, **attributes).write("sink", CollectorSink())
    return app


def scores(app: Application, **options: Any) -> list[dict[str, Any]]:
    return run_local(app, **options).collected("sink")


def by_key(rows: list[dict[str, Any]], name: str = "prediction") -> list[Any]:
    return [row[name] for row in sorted(rows, key=lambda row: row["key"])]


def failure(operator: ModelOperator, items: list[Any] | None = None, **options: Any) -> str:
    with pytest.raises(OperatorError) as caught:
        run_local(application(operator, items), **options)
    return str(caught.value)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    joblib.dump(LOGISTIC, tmp_path / "first.joblib")
    joblib.dump(LogisticRegression().fit(X, 1 - LABELS), tmp_path / "second.joblib")
    return tmp_path


def test_object_function_and_name_are_models() -> None:
    alone = LINEAR.predict(X)
    for model in (LINEAR, predict_linear, f"{__name__}:predict_linear", f"{__name__}:LINEAR"):
        assert np.allclose(by_key(scores(application(ModelOperator(model, ["a", "b"])))), alone)


def predict_linear(features: pa.RecordBatch) -> Any:
    return LINEAR.predict(np.column_stack([features["a"], features["b"]]))


def test_methods_and_columns() -> None:
    two = LOGISTIC.predict_proba(X)
    model = ModelOperator(LOGISTIC, ["a", "b"], {"no": float, "yes": float}, method="predict_proba")
    rows = scores(application(model))
    assert np.allclose(by_key(rows, "no"), two[:, 0])
    assert np.allclose(by_key(rows, "yes"), two[:, 1])
    one = ModelOperator(LOGISTIC, ["a", "b"], "yes", method="predict_proba", pick=1)
    assert np.allclose(by_key(scores(application(one)), "yes"), two[:, 1])
    both = ModelOperator(LOGISTIC, ["a", "b"], {"both": list[float]}, method="predict_proba")
    assert np.allclose(by_key(scores(application(both)), "both"), two)


def test_pipeline_of_texts_and_columns_in_another_order() -> None:
    frame = pd.DataFrame({"kind": [row.kind for row in ROWS], "a": X[:, 0], "b": X[:, 1]})
    encoded = ColumnTransformer([("kind", OneHotEncoder(), ["kind"])], remainder=StandardScaler())
    pipeline = make_pipeline(encoded, RandomForestClassifier(5, random_state=1))
    pipeline.fit(frame, np.where(LABELS, "good", "bad"))
    rows = scores(application(ModelOperator(pipeline, ["b", "a", "kind"], {"label": str}), partitions=2))
    assert by_key(rows, "label") == pipeline.predict(frame).tolist()


def test_columns_and_types_are_known_before_anything_runs(stored: Path) -> None:
    app = Application("models")
    rows = app.read("rows", ListInput(Row, ROWS))
    operator = ModelOperator(
        stored / "first.joblib", ["a"], {"label": int, "p": "float"}, version_column="version"
    )
    found = rows.process("score", operator).schema
    assert found.names == ["key", "a", "b", "kind", "label", "p", "version"]
    assert found.field("label") == pa.field("label", pa.int64(), nullable=False)
    nullable = ModelOperator(LINEAR, ["a"], missing="null")
    assert rows.process("other", nullable).schema.field("prediction").nullable


@pytest.mark.parametrize(
    ("returns", "result", "parts"),
    [
        (lambda rows: [1.0], "x", ["returned 1 values for `x` and got 37 rows"]),
        (lambda rows: 5, "x", ["returned int", "one value for each row"]),
        (lambda rows: None, "x", ["returned NoneType"]),
        (lambda rows: ["a"] * len(rows), "x", ["returned string for `x`", "{'x': str}"]),
        (lambda rows: np.full(len(rows), 0.5), {"x": int}, ["declared as int64", "{'x': float}"]),
        (lambda rows: [None] * len(rows), "x", ["returned null for `x`", "float | None"]),
        (lambda rows: np.zeros((len(rows), 3)), "x", ["returned 3 columns, and 1 are declared", "pick=1"]),
        (lambda rows: np.zeros((len(rows), 3, 2)), "x", ["array of 3 dimensions"]),
        (lambda rows: {"y": rows["a"]}, "x", ["returned no column `x`"]),
        (lambda rows: rows["a"], {"x": float, "y": float}, ["returned one column, and 2 are declared"]),
        (lambda rows: [object()] * len(rows), "x", ["values that no column holds"]),
        (lambda rows: [2] * len(rows), {"x": bool}, ["declared as bool"]),
        (lambda rows: rows["no"], "x", ["failed with KeyError", "37 rows, the first {'a':"]),
    ],
)
def test_what_a_function_returns_is_checked(returns: Any, result: Any, parts: list[str]) -> None:
    text = failure(ModelOperator(returns, ["a"], result))
    assert all(part in text for part in ["score", *parts]), text


@pytest.mark.parametrize(
    "returns",
    [
        lambda rows: rows,
        lambda rows: pa.table({"a": rows["a"]}),
        lambda rows: {"a": rows["a"].to_pylist()},
        lambda rows: rows.to_pandas(),
        lambda rows: pd.Series(rows["a"].to_pylist(), index=range(5, 5 + len(rows))),
        lambda rows: rows["a"].to_numpy().reshape(-1, 1),
        lambda rows: tuple(rows["a"].to_pylist()),
        lambda rows: pa.chunked_array([rows["a"]]),
    ],
)
def test_what_a_function_may_return(returns: Any) -> None:
    app = Application("models")
    renamed = app.read("rows", ListInput(Row, ROWS)).rename("renamed", {"a": "c"})
    rows = renamed.map("again", again)
    operator = ModelOperator(lambda batch: returns(batch.rename_columns(["a"])), ["c"], "a")
    rows.process("score", operator).write("sink", CollectorSink())
    assert by_key(run_local(app).collected("sink"), "a") == X[:, 0].tolist()


class Renamed(NamedTuple):
    key: int
    c: float


def again(row: Any) -> Renamed:
    return Renamed(row["key"], row["c"])


GAPS = pa.schema([("key", pa.int64()), ("a", pa.float64()), ("b", pa.int64())])
HOLES = [
    {
        "key": number,
        "a": (None, float("nan"), 0.5, -0.0)[number % 4],
        "b": None if number % 5 == 0 else number,
    }
    for number in range(60)
]


def test_missing_values() -> None:
    whole = [row for row in HOLES if row["b"] is not None and row["a"] is not None and row["a"] == row["a"]]
    model = ModelOperator(LINEAR, ["a", "b"], missing="null")
    run = run_local(application(model, in_windows(HOLES, 7), GAPS, partitions=2))
    rows = sorted(run.collected("sink"), key=lambda row: row["key"])
    alone = dict(
        zip(
            [row["key"] for row in whole],
            LINEAR.predict(np.array([[row["a"], row["b"]] for row in whole])),
            strict=True,
        )
    )
    assert [row["prediction"] is None for row in rows] == [row["key"] not in alone for row in rows]
    assert all(np.isclose(row["prediction"], alone[row["key"]]) for row in rows if row["key"] in alone)

    trees = HistGradientBoostingClassifier(max_iter=3).fit(np.where(X > 2, np.nan, X), LABELS)
    taken = ModelOperator(trees, ["a", "b"], {"label": int}, missing="pass")
    frame = pd.DataFrame(HOLES, dtype=float)[["a", "b"]].to_numpy()
    assert (
        by_key(scores(application(taken, in_windows(HOLES, 7), GAPS)), "label")
        == trees.predict(frame).tolist()
    )

    with pytest.raises(OperatorError, match=r"`a` has no value \(null or NaN\).*missing=\"null\""):
        run_local(application(ModelOperator(LINEAR, ["a", "b"]), HOLES, GAPS))
    with pytest.raises(OperatorError, match="failed with ValueError: Input X contains NaN"):
        run_local(application(ModelOperator(LINEAR, ["a", "b"], missing="pass"), HOLES, GAPS))


def test_files_that_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "model.joblib"
    assert "there is no such file" in failure(ModelOperator(path, ["a", "b"]))
    path.write_bytes(b"")
    assert "is an empty file" in failure(ModelOperator(path, ["a", "b"]))
    path.write_bytes(b"no pickle")
    assert "it is damaged, or no pickle" in failure(ModelOperator(path, ["a", "b"]))
    joblib.dump(LOGISTIC, path)
    path.write_bytes(path.read_bytes()[:-40])
    assert "it is damaged, or no pickle" in failure(ModelOperator(path, ["a", "b"]))
    path.write_bytes(pickle.dumps({"no": "model"}))
    assert "which has no method `predict`" in failure(ModelOperator(path, ["a", "b"]))
    path.write_bytes(pickle.dumps(LogisticRegression()))
    assert "was not fitted" in failure(ModelOperator(path, ["a", "b"]))
    path.write_bytes(pickle.dumps(LOGISTIC))
    assert "takes 2 features, and `features` has 1" in failure(ModelOperator(path, ["a"]))
    assert "did you mean `predict_proba`" in failure(ModelOperator(path, ["a", "b"], method="predict_prob"))
    assert "returned 2 columns" in failure(ModelOperator(path, ["a", "b"], method="predict_proba"))
    path.unlink()
    path.mkdir()
    assert "cannot be read" in failure(ModelOperator(path, ["a", "b"]))


def test_names_of_features_are_checked() -> None:
    named = LinearRegression().fit(pd.DataFrame({"a": X[:, 0], "other": X[:, 1]}), LABELS)
    text = failure(ModelOperator(named, ["a", "b"]))
    assert "was trained with `a`, `other`; `features` lacks `other` and has `b`" in text


def test_pickles_that_others_could_have_written_are_refused(stored: Path, monkeypatch: Any) -> None:
    path = stored / "first.joblib"
    path.chmod(0o666)
    text = failure(ModelOperator(path, ["a", "b"]))
    assert "can be written by others" in text
    assert "give an ONNX file, which holds no code" in text
    monkeypatch.setenv("RIDGELINE_TRUST", str(stored))
    assert len(scores(application(ModelOperator(path, ["a", "b"])))) == COUNT
    assert "who may write there cannot be seen" in failure(ModelOperator("s3://b/m.joblib", ["a", "b"]))


def test_a_pickle_of_another_version(stored: Path) -> None:
    path = Path(__file__).parent / "scikit_learn_1_5.joblib"
    text = failure(ModelOperator(path, ["a", "b"]))
    assert "was written by scikit-learn 1.5.2, and" in text
    assert "other_versions=True" in text
    assert len(scores(application(ModelOperator(path, ["a", "b"], other_versions=True)))) == COUNT

"""Models that learn from each record do what a plain loop of river does, also after kills."""

from __future__ import annotations

import math
import pickle
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from river import anomaly, compose, linear_model, naive_bayes, preprocessing, tree

from ridgeline import Application, OperatorError, ValidationError
from ridgeline.operators import OnlineModel
from ridgeline.plan.edits import Repartition, SetProperty
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local
from support.testing.shares import share


class Row(NamedTuple):
    number: int
    key: str
    a: float
    b: int
    kind: str
    fraud: bool | None
    amount: float


RANDOM = np.random.default_rng(3)
ROWS: list[Row] = []
for number in range(400):
    a, b = float(RANDOM.normal()), int(RANDOM.integers(-3, 4))
    fraud = None if number % 11 == 5 else bool(a + b + RANDOM.normal() > 0)
    ROWS.append(Row(number, f"k{number * 7 % 6}", a, b, "xyz"[number % 3], fraud, 2 * a - b))
ITEMS: list[Any] = [item for row in ROWS for item in ((row, END_WINDOW) if row.number % 23 == 22 else (row,))]


def logistic() -> Any:
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def linear() -> Any:
    return preprocessing.StandardScaler() | linear_model.LinearRegression()


def encoded() -> Any:
    numbers = compose.Select("a", "b") | preprocessing.StandardScaler()
    return (
        numbers + (compose.Select("kind") | preprocessing.OneHotEncoder())
    ) | linear_model.LogisticRegression()


def application(
    operator: OnlineModel, items: Any = None, schema: Any = Row, **attributes: Any
) -> Application:
    app = Application("online")
    rows = app.read("rows", ListInput(schema, ITEMS if items is None else items))
    rows.process("learn", operator, **attributes).write("sink", CollectorSink())
    return app


def predictions(run: Any) -> list[Any]:
    rows = sorted(run.collected("sink"), key=lambda row: row["number"])
    return [row["prediction"] for row in rows]


def loop(
    make: Callable[[], Any], features: list[str], target: str, key: str | None = None, rows: Any = ROWS
) -> list[Any]:
    models: dict[Any, Any] = defaultdict(make)
    found = []
    for row in rows:
        model = models[getattr(row, key) if key else None]
        x, y = {name: getattr(row, name) for name in features}, getattr(row, target)
        found.append(model.predict_one(x))
        if y is not None:
            model.learn_one(x, y)
    return found


CASES: dict[str, tuple[Any, list[str], str, Any]] = {
    "logistic": (logistic, ["a", "b"], "fraud", {"prediction": bool}),
    "linear": (linear, ["a", "b"], "amount", "prediction"),
    "encoded": (encoded, ["kind", "a", "b"], "fraud", {"prediction": bool}),
    "tree": (tree.HoeffdingTreeClassifier, ["a", "b"], "kind", {"prediction": str}),
    "bayes": (naive_bayes.GaussianNB, ["a"], "kind", {"prediction": str}),
}


@pytest.mark.parametrize(("seed", "name"), share(2, [1, 2], CASES))
def test_one_model_for_all(name: str, seed: int) -> None:
    make, features, target, result = CASES[name]
    faults = Faults(seed=seed, rate=0.2, kinds=["exception", "kill", "repeat", "restart"], quiet=True)
    run = run_local(application(OnlineModel(make(), features, target, result=result)), faults=faults)
    assert predictions(run) == loop(make, features, target)
    assert faults.struck


@pytest.mark.parametrize(("partitions", "name"), share(2, [1, 2, 3, 5], CASES))
def test_a_model_for_each_key(name: str, partitions: int) -> None:
    make, features, target, result = CASES[name]
    faults = Faults(seed=partitions, rate=0.2, kinds=["exception", "kill", "repeat", "restart"], quiet=True)
    model = OnlineModel(make, features, target, key="key", result=result)
    run = run_local(application(model, partitions=partitions), faults=faults)
    assert predictions(run) == loop(make, features, target, "key")


def test_keys_of_two_columns_move_with_partitions() -> None:
    def both(row: Any) -> Any:
        return (row.key, row.kind)

    models: dict[Any, Any] = defaultdict(linear)
    expected = []
    for row in ROWS:
        x = {"a": row.a, "b": row.b}
        expected.append(models[both(row)].predict_one(x))
        models[both(row)].learn_one(x, row.amount)
    changes: Any = {3: [Repartition("learn", 3)], 8: [Repartition("learn", 5)], 12: [Repartition("learn", 2)]}
    operator = OnlineModel(linear(), ["a", "b"], "amount", key=("key", "kind"))
    faults = Faults(seed=4, kinds=["kill", "repeat", "restart"], quiet=True)
    run = run_local(application(operator), changes=changes, faults=faults)
    assert [asked.state for asked in run.changes] == ["APPLIED"] * 3
    assert predictions(run) == expected


def test_models_of_partitions_are_the_same_after_kills() -> None:
    def run(**options: Any) -> Any:
        return run_local(application(OnlineModel(linear(), ["a", "b"], "amount"), partitions=3), **options)

    faults = Faults(seed=1, rate=0.3, kinds=["exception", "kill", "repeat", "restart"], quiet=True)
    assert predictions(run()) == predictions(run(faults=faults))
    assert faults.struck


def test_further_partitions_begin_with_a_copy_of_the_model() -> None:
    changes: Any = {6: [SetProperty("learn", "learns", False), Repartition("learn", 3)]}
    run = run_local(application(OnlineModel(linear(), ["a", "b"], "amount")), changes=changes)
    (asked,) = run.changes
    assert asked.state == "APPLIED"
    learned = 23 * asked.window
    assert learned
    model = linear()
    expected = []
    for row in ROWS:
        x = {"a": row.a, "b": row.b}
        expected.append(model.predict_one(x))
        if row.number < learned:
            model.learn_one(x, row.amount)
    assert predictions(run) == expected
    fewer = run_local(
        application(OnlineModel(linear(), ["a", "b"], "amount"), partitions=3),
        changes={6: [Repartition("learn", 1)]},
    )
    assert [asked.state for asked in fewer.changes] == ["APPLIED"]
    assert len(predictions(fewer)) == len(ROWS)


def test_a_restart_continues_with_what_was_learned(tmp_path: Path) -> None:
    app = application(OnlineModel(linear(), ["a", "b"], "amount", key="key"), partitions=2)
    first = run_local(app, checkpoint=tmp_path, windows=5)
    again = application(OnlineModel(linear(), ["a", "b"], "amount", key="key"), partitions=3)
    second = run_local(again, checkpoint=tmp_path)
    assert predictions(first) + predictions(second) == loop(linear, ["a", "b"], "amount", "key")


def test_probabilities_and_default() -> None:
    model = logistic()
    expected = []
    for row in ROWS:
        x = {"a": row.a, "b": row.b}
        expected.append(model.predict_proba_one(x)[True])
        if row.fraud is not None:
            model.learn_one(x, row.fraud)
    chosen = OnlineModel(logistic(), ["a", "b"], "fraud", method="predict_proba_one", pick=True)
    assert predictions(run_local(application(chosen))) == expected
    make = tree.HoeffdingTreeClassifier
    unlearned = OnlineModel(make(), ["a"], "kind", key="key", result={"prediction": str}, default="none")
    app = Application("online")
    stream = app.read("rows", ListInput(Row, ITEMS)).process("learn", unlearned)
    assert not stream.schema.field("prediction").nullable
    stream.write("sink", CollectorSink())
    found = predictions(run_local(app))
    assert found == [one or "none" for one in loop(make, ["a"], "kind", "key")]
    assert found[:6] == ["none"] * 6


def test_anomalies_need_no_target() -> None:
    def make() -> Any:
        return anomaly.HalfSpaceTrees(n_trees=3, height=3, window_size=20, seed=1)

    model, expected = make(), []
    for row in ROWS:
        expected.append(model.score_one({"a": row.a}))
        model.learn_one({"a": row.a})
    faults = Faults(seed=3, kinds=["kill", "repeat"], quiet=True)
    run = run_local(application(OnlineModel(make(), ["a"], method="score_one")), faults=faults)
    assert predictions(run) == expected


def test_mini_batches() -> None:
    """A window is a batch here: predicted at once, then learned at once."""
    model, expected = logistic(), []
    for begin in range(0, len(ROWS), 23):
        rows = ROWS[begin : begin + 23]
        x = pa.table({"a": [row.a for row in rows], "b": [row.b for row in rows]})
        expected += model.predict_many(x).to_pylist()
        known = [place for place, row in enumerate(rows) if row.fraud is not None]
        model.learn_many(x.take(known), pa.chunked_array([[rows[place].fraud for place in known]]))
    operator = OnlineModel(logistic(), ["a", "b"], "fraud", result={"prediction": bool}, mini_batch=True)
    faults = Faults(seed=5, kinds=["kill", "repeat", "restart"], quiet=True)
    assert predictions(run_local(application(operator), faults=faults)) == expected
    keyed = OnlineModel(
        logistic(), ["a", "b"], "fraud", key="key", result={"prediction": bool}, mini_batch=True
    )
    one = predictions(run_local(application(keyed)))
    keyed = OnlineModel(
        logistic(), ["a", "b"], "fraud", key="key", result={"prediction": bool}, mini_batch=True
    )
    assert predictions(run_local(application(keyed, partitions=3), faults=faults)) == one
    chosen = OnlineModel(
        logistic(), ["a", "b"], "fraud", method="predict_proba_one", pick=True, mini_batch=True
    )
    assert all(0 <= value <= 1 for value in predictions(run_local(application(chosen))))


GAPS = pa.schema([("number", pa.int64()), ("a", pa.float64()), ("b", pa.int64()), ("y", pa.float64())])
HOLES: list[Any] = [
    {
        "number": n,
        "a": (None, math.nan, 0.5, n / 9)[n % 4],
        "b": None if n % 5 == 0 else n,
        "y": math.nan if n % 7 == 1 else n / 3,
    }
    for n in range(90)
]
HOLES_IN_WINDOWS = [
    item for row in HOLES for item in ((row, END_WINDOW) if row["number"] % 13 == 12 else (row,))
]


def gap(value: Any) -> bool:
    return value is None or math.isnan(value)


def of_holes(**options: Any) -> list[Any]:
    attributes = {"on_error": options.pop("on_error")} if "on_error" in options else {}
    operator = OnlineModel(linear(), ["a", "b"], "y", **options)
    run = run_local(application(operator, HOLES_IN_WINDOWS, GAPS, **attributes))
    return [(row["number"], row["prediction"]) for row in run.collected("sink")]


@pytest.mark.parametrize("way", ["null", "pass", "skip"])
def test_missing_values(way: str) -> None:
    model = linear()
    expected: list[Any] = []
    for row in HOLES:
        x = {name: row[name] for name in ("a", "b") if not gap(row[name])}
        if len(x) < 2 and way != "pass":
            expected += [(row["number"], None)] if way == "null" else []
            continue
        expected.append((row["number"], model.predict_one(x)))
        if not gap(row["y"]):
            model.learn_one(x, row["y"])
    found = of_holes(on_error="SKIP") if way == "skip" else of_holes(missing=way)
    assert found == expected


class Moody:
    """Learns, then refuses what it has learned, now and then."""

    def __init__(self) -> None:
        self.sum = 0.0

    def predict_one(self, x: Any) -> float:
        return self.sum

    def learn_one(self, x: Any, y: Any) -> None:
        self.sum += y
        if y % 5 == 3:
            raise ValueError(y)


def test_a_record_that_is_left_out_leaves_nothing_in_the_model() -> None:
    rows = [{"number": n, "a": 1.0, "b": 1, "y": float(n)} for n in range(40)]
    items = [item for row in rows for item in ((row, END_WINDOW) if row["number"] % 9 == 8 else (row,))]
    run = run_local(application(OnlineModel(Moody, ["a"], "y"), items, GAPS, on_error="SKIP"))
    total, expected = 0.0, []
    for n in range(40):
        if n % 5 != 3:
            expected.append((n, total))
            total += n
    assert [(row["number"], row["prediction"]) for row in run.collected("sink")] == expected


@pytest.mark.parametrize(
    ("operator", "parts"),
    [
        (OnlineModel(linear(), ["aa"], "amount"), ["`features` names `aa`"]),
        (OnlineModel(linear(), ["a"], "amoun"), ["`target` names `amoun`", "did you mean `amount`"]),
        (OnlineModel(linear(), ["a"], "amount", key="kye"), ["kye"]),
        (OnlineModel(linear(), ["a", "amount"], "amount"), ["has the target `amount`", "leave it out"]),
        (OnlineModel(linear(), ["a"], "amount", result="key"), ["`result` names `key`"]),
        (OnlineModel(linear(), ["a"], "amount", result={"x": float, "y": float}), ["must name one column"]),
        (OnlineModel("model.onnx", ["a"], "amount"), ["must be a model that learns"]),
        (OnlineModel(5, ["a"], "amount"), ["got 5"]),
        (OnlineModel("river_nowhere:Model", ["a"], "amount"), ["needs the module `river_nowhere`"]),
        (OnlineModel(linear(), ["a"], "amount", method="score", mini_batch=True), ["ends with `_one`"]),
        (
            OnlineModel(linear(), ["a"], "amount", missing="pass", mini_batch=True),
            ["learn.missing", 'must be "error" or "null" with `mini_batch`'],
        ),
    ],
)
def test_faults_come_before_anything_runs(operator: OnlineModel, parts: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        run_local(application(operator))
    assert all(part in str(caught.value) for part in ["learn", *parts]), str(caught.value)


@pytest.mark.parametrize(
    ("operator", "parts"),
    [
        (OnlineModel(linear(), ["a"], "amount", method="predict"), ["no method `predict`", "`predict_one`"]),
        (OnlineModel(linear(), ["kind"], "amount"), ["failed with", "'kind': 'x'", "with the target"]),
        (OnlineModel(linear(), ["a"], "kind"), ["failed with", "mend the record before"]),
        (OnlineModel(logistic(), ["a"], "fraud", method="predict_proba_one"), ["choose the class by `pick`"]),
        (OnlineModel(tree.HoeffdingTreeClassifier(), ["a"], "kind"), ["string", "declared as double"]),
        (OnlineModel(int, ["a"], "amount"), ["no method `predict_one`"]),
        (OnlineModel(logistic(), ["a"], "fraud", method="predict_nothing_one"), ["predict_nothing_one"]),
    ],
)
def test_faults_of_models_that_run(operator: OnlineModel, parts: list[str]) -> None:
    with pytest.raises(OperatorError) as caught:
        run_local(application(operator))
    assert all(part in str(caught.value) for part in ["`learn`", *parts]), str(caught.value)


def test_a_file_of_a_model_that_has_learned(tmp_path: Path) -> None:
    model = linear()
    for row in ROWS:
        model.learn_one({"a": row.a, "b": row.b}, row.amount)
    path = tmp_path / "learned.pkl"
    path.write_bytes(pickle.dumps(model))
    assert len(path.read_bytes()) < 4000
    operator = OnlineModel(path, ["a", "b"], "amount", learns=False)
    run = run_local(application(operator, partitions=2))
    assert predictions(run) == [model.predict_one({"a": row.a, "b": row.b}) for row in ROWS]
    path.chmod(0o666)
    with pytest.raises(OperatorError, match="can be written by others"):
        run_local(application(OnlineModel(path, ["a", "b"], "amount")))


def test_a_file_that_changes_under_its_name_is_refused(tmp_path: Path) -> None:
    def learned(number: int) -> bytes:
        model = linear()
        for row in ROWS[:number]:
            model.learn_one({"a": row.a, "b": row.b}, row.amount)
        return pickle.dumps(model)

    path, other = tmp_path / "learned.pkl", tmp_path / "other.pkl"
    path.write_bytes(learned(100))
    app = application(OnlineModel(path, ["a", "b"], "amount", learns=False), partitions=2)
    first = run_local(app, checkpoint=tmp_path / "checkpoint", windows=3)
    path.write_bytes(learned(200))
    with pytest.raises(OperatorError, match=r"another file than that of the windows before.*another name"):
        run_local(app, checkpoint=tmp_path / "checkpoint")
    other.write_bytes(learned(200))
    path.write_bytes(learned(100))
    changes: Any = {5: [SetProperty("learn", "model", str(other))]}
    second = run_local(app, checkpoint=tmp_path / "checkpoint", changes=changes)
    (asked,) = second.changes
    old, new = pickle.loads(learned(100)), pickle.loads(learned(200))
    assert predictions(first) + predictions(second) == [
        (old if row.number < 23 * asked.window else new).predict_one({"a": row.a, "b": row.b}) for row in ROWS
    ]


def test_empty_windows_learn_nothing() -> None:
    items = [END_WINDOW, *ITEMS[:30], END_WINDOW, END_WINDOW, *ITEMS[30:], END_WINDOW]
    found = run_local(application(OnlineModel(linear(), ["a", "b"], "amount"), items))
    assert predictions(found) == loop(linear, ["a", "b"], "amount")
    assert predictions(run_local(application(OnlineModel(linear(), ["a"], "amount"), [END_WINDOW]))) == []


@pytest.mark.parametrize("partitions", [1, 3])
def test_counters_and_accuracy(partitions: int) -> None:
    operator = OnlineModel(logistic(), ["a", "b"], "fraud", key="key", result={"prediction": bool})
    faults = Faults(seed=2, kinds=["exception", "kill", "repeat"], quiet=True)
    run = run_local(application(operator, partitions=partitions), faults=faults)
    values = {row["metric"]: row for row in run.metrics("learn").to_pylist()}
    guesses = loop(logistic, ["a", "b"], "fraud", "key")
    known = [row for row in ROWS if row.fraud is not None]
    right = sum(row.fraud == guess for row, guess in zip(ROWS, guesses, strict=True))
    totals = {name: values[name]["total"] for name in ("learned", "scored", "correct")}
    assert totals == {"learned": len(known), "scored": len(known), "correct": right}
    assert values["held_models"]["value"] == len({row.key for row in known})
    if partitions == 1:
        assert math.isclose(values["accuracy"]["value"], right / len(known))

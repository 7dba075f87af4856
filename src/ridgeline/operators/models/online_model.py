"""Predict each record by a model that learns from each record."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pydantic import Field

from ridgeline.api import (
    InputPort,
    KeyedState,
    Metric,
    OnError,
    OutputPort,
    RidgelineError,
    Schema,
    SchemaError,
    State,
    metric,
)
from ridgeline.api.cells.cell import Declaration
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import did_you_mean, shorten
from ridgeline.api.support.pickling import dumps, loads
from ridgeline.operators._divided import Columns, DividedOperator, check_columns, columns_of, row_keys
from ridgeline.operators.frames._columns import columns_of as stream_columns
from ridgeline.operators.models._features import check_features, first_gap, present
from ridgeline.operators.models._files import PICKLES, check_same, read_model, suffix_of, unpickled
from ridgeline.operators.models._live_models import NEW, Kept, LiveModel, LiveModels
from ridgeline.operators.models._predictors import imported, model_fault, settled_model
from ridgeline.operators.models._results import ResultColumns, Results, result_fields
from ridgeline.operators.models.model_operator import Missing


def divided_models(values: Sequence[Kept], partitions: int) -> list[Kept]:
    """The models of partitions when their number changes: see `OnlineModel`.

    >>> divided_models([(5, 5, b"a"), (9, 9, b"b"), (7, 7, b"c")], 2)
    [(9, 9, b'b'), (7, 7, b'c')]
    >>> divided_models([(5, 5, b"a"), (9, 9, b"b")], 3)
    [(5, 5, b'a'), (9, 9, b'b'), (9, 9, b'b')]
    """
    by_learned = sorted(range(len(values)), key=lambda place: -values[place][0])
    if partitions <= len(values):
        return [values[place] for place in sorted(by_learned[:partitions])]
    return [*values, *[values[by_learned[0]]] * (partitions - len(values))]


class OnlineModel(DividedOperator):
    """Predict each record by a model of river, then let the model learn from it: one record after the other.

    Input: any stream with columns. Output: its columns, and the prediction, which was made before the model
    saw the `target`. A record without a target is only predicted. Without `target` the model learns from the
    features alone.

    `model`: an estimator of river, a function that returns one, or `module:name` of either. It may be a file
    with the pickle of a model, which has learned before. One that changes under its name is refused. `key`: a
    model for each value of a column, or of several. Without it each partition has a model, which learns from
    the partition's share of the records.

    `method`: "predict_one", "predict_proba_one", "score_one". `pick`: the class whose probability is the
    result. `result`: the name of a column of floats, or a name with its type: `{"fraud": bool}`. `default`:
    the prediction of a model that makes none, as one that has learned nothing; without it that is null.
    `missing`: as of `ModelOperator`; "pass" leaves a missing feature out. With `learns=False` models only
    predict; it can be set while the application runs. `mini_batch`: predict a batch at once, then learn it at
    once, by `predict_many` and `learn_many`. That is faster, but results depend on the batches, and "pass" is
    refused.

    State: each model as a pickle, written at the end of a window if it has learned in it. Counters:
    `learned`, `scored`, `correct`, `absolute_error`. Gauges: `accuracy`,
    `mean_absolute_error`, `held_models`.

    Partitions: by key. Without a key, round robin. If their number changes, models of keys move with their
    keys. Without a key further partitions begin with a copy of the model that has learned most. If there are
    fewer, the models that have learned least are dropped.

    Example:
        >>> from typing import NamedTuple
        >>> from river import linear_model, preprocessing
        >>> from ridgeline import Application
        >>> from ridgeline.operators import OnlineModel
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Payment(NamedTuple):
        ...     cents: int
        ...     fraud: bool
        >>> payments = [(number % 9 * 100, number % 9 > 5) for number in range(100)]
        >>> model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
        >>> app = Application("fraud")
        >>> source = app.add_operator("source", ListInput(Payment, payments))
        >>> online = OnlineModel(model, ["cents"], "fraud", result={"guess": bool}, default=False)
        >>> learned = app.add_operator("learned", online)
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("payments", source.output, learned.input)
        >>> app.add_stream("guesses", learned.output, sink.input)
        >>> rows = run_local(app).collected("sink")
        >>> (
        ...     sum(row["guess"] == row["fraud"] for row in rows[:50]),
        ...     sum(row["guess"] == row["fraud"] for row in rows[50:]),
        ... )
        (40, 50)
    """

    input = InputPort(Any)
    output = OutputPort(Any)

    model: Any
    features: list[str] = Field(min_length=1)
    target: str | None = None
    key: Columns = Field(default=(), kw_only=True)
    result: Results = Field(default="prediction", kw_only=True)
    method: str = Field(default="predict_one", kw_only=True)
    pick: Any = Field(default=None, kw_only=True)
    default: Any = Field(default=None, kw_only=True)
    missing: Missing = Field(default="error", kw_only=True)
    learns: bool = Field(default=True, kw_only=True)
    mini_batch: bool = Field(default=False, kw_only=True)

    learned = Metric(0, kind="counter", help="Records that a model has learned from.")
    scored = Metric(0, kind="counter", help="Predictions that were compared with a target.")
    correct = Metric(0, kind="counter", help="Predictions that were equal to the target.")
    absolute_error = Metric(0.0, kind="counter", help="The sum of differences between prediction and target.")

    used: State[tuple[str, ...]] = State((), moves="greatest")
    """The file of the model: its path, and the SHA-256 of its content."""
    models: Any = State(NEW, moves=divided_models)
    """The partition's model, see `_live_models`; with a key the models by key."""
    all_scored = State(0, moves="sum")
    all_correct = State(0, moves="sum")
    all_errors = State(0.0, moves="sum")

    @metric(aggregate="mean", help="The part of all predictions so far that were equal to the target.")
    def accuracy(self) -> float:
        """The part of the partition's predictions that were right since the start."""
        return self.all_correct / self.all_scored if self.all_scored else 0.0

    @metric(aggregate="mean", help="The mean difference between predictions and targets so far.")
    def mean_absolute_error(self) -> float:
        """The mean difference of the partition's predictions since the start."""
        return self.all_errors / self.all_scored if self.all_scored else 0.0

    @metric(help="Models that are kept.")
    def held_models(self) -> int:
        """The number of models in the partition's state."""
        return len(self.models) if columns_of(self.key) else int(self.models[0] > 0)

    @classmethod
    def states_of(cls, keys: Mapping[str, Sequence[str]]) -> dict[str, Declaration]:
        """With a key, the models are kept by it."""
        return {"models": KeyedState(tuple)} if keys else {}

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, models of no known kind, and several result columns."""
        faults = self.key_faults("key")
        rule = None if hasattr(self.model, "learn_one") else model_fault(self.model)
        if isinstance(self.model, (str, os.PathLike)) and suffix_of(os.fspath(self.model)) not in (
            *PICKLES,
            "",
        ):
            rule = "must be a model that learns: an estimator of river, a function that returns one, a pickle"
        if rule is None and not (hasattr(self.model, "learn_one") or callable(self.model)):
            rule = None if isinstance(self.model, (str, os.PathLike)) else "has no method `learn_one`"
        if rule is not None:
            faults.append(("model", self.model, rule))
        try:
            fields = result_fields(self.result, nullable=True)
        except SchemaError as error:
            return [*faults, ("result", self.result, str(error))]
        if len(fields) != 1:
            faults.append(("result", self.result, "must name one column"))
        if self.mini_batch and self.missing == "pass":
            rule = 'must be "error" or "null" with `mini_batch`: in a batch each row has each feature'
            faults.append(("missing", self.missing, rule))
        if self.mini_batch and not self.method.endswith("_one"):
            faults.append(("mini_batch", self.mini_batch, "needs a `method` that ends with `_one`"))
        return faults

    def settle_properties(self) -> None:
        """Make a relative path absolute."""
        self.model = settled_model(self.model)

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of the stream, and the prediction. Raises SchemaError for what does not fit."""
        super().derived_schema(port, inputs)
        if port != "output" or "input" not in inputs:
            return None
        stream = inputs["input"]
        check_features(stream, self.features)
        if self.target is not None:
            check_columns(stream, [self.target], "`target`")
            if self.target in self.features:
                raise SchemaError(
                    f"`features` has the target `{self.target}`, which the model is to predict; leave it out"
                )
        check_columns(stream, columns_of(self.key), "`key`")
        columns = stream_columns(stream)
        nullable = self.default is None or self.missing == "null"
        (field,) = result_fields(self.result, nullable=nullable)
        if field.name in columns.names:
            raise SchemaError(
                f"`result` names `{field.name}`, which the stream has already; give another name"
            )
        return pa.schema([*columns, field])

    def setup(self, context: OperatorContext) -> None:
        """See how models are made; they are, where records come. Raises RidgelineError."""
        self.names = columns_of(self.key)
        self.live = LiveModels(self._new())
        nullable = self.default is None or self.missing == "null"
        self.columns = ResultColumns(self.result, None, "of the step", nullable=nullable)
        self.skips = context.attributes.get("on_error") is OnError.SKIP
        self.class_of = _class_of(None if self.target is None else self.input.schema.arrow.field(self.target))

    def _new(self) -> Callable[[], Any]:
        """The function that makes a model. Raises RidgelineError for a model that does not learn."""
        found = self.model
        self.file: tuple[str, ...] = ()
        if isinstance(found, (str, os.PathLike)):
            text = os.fspath(found)
            found = self._of_file(text) if suffix_of(text) else imported(text)
        if hasattr(found, "learn_one") and not isinstance(found, type):
            content = dumps(found)
            return lambda: loads(content)
        if not callable(found):
            raise RidgelineError(
                f"{shorten(found)} is no model that learns: it has no `learn_one`; give one of river"
            )
        make: Callable[[], Any] = found
        return make

    def _of_file(self, path: str) -> Any:
        file = read_model(path)
        self.file = (path, file.digest)
        return unpickled(file, other_versions=False)

    def begin_window(self, window_id: int) -> None:
        """Refuse a file that is not the one of the windows before. Raises RidgelineError."""
        if self.used != self.file:
            check_same(self.used, self.file, "or give the new one another name")
            self.used = self.file

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Predict the records of a batch, learn from them, and emit them."""
        if not len(batch):
            return
        rows = batch.select(self.features)
        there = present(rows)
        if there is not None and self.missing == "error":
            row, name = first_gap(rows, there)
            what = f"`{name}` has no value (null or NaN) in {rows.slice(row, 1).to_pylist()[0]}"
            remedy = 'give the step `missing="null"` or `missing="pass"`, or fill it before'
            raise RidgelineError(f"a model needs each feature; {what}; {remedy}")
        features = rows.to_pylist()
        if there is not None and self.missing == "pass":
            for row in (~there).nonzero()[0].tolist():
                features[row] = {name: value for name, value in features[row].items() if not _is_gap(value)}
            there = None
        targets = [None] * len(batch) if self.target is None else batch.column(self.target).to_pylist()
        codes, keys = [0] * len(batch), [()]
        if self.names:
            self.refuse_strays(batch, self.names)
            found, keys = row_keys(batch, self.names)
            codes = found.tolist()
        wanted = range(len(batch)) if there is None else there.nonzero()[0].tolist()
        values: list[Any] = [None] * len(batch)
        self.live.begin()
        try:
            take = self._take_many if self.mini_batch else self._take_each
            take(Records(features, targets, codes, keys), wanted, values)
            (added,) = self.columns.arrays(values, len(batch))
        except BaseException:
            self.live.undo()
            raise
        for key, count in self.live.end():
            self._keep(key, (count, *self._kept(key)[1:]))
        arrays = [*batch.columns, added]
        self.output.emit_batch(pa.RecordBatch.from_arrays(arrays, schema=self.output.schema.arrow))

    def _take_each(self, records: Records, wanted: Sequence[int], values: list[Any]) -> None:
        """Predict and learn one record after the other."""
        savepoint = self.skips and len(values) == 1
        for row in wanted:
            key = records.keys[records.codes[row]]
            one = self.live.of(key, self._kept(key))
            features, target = records.features[row], records.targets[row]
            try:
                value = _method(one.model, self.method)(features)
                values[row] = self._result(value)
                self._score(value, target)
                if not self.learns or (self.target is not None and _is_gap(target)):
                    continue
                model = self.live.learn(key, one, savepoint=savepoint)
                model.learn_one(features, *([] if self.target is None else [target]))
            except RidgelineError:
                raise
            except Exception as error:
                raise _failed(one.model, error, features, target) from error
            self.learned += 1

    def _take_many(self, records: Records, wanted: Sequence[int], values: list[Any]) -> None:
        """Predict all records of each key at once, then learn them at once."""
        by_code: dict[int, list[int]] = {}
        for row in wanted:
            by_code.setdefault(records.codes[row], []).append(row)
        for code, rows in by_code.items():
            key = records.keys[code]
            one = self.live.of(key, self._kept(key))
            try:
                self._take_batch(records, key, one, rows, values)
            except RidgelineError:
                raise
            except Exception as error:
                first = rows[0]
                raise _failed(one.model, error, records.features[first], records.targets[first]) from error

    def _take_batch(
        self, records: Records, key: Any, one: LiveModel, rows: Sequence[int], values: list[Any]
    ) -> None:
        """Predict and learn the records of one key."""
        features = [records.features[row] for row in rows]
        predict = _method(one.model, self.method.removesuffix("one") + "many")
        for row, value in zip(rows, self._unbatched(predict(pa.Table.from_pylist(features))), strict=True):
            values[row] = self._result(value)
            self._score(value, records.targets[row])
        known = [
            place
            for place, row in enumerate(rows)
            if self.target is None or not _is_gap(records.targets[row])
        ]
        if not self.learns or not known:
            return
        learn = _method(one.model, "learn_many")
        self.live.learn(key, one, len(known), savepoint=self.skips and len(values) == 1)
        table = pa.Table.from_pylist([features[place] for place in known])
        targets = [records.targets[rows[place]] for place in known]
        learn(table, *([] if self.target is None else [pa.chunked_array([targets])]))
        self.learned += len(known)

    def _unbatched(self, found: Any) -> list[Any]:
        """The predictions of a batch one by one; those of classes as dictionaries."""
        if isinstance(found, pa.Table):
            return [{self.class_of(name): p for name, p in row.items()} for row in found.to_pylist()]
        return list(found.to_pylist() if hasattr(found, "to_pylist") else found.tolist())

    def _kept(self, key: Any) -> Kept:
        """The model of a key, or of the partition, as the state has it."""
        kept: Kept = self.models.get(key, NEW) if self.names else self.models
        return kept

    def _keep(self, key: Any, kept: Kept) -> None:
        if self.names:
            self.models[key] = kept
        else:
            self.models = kept

    def _score(self, value: Any, target: Any) -> None:
        """Compare a prediction with its target."""
        if _is_gap(target):
            return
        if isinstance(value, Mapping):
            value = max(value, key=value.__getitem__, default=None)
        if value is None:
            return
        self.scored += 1
        self.all_scored += 1
        if value == target:
            self.correct += 1
            self.all_correct += 1
        if isinstance(value, (int, float)) and isinstance(target, (int, float)):
            error = abs(value - target)
            if math.isfinite(error):
                self.absolute_error += error
                self.all_errors += error

    def _result(self, value: Any) -> Any:
        """A prediction as the value of a column."""
        if isinstance(value, Mapping):
            if self.pick is None:
                remedy = f"choose the class by `pick`, one of {list(value)}"
                raise RidgelineError(f"the model returned a value for each class; {remedy}")
            value = value.get(self.pick)
        return self.default if value is None else value

    def before_checkpoint(self, window_id: int) -> None:
        """Write the models that have learned in this window into the state."""
        for key, kept in self.live.changed(self._kept):
            self._keep(key, kept)


@dataclass(frozen=True)
class Records:
    """The records of a batch: features by name, targets, and for each the place of its key in `keys`."""

    features: list[dict[str, Any]]
    targets: list[Any]
    codes: list[int]
    keys: list[Any]


def _is_gap(value: Any) -> bool:
    """True for null and NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _method(model: Any, name: str) -> Callable[..., Any]:
    """A method of a model. Raises RidgelineError if it has none of this name."""
    found: Callable[..., Any] | None = getattr(model, name, None)
    if callable(found):
        return found
    known = [one for one in dir(model) if one.endswith(("_one", "_many"))]
    raise RidgelineError(f"a {type(model).__name__} has no method `{name}`; {did_you_mean(name, known)}")


def _class_of(target: pa.Field | None) -> Callable[[str], Any]:
    """The function that makes a class of a name: batches of probabilities have columns with names only."""
    if target is not None and pa.types.is_boolean(target.type):
        return lambda name: name == "True"
    return int if target is not None and pa.types.is_integer(target.type) else str


def _failed(model: Any, error: Exception, features: Any, target: Any) -> RidgelineError:
    """The error of a record that a model refuses."""
    what = f"a {type(model).__name__} failed with {type(error).__name__}: {error}"
    return RidgelineError(f"{what}; it got {features} with the target {target!r}; mend the record before")

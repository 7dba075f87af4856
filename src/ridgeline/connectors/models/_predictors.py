"""The models of an operator: their files, and how each kind of them predicts."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ridgeline.api.errors import RidgelineError, UntrustedError, did_you_mean, listed, shorten
from ridgeline.api.support import trust
from ridgeline.api.support.files import is_local, local_path, resolve
from ridgeline.connect.extras import imported
from ridgeline.connectors.models._columns import check_count, check_order, is_text, matrix, numbers, texts

ONNX = ".onnx"
PICKLES = (".joblib", ".pkl", ".pickle")
SUFFIXES = (ONNX, *PICKLES)
EXTRA = "install it: `pip install 'ridgeline[models]'`"


@dataclass(frozen=True)
class ModelFile:
    """The content of a file. `name`: without folder and ending, by which people know the model."""

    path: str
    name: str
    content: bytes
    digest: str


def suffix_of(path: str) -> str:
    """The ending of a model's file, in small letters; empty if it has none that is known."""
    found = PurePosixPath(path).suffix.lower()
    return found if found in SUFFIXES else ""


def read_model(path: str) -> ModelFile:
    """Read a file. One that becomes code when it is loaded must be one that no other user could have written.

    Raises RidgelineError for a file that cannot be read, UntrustedError for a pickle that may not be read.
    """
    pickled = suffix_of(path) in PICKLES
    try:
        content = _trusted_content(path) if pickled else _content(path)
    except (OSError, pa.ArrowException) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise RidgelineError(
            f"the model `{path}` cannot be read: {reason}; every host that runs the step must see it there"
        ) from None
    if not content:
        raise RidgelineError(f"the model `{path}` is an empty file; write it again")
    return ModelFile(path, PurePosixPath(path).stem, content, hashlib.sha256(content).hexdigest())


def check_same(before: tuple[str, ...], now: tuple[str, ...], remedy: str) -> None:
    """Raise RidgelineError if a file is not the one of the windows before, under the same name.

    `before`, `now`: its path, what else the user calls it by, and its SHA-256; `before` may be empty.
    """
    if before and before != now and before[:-1] == now[:-1]:
        what = f"the model `{now[0]}` is another file than that of the windows before"
        why = "a window that runs again must have the same model"
        which = f"SHA-256 {before[-1][:12]}..., now {now[-1][:12]}..."
        raise RidgelineError(f"{what} ({which}): {why}; put the old file back, {remedy}")


def _content(path: str) -> bytes:
    filesystem, place = resolve(path)
    with filesystem.open_input_file(place) as file:
        found: bytes = file.read()
    return found


def _trusted_content(path: str) -> bytes:
    """The content of a file on a local disk that only trusted users could have written."""
    purpose = f"the model `{path}`"
    remedy = "give an ONNX file, which holds no code"
    if not is_local(path):
        why = "who may write there cannot be seen, and a pickle is code"
        raise UntrustedError(f"{purpose} is refused: {why}; copy it to a disk of the workers, or {remedy}")
    place = local_path(path)
    trust.check(place, purpose, remedy)
    with open(place, "rb") as file:  # noqa: PTH123  a plain path
        trust.check_found(os.fstat(file.fileno()), place, purpose, remedy)
        return file.read()


def unpickled(file: ModelFile, *, other_versions: bool) -> Any:
    """The object in a file of pickle or joblib.

    `other_versions`: take one that another version of scikit-learn wrote. Raises RidgelineError if it cannot
    be loaded.
    """
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = _loader()(io.BytesIO(file.content))
    except ModuleNotFoundError as error:
        raise RidgelineError(
            f"the model `{file.path}` needs `{error.name}`, which is not installed; install it where it runs"
        ) from error
    except Exception as error:
        what = f"the model `{file.path}` cannot be loaded: {type(error).__name__}: {error}"
        raise RidgelineError(
            f"{what}; it is damaged, or no pickle: write it again by `joblib.dump` or `pickle.dump`"
        ) from error
    others = [one.message for one in warned if one.category.__name__ == "InconsistentVersionWarning"]
    if others and not other_versions:
        raise _other_version(file.path, others[0])
    return found


def _loader() -> Callable[[io.BytesIO], Any]:
    """The function that reads plain pickles, and those of joblib where it is installed."""
    try:
        import joblib
    except ModuleNotFoundError:
        return pickle.load
    found: Callable[[io.BytesIO], Any] = joblib.load
    return found


def _other_version(path: str, found: Any) -> RidgelineError:
    """The error for a pickle of another version, by the warning of scikit-learn."""
    which = f"scikit-learn {found.original_sklearn_version}, and {found.current_sklearn_version} is installed"
    what = f"the model `{path}` was written by {which}: its results may differ, or be wrong"
    remedy = "train it again, install that version, or take the risk with `other_versions=True`"
    return RidgelineError(f"{what}; {remedy}")


class Predictor(Protocol):
    """A model that was loaded. `digest`: the SHA-256 of the file that it came from; empty without one."""

    name: str
    digest: str

    def run(self, batch: pa.RecordBatch) -> Any:
        """The results of the model for the features of some rows, in any form."""


def model_fault(model: Any) -> str | None:
    """The fault of the property `model`, as far as it is seen without reading the file."""
    if isinstance(model, (str, os.PathLike)):
        text = os.fspath(model)
        if suffix_of(text):
            return None
        if ":" in text and "/" not in text:
            try:
                imported(text)
            except RidgelineError as error:
                return str(error)
            return None
        known = ", ".join(SUFFIXES)
        return f"must be a file that ends with {known}, `module:name`, an estimator or a function"
    if callable(model) or hasattr(model, "predict") or hasattr(model, "transform"):
        return None
    return f"must be a file, `module:name`, an estimator or a function; got {shorten(model)}"


def loaded(model: Any, method: str, fields: Sequence[pa.Field], *, other_versions: bool) -> Predictor:
    """A model that is ready to predict from these fields. Raises RidgelineError if it does not fit them."""
    if not isinstance(model, (str, os.PathLike)):
        return _predictor(model, _name_of(model), "", method, fields)
    text = os.fspath(model)
    if not suffix_of(text):
        return _predictor(imported(text), text.rpartition(":")[2], "", method, fields)
    file = read_model(text)
    if suffix_of(text) == ONNX:
        return OnnxModel(file, method, fields)
    return _predictor(unpickled(file, other_versions=other_versions), file.name, file.digest, method, fields)


def _predictor(found: Any, name: str, digest: str, method: str, fields: Sequence[pa.Field]) -> Predictor:
    if hasattr(found, method or "predict"):
        return EstimatorModel(found, name, digest, method or "predict", fields)
    if method and not callable(getattr(found, "predict", None)):
        return EstimatorModel(found, name, digest, method, fields)  # which says what is missing
    if callable(found):
        return FunctionModel(found, name, digest, method)
    return EstimatorModel(found, name, digest, method or "predict", fields)


def _name_of(model: Any) -> str:
    """How people call a model that is no file."""
    own = getattr(model, "__name__", None)
    return own if isinstance(own, str) else type(model).__name__


class FunctionModel:
    """A function of a batch of features."""

    def __init__(
        self, function: Callable[[pa.RecordBatch], Any], name: str, digest: str, method: str
    ) -> None:
        if method:
            raise RidgelineError(
                f"the model `{name}` is a function, which has no `method`; leave `method={method!r}` out"
            )
        self.function, self.name, self.digest = function, name, digest

    def run(self, batch: pa.RecordBatch) -> Any:
        """Call the function."""
        return self.function(batch)


class EstimatorModel:
    """An estimator: an object with methods such as `predict`, as those of scikit-learn."""

    def __init__(
        self, estimator: Any, name: str, digest: str, method: str, fields: Sequence[pa.Field]
    ) -> None:
        self.name, self.digest = name, digest
        found = getattr(estimator, method, None)
        if not callable(found):
            known = [
                one for one in dir(estimator) if one.startswith(("predict", "decision", "score_", "trans"))
            ]
            what = f"the model `{name}` is a {type(estimator).__name__}, which has no method `{method}`"
            raise RidgelineError(f"{what}; {did_you_mean(method, known)}")
        self._method: Callable[[Any], Any] = found
        _check_fitted(estimator, name)
        features = [field.name for field in fields]
        needed = getattr(estimator, "feature_names_in_", None)
        count = getattr(estimator, "n_features_in_", None)
        self._order = None if needed is None else [str(one) for one in needed]
        self._text = any(is_text(field.type) for field in fields)
        if self._order is not None:
            check_order(self._order, features, name)
        elif isinstance(count, int):
            check_count(count, features, name)
        self._frame = _frames(name, needed=self._text) if self._order is not None else None

    def run(self, batch: pa.RecordBatch) -> Any:
        """Call the method with a data frame if it was trained with one, else with an array."""
        if self._order is not None:
            batch = batch.select(self._order)
        names, frame = batch.schema.names, self._frame
        if not self._text:
            values = matrix(batch)
            if frame is not None:
                return self._method(frame(values, names))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*valid feature names.*", UserWarning)
                return self._method(values)
        columns = [texts(one) if is_text(one.type) else numbers(one) for one in batch.columns]
        if frame is not None:
            return self._method(frame(dict(zip(names, columns, strict=True)), None))
        if len(columns) == 1:
            return self._method(columns[0])
        made = np.empty((len(batch), len(columns)), object)
        for place, column in enumerate(columns):
            made[:, place] = column
        return self._method(made)


def _check_fitted(estimator: Any, name: str) -> None:
    """Raise RidgelineError for an estimator of scikit-learn that was not fitted."""
    if "sklearn" not in sys.modules:
        return  # it is an estimator of another library
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if isinstance(estimator, BaseEstimator):
        try:
            check_is_fitted(estimator)
        except NotFittedError:
            raise RidgelineError(f"the model `{name}` was not fitted; call `fit` before") from None


def _frames(name: str, *, needed: bool) -> Callable[[Any, Any], Any] | None:
    """The constructor of data frames, of pandas or else polars; None if neither is there nor needed."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        pass
    else:
        return lambda values, columns: pd.DataFrame(values, columns=columns)
    try:
        import polars as pl
    except ModuleNotFoundError:
        if needed:
            raise RidgelineError(
                f"the model `{name}` was trained with a data frame with texts; install pandas or polars"
            ) from None
        return None
    return lambda values, columns: pl.DataFrame(values, schema=columns)


_DTYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": object,
}


class OnnxModel:
    """A model in ONNX, run by ONNX Runtime in one thread: partitions are what runs side by side."""

    def __init__(self, file: ModelFile, method: str, fields: Sequence[pa.Field]) -> None:
        self.name, self.digest = file.name, file.digest
        try:
            import onnxruntime
        except ModuleNotFoundError:
            raise RidgelineError(
                f"the model `{file.path}` needs ONNX Runtime, which is not installed; {EXTRA}"
            ) from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                file.content, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            what = f"the model `{file.path}` cannot be loaded: {shorten(str(error))}"
            raise RidgelineError(
                f"{what}; it is damaged, no ONNX file, or newer than the ONNX Runtime that is installed"
            ) from error
        outputs = [one.name for one in self._session.get_outputs()]
        if method and method not in outputs:
            raise RidgelineError(
                f"the model `{self.name}` has no output `{method}`; {did_you_mean(method, outputs)}"
            )
        self._outputs = [method or outputs[0]]
        self._inputs = self._session.get_inputs()
        # One input may have the name of a feature and still take all of them.
        self._by_name = len(self._inputs) > 1 or [field.name for field in fields] == [self._inputs[0].name]
        self._check(fields)

    def _check(self, fields: Sequence[pa.Field]) -> None:
        """Raise RidgelineError unless the inputs are these fields: a matrix of all, or each by its name."""
        for one in self._inputs:
            if one.type not in _DTYPES:
                what = f"the input `{one.name}` of the model `{self.name}` is {one.type}, which no column is"
                raise RidgelineError(f"{what}; convert the model again, with inputs of numbers or texts")
        features = [field.name for field in fields]
        if self._by_name:
            check_order([one.name for one in self._inputs], features, self.name)
            pairs = [(field, next(one for one in self._inputs if one.name == field.name)) for field in fields]
        else:
            shape = self._inputs[0].shape
            count = shape[-1] if len(shape) > 1 else 1  # one without columns is the values of one feature
            if isinstance(count, int):
                check_count(count, features, self.name)
            pairs = [(field, self._inputs[0]) for field in fields]
        wrong = [field.name for field, one in pairs if is_text(field.type) != (one.type == "tensor(string)")]
        if wrong:
            what = (
                f"the model `{self.name}` takes {pairs[0][1].type}, and columns are others: {listed(wrong)}"
            )
            raise RidgelineError(f"{what}; convert the model with an input for each column")

    def run(self, batch: pa.RecordBatch) -> Any:
        """Run the model on the features of some rows."""
        if not self._by_name:
            one = self._inputs[0]
            dtype = _DTYPES[one.type]
            values = matrix(batch, dtype) if dtype is not object else self._texts(batch)
            fed = {one.name: values if len(one.shape) != 1 else values.reshape(-1)}
        else:
            fed = {one.name: self._column(batch.column(one.name), one) for one in self._inputs}
        return self._session.run(self._outputs, fed)[0]

    def _column(self, column: pa.Array, one: Any) -> Any:
        dtype = _DTYPES[one.type]
        values = texts(column) if dtype is object else numbers(column, dtype)
        return values if len(one.shape) == 1 else values.reshape(-1, 1)

    def _texts(self, batch: pa.RecordBatch) -> Any:
        return np.stack([texts(column) for column in batch.columns], axis=1)


def settled_model(model: Any) -> Any:
    """A model whose path is absolute, if it is one on a local disk."""
    if isinstance(model, Path):
        model = str(model)
    if isinstance(model, str) and suffix_of(model) and is_local(model):
        return local_path(model)
    return model

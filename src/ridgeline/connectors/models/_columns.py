"""Columns that a model reads, its features, and those that it makes, its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api import RidgelineError, Schema, SchemaError
from ridgeline.api.columns.casting import cast_exactly
from ridgeline.api.columns.holding import held
from ridgeline.api.columns.nulls import is_optional
from ridgeline.api.errors import did_you_mean, listed
from ridgeline.operators._divided import check_columns
from ridgeline.operators._kinds import family

Mask = npt.NDArray[np.bool_]
_FEATURES = {"integer", "floating", "boolean", "decimal", "text"}
"""The families of types that a model reads."""


def check_features(tuples: Schema, features: Sequence[str]) -> list[pa.Field]:
    """The fields of the features. Raises SchemaError for a column that is not there, or that is nested."""
    check_columns(tuples, features, "`features`")
    fields = [tuples.arrow.field(name) for name in features]
    for field in fields:
        if family(field.type) not in _FEATURES:
            what = f"`features` names `{field.name}`, which is {field.type}"
            rule = "features are numbers, booleans or texts"
            raise SchemaError(f"{what}; {rule}; make a number of it before, by `with_columns`")
    return fields


def is_text(kind: pa.DataType) -> bool:
    """True for texts, also as a dictionary."""
    return family(kind) == "text"


def present(batch: pa.RecordBatch) -> Mask | None:
    """Which rows have a value in each column; None if all have. A NaN is no value."""
    found: Mask | None = None
    for column in batch.columns:
        if pa.types.is_floating(column.type):
            gaps = pc.is_null(column, nan_is_null=True)
        elif column.null_count:
            gaps = pc.is_null(column)
        else:
            continue
        mask = gaps.to_numpy(zero_copy_only=False)
        if mask.any():
            found = ~mask if found is None else found & ~mask
    return found


def first_gap(batch: pa.RecordBatch, there: Mask) -> tuple[int, str]:
    """The first row without a value, and the first column in which it has none."""
    row = int(np.argmin(there))
    name = next(
        name for name in batch.schema.names if present(batch.select([name]).slice(row, 1)) is not None
    )
    return row, name


def numbers(column: pa.Array, dtype: Any = np.float64) -> npt.NDArray[Any]:
    """A column of numbers or booleans as an array; nulls are NaN.

    Floats are rounded to its precision. Raises RidgelineError for a number that the array does not hold, such
    as a fraction among whole numbers. So is a null where it holds no NaN.
    """
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if column.null_count:
        if not np.issubdtype(dtype, np.floating):
            raise RidgelineError(
                f'a null came, which {np.dtype(dtype).name} does not have; give the step `missing="null"`'
            )
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        column = column.cast(pa.float64(), safe=False)
    found: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore", over="ignore"):
        made = found.astype(dtype, copy=False)
    if made is not found:
        floats = np.issubdtype(dtype, np.floating)
        changed = np.isinf(made) & np.isfinite(found) if floats else made != found
        if changed.any():
            remedy = "make a number of it before that the model takes, by `with_columns`"
            raise RidgelineError(
                f"{found[changed.argmax()]} came, which {np.dtype(dtype).name} does not have; {remedy}"
            )
    return made


def texts(column: pa.Array) -> npt.NDArray[Any]:
    """A column of texts as an array of objects; nulls are None."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return np.array(column.to_pylist(), dtype=object)


def matrix(batch: pa.RecordBatch, dtype: Any = np.float64) -> npt.NDArray[Any]:
    """All columns as one array of numbers, a row for each row."""
    made = np.empty((len(batch), len(batch.columns)), dtype)
    for place, column in enumerate(batch.columns):
        made[:, place] = numbers(column, dtype)
    return made


def check_order(needed: Sequence[str], features: Sequence[str], model: str) -> None:
    """Raise RidgelineError unless these are the names by which a model knows its features."""
    if sorted(needed) != sorted(features):
        missing = [name for name in needed if name not in features]
        extra = [name for name in features if name not in needed]
        found = [f"lacks {listed(missing)}"] if missing else []
        found += [f"has {listed(extra)}, which it does not know"] if extra else []
        remedy = "give the columns that it was trained with"
        what = f"the model `{model}` was trained with {listed(needed)}"
        raise RidgelineError(f"{what}; `features` {' and '.join(found)}; {remedy}")


def check_count(needed: int, features: Sequence[str], model: str) -> None:
    """Raise RidgelineError unless a model takes so many features."""
    if needed != len(features):
        remedy = "give the columns that it was trained with, in that order"
        raise RidgelineError(
            f"the model `{model}` takes {needed} features, and `features` has {len(features)}; {remedy}"
        )


def row_of(batch: pa.RecordBatch, row: int = 0) -> Mapping[str, Any]:
    """A row as a dictionary, for errors."""
    found: Mapping[str, Any] = batch.slice(row, 1).to_pylist()[0]
    return found


Results = str | dict[str, Any]
"""A column of floats, or several with their types."""
_TEXTS: dict[str, Any] = {
    "bigint": int,
    "bool": bool,
    "boolean": bool,
    "double": float,
    "float": float,
    "int": int,
    "str": str,
    "string": str,
}


class ResultColumns:
    """The columns of a model's results. `pick`: which column counts of several that it returns."""

    def __init__(self, declared: Results, pick: Any, model: str, *, nullable: bool) -> None:
        self.fields = result_fields(declared, nullable=nullable)
        self.names = [field.name for field in self.fields]
        self._pick = pick
        self._model = model

    def arrays(self, result: Any, count: int) -> list[pa.Array]:
        """A column for each field, of what a model returned for so many rows.

        Raises RidgelineError for another number of values, columns or types.
        """
        columns = self._columns(result)
        for field, column in zip(self.fields, columns, strict=True):
            if len(column) != count:
                what = f"returned {len(column):,} values for `{field.name}` and got {count:,} rows"
                self._refuse(what, "return one value for each row")
        return [self._cast(column, field) for column, field in zip(columns, self.fields, strict=True)]

    def _columns(self, result: Any) -> list[pa.Array]:
        """The columns that a result consists of, before they are cast."""
        named = _named(result)
        if named is not None:
            missing = [name for name in self.names if name not in named]
            if missing:
                hint = did_you_mean(missing[0], named)
                self._refuse(f"returned no column `{missing[0]}`", hint)
            return [self._array(named[name]) for name in self.names]
        if isinstance(result, list) and result and isinstance(result[0], Mapping):
            return self._of_mappings(result)
        values = result if isinstance(result, (pa.Array, pa.ChunkedArray, list)) else _as_numpy(result)
        if isinstance(values, np.ndarray) and values.ndim != 1:
            return self._of_matrix(values)
        if len(self.names) > 1:
            what = f"returned one column, and {len(self.names)} are declared: {listed(self.names)}"
            self._refuse(what, "return a column for each, by its name or in that order")
        return [self._array(values)]

    def _of_mappings(self, rows: Sequence[Mapping[Any, Any]]) -> list[pa.Array]:
        """One of probabilities by class: what ONNX models of classifiers return."""
        if self._pick is None:
            remedy = f"choose the class by `pick`, one of {list(rows[0])}"
            self._refuse("returned a value for each class", remedy)
        if self._pick not in rows[0]:
            remedy = f"`pick` one of {list(rows[0])}"
            self._refuse(f"knows no class {self._pick!r}", remedy)
        return [self._array([row[self._pick] for row in rows])]

    def _of_matrix(self, values: Any) -> list[pa.Array]:
        """The columns of an array of two dimensions."""
        if values.ndim != 2:  # noqa: PLR2004  rows and columns
            what = f"returned an array of {values.ndim} dimensions"
            self._refuse(what, "return one value for each row")
        width = values.shape[1]
        if self._pick is not None:
            if not isinstance(self._pick, int) or not -width <= self._pick < width:
                self._refuse(f"returned {width} columns, without {self._pick!r}", "correct `pick`")
            return [self._array(np.ascontiguousarray(values[:, self._pick]))]
        if len(self.fields) == 1 and pa.types.is_list(self.fields[0].type):
            offsets = np.arange(0, values.size + 1, max(width, 1), dtype=np.int32)[: len(values) + 1]
            flat = self._array(np.ascontiguousarray(values).reshape(-1))
            return [pa.ListArray.from_arrays(pa.array(offsets), flat)]
        if width != len(self.fields):
            what = f"returned {width} columns, and {len(self.fields)} are declared: {listed(self.names)}"
            self._refuse(what, "declare each, or choose one by `pick=1`")
        return [self._array(np.ascontiguousarray(values[:, place])) for place in range(width)]

    def _array(self, values: Any) -> pa.Array:
        try:
            found = pa.array(values.to_numpy() if hasattr(values, "iloc") else values)
        except (pa.ArrowException, TypeError, ValueError) as error:
            self._refuse(f"returned values that no column holds: {error}", "return plain ones")
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

    def _cast(self, array: pa.Array, field: pa.Field) -> pa.Array:
        """The values in the declared type; 0 and 1 are booleans, if those are declared."""
        found = array
        if pa.types.is_boolean(field.type) and pa.types.is_integer(array.type) and _are_bits(array):
            found = array.cast(pa.bool_())
        try:
            found = cast_exactly(found, field.type)
        except pa.ArrowException as error:
            what = f"returned {array.type} for `{field.name}`, which is declared as {field.type}: {error}"
            remedy = f"declare its type, `result={{{field.name!r}: {_type_name(array.type)}}}`"
            self._refuse(what, remedy)
        if found.null_count and not field.nullable:
            what = f"returned null for `{field.name}`, which is declared without"
            self._refuse(what, f"declare `result={{{field.name!r}: {_type_name(field.type)} | None}}`")
        return found

    def _refuse(self, what: str, remedy: str) -> NoReturn:
        raise RidgelineError(f"the model `{self._model}` {what}; {remedy}")


def result_fields(declared: Results, *, nullable: bool) -> list[pa.Field]:
    """The fields of declared columns. Raises SchemaError for a type that no column has."""
    types = {declared: float} if isinstance(declared, str) else declared
    found = []
    for name, given in types.items():
        kind = given
        if isinstance(given, str):
            if given.lower() not in _TEXTS:
                raise SchemaError(
                    f"`result` gives `{name}` the type {given!r}; {did_you_mean(given, _TEXTS)}"
                )
            kind = _TEXTS[given.lower()]
        found.append(pa.field(name, held(kind, name).type, nullable=nullable or is_optional(kind)))
    return found


def _named(result: Any) -> Mapping[str, Any] | None:
    """The columns of a result that has names; None of one that has none."""
    if isinstance(result, (pa.RecordBatch, pa.Table)):
        return {name: result.column(name) for name in result.schema.names}
    if isinstance(result, Mapping):
        return result
    if hasattr(result, "columns") and hasattr(result, "__getitem__"):  # a DataFrame
        return {str(name): result[name] for name in result.columns}
    return None


def _as_numpy(result: Any) -> Any:
    """Values as an array of numpy; an empty one of no known kind of what holds no values."""
    if hasattr(result, "iloc") or hasattr(result, "to_numpy"):
        return result.to_numpy()
    if isinstance(result, (np.ndarray, tuple)):
        return np.asarray(result)
    raise RidgelineError(
        f"the model returned {type(result).__name__}; return one value for each row: a list or an array"
    )


def _are_bits(array: pa.Array) -> bool:
    """True if integers are 0, 1 or null."""
    return pc.all(pc.is_in(array, value_set=pa.array([0, 1, None], array.type))).as_py() is not False


def _type_name(kind: pa.DataType) -> str:
    """A type as a user writes it."""
    types = pa.types
    if types.is_boolean(kind):
        return "bool"
    if types.is_integer(kind):
        return "int"
    if types.is_floating(kind):
        return "float"
    return "str" if types.is_string(kind) or types.is_large_string(kind) else f"pa.{kind}"

"""The columns that a model reads, as the library that computes it takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api import RidgelineError, Schema, SchemaError
from ridgeline.api.errors import listed
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

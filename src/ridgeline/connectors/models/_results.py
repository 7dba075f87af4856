"""The columns that a model's results become: their declared types, and what a model may return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api import RidgelineError, SchemaError
from ridgeline.api.columns.casting import cast_exactly
from ridgeline.api.columns.holding import held
from ridgeline.api.columns.nulls import is_optional
from ridgeline.api.errors import did_you_mean, listed

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

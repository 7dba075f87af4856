"""Checks for nulls that the declared types do not allow, and `NAN`, the one object for a NaN that is a key.

A dict finds a NaN by identity only: columns of floats are read with it, keyed state replaces others.

Where there is no null, a check costs a look at the null count of each array.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.columns.casting import filled, parts
from ridgeline.api.columns.struct_types import without_none

if TYPE_CHECKING:
    from ridgeline.api.columns.schema import Schema


class MisplacedNullError(ValueError):
    """A null in a column that is not optional.

    `field`: the column's name (`address.street`). `row`: the row index in the batch. `remedy`: how to allow
    nulls.
    """

    def __init__(self, field: str, row: int, kind: Any) -> None:
        self.field, self.row, self.remedy = field, row, _remedy(kind)
        super().__init__(f"field `{field}` is null, which its type does not allow: {self.remedy}")


def refuse_nulls(schema: Schema, batch: pa.RecordBatch) -> None:
    """Raise MisplacedNullError for the first null in the first column that must not have one.

    A field of a NamedTuple or dataclass may be null if its type is a union with None. A field of a
    `pyarrow.Schema` may be null if it is nullable.
    """
    if schema.takes_no_null and batch.drop_null().num_rows == batch.num_rows:
        return  # one call for all columns: it returns the batch itself
    for place, column in enumerate(schema.columns):
        if not column.takes_null:
            array = batch.column(place)
            if array.null_count or column.nested:
                check_nulls(array, column.declared, column.name)


def check_nulls(array: pa.Array, declared: object, name: str) -> None:
    """Raise MisplacedNullError for the first null in the array or within its values that must not be there.

    `declared`: the column's Python type, or its Arrow field.
    """
    if not _has_nulls(array):
        return
    for part, kind, place, rows in parts(array, declared, name):
        if part.null_count and not is_optional(kind):
            row = int(np.argmax(part.is_null().to_numpy(zero_copy_only=False)))
            raise MisplacedNullError(place, row if rows is None else int(rows[row]), without_none(kind))


def optional_columns(schema: Schema) -> set[str]:
    """The columns that may be null."""
    return {column.name for column in schema.columns if is_optional(column.declared)}


def is_optional(declared: object) -> bool:
    """True if a column of this Python type or Arrow field may be null."""
    if isinstance(declared, pa.Field):
        return bool(declared.nullable)
    if typing.get_origin(declared) is typing.Literal:
        return None in typing.get_args(declared)
    return typing.get_origin(declared) in (typing.Union, types.UnionType) and type(None) in typing.get_args(
        declared
    )


def _has_nulls(array: pa.Array) -> bool:
    """True if the array has a null, or perhaps one within its values, by its null counts alone."""
    if array.null_count:
        return True
    kind = array.type
    if not pa.types.is_nested(kind):
        return False
    if pa.types.is_struct(kind):
        return any(_has_nulls(array.field(number)) for number in range(kind.num_fields))
    if pa.types.is_map(kind):
        return _has_nulls(array.items)
    return hasattr(kind, "value_field") and _has_nulls(array.values)


def _remedy(kind: Any) -> str:
    """How to allow nulls in a field of this Python type or Arrow field."""
    if isinstance(kind, pa.Field):
        return "declare it nullable"
    if isinstance(kind, pa.DataType):
        return "declare it nullable, in a `pyarrow.Schema`"
    name = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    return f"declare it optional, such as `{name} | None`"


NAN = math.nan
"""The object that replaces every NaN."""
_FLOATS = (float, complex, Decimal, np.floating)


def one_nan(values: Sequence[Any], *, inside: bool = True) -> Sequence[object]:
    """Replace every NaN by `NAN`; if `inside`, in tuples too. Returns `values` itself if there is none."""
    kinds = set(map(type, values))
    return (
        list(map(one, values))
        if _may_be_nan(values, kinds) or (inside and _may_hold_nan(values, kinds))
        else values
    )


def one(value: object) -> Any:
    """Replace a NaN, or every NaN in a tuple, by `NAN`."""
    if not _is_odd(value):
        return value
    if not isinstance(value, tuple):
        return NAN
    parts = map(one, value)
    return type(value)._make(parts) if hasattr(value, "_make") else tuple(parts)


def odd_tuple(values: Collection[Any]) -> object:
    """The first tuple that contains a NaN other than `NAN`; None if there is none."""
    found = (value for value in values if isinstance(value, tuple) and _is_odd(value))
    return next(found, None) if _may_hold_nan(values, set(map(type, values))) else None


def nan_places(array: pa.Array) -> npt.NDArray[np.int64]:
    """The positions of NaN in an array of floats."""
    return np.flatnonzero(np.isnan(filled(array, 0.0)))


def _may_be_nan(values: Iterable[Any], kinds: set[type]) -> bool:
    """False if none of the values, of these types, is a NaN. Some nanoseconds per value."""
    if kinds == {float}:
        total = sum(values)
        return bool(total != total)  # noqa: PLR0124
    return any(issubclass(kind, _FLOATS) for kind in kinds)


def _may_hold_nan(values: Iterable[Any], kinds: set[type]) -> bool:
    """False if none of the values, of these types, is a tuple with a NaN. Some nanoseconds per value."""
    if not any(issubclass(kind, tuple) for kind in kinds):
        return False
    flat = list(
        chain.from_iterable(
            values if kinds == {tuple} else (value for value in values if isinstance(value, tuple))
        )
    )
    inner = set(map(type, flat))
    return _may_be_nan(flat, inner) or _may_hold_nan(flat, inner)


def _is_odd(value: object) -> bool:
    """True for a NaN other than `NAN`, or a tuple that contains one."""
    if isinstance(value, tuple):
        return any(map(_is_odd, value))
    if value is NAN or not isinstance(value, _FLOATS):
        return False
    return value.is_nan() if isinstance(value, Decimal) else bool(value != value)  # noqa: PLR0124

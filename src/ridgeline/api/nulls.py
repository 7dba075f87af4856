"""Checks for nulls that the declared types do not allow, in batches from outside of Ridgeline."""

from __future__ import annotations

import types
import typing
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.record import record_fields, without_none
from ridgeline.api.schema import Schema

Rows = npt.NDArray[np.int64]


class MisplacedNullError(ValueError):
    """A null in a column that is not optional.

    `field`: the column's name (`address.street`). `row`: the row index in the batch.
    """

    def __init__(self, field: str, row: int, kind: str) -> None:
        self.field, self.row = field, row
        super().__init__(
            f"field `{field}` is null, which its type does not allow: "
            f"declare it optional, such as `{kind} | None`"
        )


def refuse_nulls(schema: Schema, batch: pa.RecordBatch) -> None:
    """Raise MisplacedNullError for the first null in the first column that must not have one.

    A field of a NamedTuple or dataclass may be null if its type is a union with None. A field of a
    `pyarrow.Schema` may be null if it is nullable.
    """
    for array, (name, kind) in zip(batch.columns, _declared(schema), strict=True):
        _check(array, kind, name, None)


def optional_columns(schema: Schema) -> set[str]:
    """The columns that may be null."""
    return {name for name, kind in _declared(schema) if _is_optional(kind)}


def _declared(schema: Schema) -> list[tuple[str, object]]:
    """Names of the columns with their Python types, or with their Arrow fields for a `pyarrow.Schema`."""
    fields = (
        zip(schema.arrow.names, schema.arrow, strict=True)
        if isinstance(schema.type, pa.Schema)
        else record_fields(schema.type).items()
    )
    return list(fields)


def _is_optional(declared: object) -> bool:
    """True if a column of this Python type or Arrow field may be null."""
    if isinstance(declared, pa.Field):
        return bool(declared.nullable)
    return typing.get_origin(declared) in (typing.Union, types.UnionType) and type(None) in typing.get_args(
        declared
    )


def _check(array: pa.Array, declared: object, name: str, rows: Rows | None) -> None:
    """Check one column and what is nested in it.

    `rows[i]`: the row of the batch to which `array[i]` belongs; None: row `i`.
    """
    kind = without_none(declared)
    if array.null_count:
        null = pc.is_null(array).to_numpy(zero_copy_only=False)
        if not _is_optional(declared):
            place = int(np.argmax(null))
            raise MisplacedNullError(name, place if rows is None else int(rows[place]), _name_of(kind))
        if not pa.types.is_nested(array.type):
            return
        rows = np.flatnonzero(~null) if rows is None else rows[~null]
        array = array.drop_null()
    if pa.types.is_nested(array.type):
        _check_inside(array, kind, name, rows)


def _check_inside(array: pa.Array, kind: Any, name: str, rows: Rows | None) -> None:
    """`_check` the fields of a struct, the values of a map, or the items of a list."""
    inner = kind.type if isinstance(kind, pa.Field) else kind
    if pa.types.is_struct(array.type):
        fields = (
            {field.name: field for field in inner} if isinstance(inner, pa.DataType) else record_fields(inner)
        )
        for number, (part, declared) in enumerate(fields.items()):
            _check(pc.struct_field(array, number), declared, f"{name}.{part}", rows)
        return
    if pa.types.is_map(array.type):
        declared, what = (
            inner.item_field if isinstance(inner, pa.DataType) else typing.get_args(inner)[1],
            "{}",
        )
        array = pa.ListArray.from_arrays(array.offsets, array.items)
    else:
        declared, what = (
            inner.value_field if isinstance(inner, pa.DataType) else typing.get_args(inner)[0],
            "[]",
        )
    lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False).astype(np.int64)
    _check(
        array.flatten(),
        declared,
        name + what,
        np.repeat(np.arange(len(array)) if rows is None else rows, lengths),
    )


def _name_of(kind: Any) -> str:
    if isinstance(kind, pa.Field):
        return str(kind.type)
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)

"""The common parts of joins: their key columns, the schema of their results, rows as tuples and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ridgeline.api import Schema, SchemaError
from ridgeline.api.columns.casting import to_python
from ridgeline.operators._divided import Columns, check_columns, check_keys, columns_of
from ridgeline.operators._kinds import NUMBERS, family, plain

On = Columns | Mapping[str, str]
"""Columns that both sides have, or those of the first side with those of the second."""
Row = tuple[Any, ...]


def left_columns(on: On | None) -> tuple[str, ...]:
    """The key columns of the first side."""
    return tuple(on) if isinstance(on, Mapping) else columns_of(on)


def right_columns(on: On | None) -> tuple[str, ...]:
    """The key columns of the second side, in the order of the first side's."""
    return tuple(on.values()) if isinstance(on, Mapping) else columns_of(on)


def check_kinds(first: pa.Schema, mine: Sequence[str], second: pa.Schema, theirs: Sequence[str]) -> None:
    """Raise SchemaError for two key columns whose values can never be equal."""
    for one, other in zip(mine, theirs, strict=True):
        kinds = first.field(one).type, second.field(other).type
        if _kind(kinds[0]) != _kind(kinds[1]):
            what = f"`{one}` of `on` is {kinds[0]}, and `{other}` of the other side {kinds[1]}"
            raise SchemaError(f"{what}: their values are never equal; convert one of them before")


def _kind(kind: pa.DataType) -> str:
    """One text for all types whose values can be equal."""
    name = family(kind)
    if name in (*NUMBERS, "boolean"):
        return "number"
    return name if name in ("text", "bytes", "timestamp") else str(plain(kind))


def others(schema: pa.Schema, names: Sequence[str | None]) -> list[pa.Field]:
    """The fields that are not among `names`."""
    return [field for field in schema if field.name not in names]


def joined_schema(first: Sequence[pa.Field], second: Sequence[pa.Field], suffix: str, who: str) -> pa.Schema:
    """The columns of both sides; one of the second whose name the first has gets the suffix.

    Raises SchemaError if a name is there twice all the same.
    """
    taken = {field.name for field in first}
    fields = list(first)
    for field in second:
        name = f"{field.name}{suffix}" if field.name in taken else field.name
        if name in {known.name for known in fields}:
            remedy = "give another `suffix`, or rename a column before"
            raise SchemaError(f"`{who}` would have the column `{name}` twice; {remedy}")
        fields.append(field.with_name(name))
    return pa.schema(fields)


def optional(fields: Sequence[pa.Field]) -> list[pa.Field]:
    """The same fields, nullable: of a side that may be missing."""
    return [field.with_nullable(nullable=True) for field in fields]


def pair_schema(
    first: Schema, second: Schema, on: On, how: str, suffix: str, left_out: Sequence[str | None] = ()
) -> pa.Schema:
    """The columns of a join. `left_out`: columns of the second side that are not joined.

    Raises SchemaError for what a stream does not have, and for columns that cannot be keys.
    """
    mine, theirs = left_columns(on), right_columns(on)
    check_keys(first, mine)
    check_columns(first, mine, "`on`")
    check_columns(second, theirs, "`on`")
    check_kinds(first.arrow, mine, second.arrow, theirs)
    if how == "anti":
        return first.arrow
    added = others(second.arrow, (*theirs, *left_out))
    return joined_schema(
        optional(list(first.arrow)) if how == "full" else list(first.arrow),
        added if how == "inner" else optional(added),
        suffix,
        "output",
    )


def rows_of(batch: pa.RecordBatch, names: Sequence[str]) -> list[Row]:
    """The values of these columns, a tuple for each row, as `arrays_of` takes them."""
    if not names:
        return [()] * len(batch)
    return list(zip(*(_values(batch.column(name)) for name in names), strict=True))


def _values(column: pa.Array) -> list[Any]:
    """The values of a column; times as numbers, which take a tenth of the time."""
    number = _number(column.type)
    return to_python(column) if number is None else column.view(number).to_pylist()


def _number(kind: pa.DataType) -> pa.DataType | None:
    """The type of the numbers that times of a type are; None for other types."""
    types = pa.types
    if types.is_timestamp(kind) or types.is_duration(kind) or types.is_time64(kind) or types.is_date64(kind):
        return pa.int64()
    return pa.int32() if types.is_date32(kind) or types.is_time32(kind) else None


def arrays_of(rows: Sequence[Row | None], fields: Sequence[pa.Field]) -> list[pa.Array]:
    """A column for each field of rows; nulls where a row is None."""
    if not fields:
        return []
    nothing = (None,) * len(fields)
    whole = [nothing if row is None else row for row in rows] if None in rows else rows
    columns: Any = zip(*whole, strict=True) if rows else [()] * len(fields)
    found = []
    for values, field in zip(columns, fields, strict=True):
        number = _number(field.type)
        array = pa.array(values, number or field.type)
        found.append(array if number is None else array.view(field.type))
    return found


def fitted(columns: Sequence[pa.Array], fields: Sequence[pa.Field]) -> list[pa.Array]:
    """Columns as the types of fields: those that were held have no dictionaries."""
    return [
        column if column.type == field.type else _cast(column, field.type)
        for column, field in zip(columns, fields, strict=True)
    ]


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Raises ArrowInvalid for a value that does not fit."""
    if pa.types.is_decimal(kind) and pa.types.is_integer(column.type):  # Arrow wants room for all integers
        column = column.cast(pa.decimal256(76, kind.scale))
    return column.cast(kind)


def has_null(key: Any) -> bool:
    """True for a key with a null in it, which equals no other in a join."""
    return key is None or (isinstance(key, tuple) and None in key)

"""Columns of streams as tables of a lake have them, and which of them fit a table that is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from ridgeline.operators._window_parts import key_codes

_MOST_DIGITS = 38
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
Convert = Callable[[pa.DataType], pa.DataType]
"""Which type a table has for a type of Arrow. Raises ValueError if it has none."""


def delta_type(kind: pa.DataType) -> pa.DataType:
    """The type that a Delta table has for an Arrow type. Raises ValueError if it has none."""
    is_ = pa.types
    if is_.is_time(kind):
        return pa.string()
    return _common_type(kind, delta_type)


def iceberg_type(kind: pa.DataType) -> pa.DataType:
    """The type that an Iceberg table has for an Arrow type. Raises ValueError if it has none."""
    is_ = pa.types
    if is_.is_time(kind):
        return pa.time64("us")
    if is_.is_int8(kind) or is_.is_int16(kind) or is_.is_uint8(kind):
        return pa.int32()
    return _common_type(kind, iceberg_type)


def _common_type(kind: pa.DataType, convert: Convert) -> pa.DataType:  # noqa: PLR0911, C901, PLR0912  a case each
    """The type that both kinds of tables have. `convert`: for the parts of nested types."""
    is_ = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return convert(kind.storage_type)
    if is_.is_dictionary(kind) or is_.is_run_end_encoded(kind):
        return convert(kind.value_type)
    if is_.is_null(kind) or is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        return pa.string()
    if is_.is_unsigned_integer(kind):
        return {8: pa.int16(), 16: pa.int32()}.get(kind.bit_width, pa.int64())
    if is_.is_duration(kind):
        return pa.int64()
    if is_.is_float16(kind):
        return pa.float32()
    if is_.is_decimal(kind):
        if kind.precision > _MOST_DIGITS or not 0 <= kind.scale <= kind.precision:
            raise ValueError(
                f"{kind} has more than {_MOST_DIGITS} digits, or a scale that tables do not have"
            )
        return pa.decimal128(kind.precision, kind.scale)
    if is_.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if is_.is_date(kind):
        return pa.date32()
    if is_.is_map(kind):
        return pa.map_(convert(kind.key_type), convert(kind.item_type))
    if is_.is_struct(kind):
        if not kind.num_fields:
            raise ValueError("a struct without fields has no column in Parquet")
        return pa.struct([(field.name, convert(field.type)) for field in kind])
    if is_.is_nested(kind):
        if not hasattr(kind, "value_type"):
            raise ValueError(f"{kind} is a type that tables do not have")
        return pa.list_(pa.field("element", convert(kind.value_type)))
    if is_.is_fixed_size_binary(kind) or is_.is_large_binary(kind) or is_.is_binary_view(kind):
        return pa.binary()
    return kind


def converted(batch: pa.RecordBatch, convert: Convert) -> pa.RecordBatch:
    """Rows with the types that tables have.

    Raises ValueError that names the column of a value that a table cannot have.
    """
    columns = [_cast(column, name, convert) for name, column in zip(batch.schema.names, batch, strict=True)]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _cast(column: pa.Array, name: str, convert: Convert) -> pa.Array:
    """A column with the type of tables."""
    kind = column.type
    try:
        target = convert(kind)
        if kind == target:
            return column
        if isinstance(kind, pa.BaseExtensionType):
            return _cast(column.storage, name, convert)
        if pa.types.is_duration(kind):
            column = column.cast(pa.duration("us"), safe=kind.unit != "ns")
        fine = (pa.types.is_timestamp(kind) and kind.unit == "ns") or kind == pa.time64("ns")
        safe = not (pa.types.is_nested(kind) or fine)
        return column.cast(target, safe=safe)  # nanoseconds are cut to microseconds
    except (ValueError, NotImplementedError) as error:
        raise ValueError(
            f"column `{name}` ({kind}) has a value that the table cannot hold: {error}; convert it upstream"
        ) from error


def refuse_null_lists(batch: pa.RecordBatch) -> None:
    """Raise ValueError for a list of structs that is null: pyiceberg would write an empty one."""
    for name, column in zip(batch.schema.names, batch, strict=True):
        if _has_null_list(column):
            msg = f"column `{name}` has a list of structs that is null, which pyiceberg writes as an empty "
            msg += "one; fill it upstream"
            raise ValueError(msg)


def _has_null_list(column: pa.Array) -> bool:
    """Whether a list of structs is null, at any depth."""
    is_, kind = pa.types, column.type
    if is_.is_list(kind):
        return bool(is_.is_struct(kind.value_type) and column.null_count) or _has_null_list(column.flatten())
    if is_.is_struct(kind):
        return any(map(_has_null_list, column.flatten()))
    return is_.is_map(kind) and (_has_null_list(column.keys) or _has_null_list(column.items))


def fits(kind: pa.DataType, column: pa.DataType) -> bool:  # noqa: PLR0911  a case each
    """Whether all values of a converted type can be written to a column of a table as they are."""
    is_ = pa.types
    if kind == column:
        return True
    if is_.is_integer(kind):
        if is_.is_decimal(column):
            return column.precision - column.scale >= _INTEGER_DIGITS[kind.bit_width]
        if is_.is_floating(column):
            return kind.bit_width < column.bit_width
        return is_.is_integer(column) and kind.bit_width <= column.bit_width
    if is_.is_floating(kind):
        return is_.is_floating(column) and kind.bit_width <= column.bit_width
    if is_.is_decimal(kind) and is_.is_decimal(column):
        whole = kind.precision - kind.scale <= column.precision - column.scale
        return whole and kind.scale <= column.scale
    if is_.is_map(kind):
        return (
            is_.is_map(column)
            and fits(kind.key_type, column.key_type)
            and fits(kind.item_type, column.item_type)
        )
    if is_.is_list(kind):
        return is_.is_list(column) and fits(kind.value_type, column.value_type)
    if is_.is_struct(kind) and is_.is_struct(column):
        pairs = zip(kind, column, strict=False)
        same = kind.num_fields == column.num_fields
        return same and all(a.name == b.name and fits(a.type, b.type) for a, b in pairs)
    return False


def as_table(rows: pa.Table, fields: Sequence[pa.Field]) -> pa.Table:
    """Rows with exactly the columns of a table; those that the stream lacks are null."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(len(rows), field.type)
        for field in fields
    ]
    return pa.Table.from_arrays(
        columns, schema=pa.schema([pa.field(field.name, field.type) for field in fields])
    )


def last_of_each(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in the order of rows."""
    codes, keys = _codes(rows, key)
    last = np.empty(len(keys), np.int64)
    last[codes] = np.arange(len(rows))
    return rows if len(keys) == len(rows) else rows.take(pa.array(np.sort(last)))


def last_parts(
    rows: pa.Table, windows: np.ndarray, columns: Sequence[str]
) -> tuple[pa.Table, list[tuple[object, ...]]]:
    """Of each part, rows with the same values of columns, those of the last window; and the parts."""
    codes, keys = _codes(rows, columns)
    last = np.full(len(keys), -1, np.int64)
    np.maximum.at(last, codes, windows)
    kept = last[codes] == windows
    return rows if kept.all() else rows.filter(pa.array(kept)), keys


def _codes(rows: pa.Table, columns: Sequence[str]) -> tuple[np.ndarray, list[tuple[object, ...]]]:
    return key_codes([rows.column(name).combine_chunks() for name in columns])

"""Arrow types of the columns that polars makes, and columns of batches as polars and back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ridgeline.api.errors import SchemaError
from ridgeline.operators.frames._expressions import first_line, imported, refuse_other


def frame_of(batch: pa.RecordBatch | pa.Table) -> Any:
    """A polars frame of a batch. Raises SchemaError for a column that polars cannot hold."""
    polars = imported()
    try:
        return polars.from_arrow(batch)
    except BaseException as error:  # noqa: BLE001  of polars
        refuse_other(error)
        for name in batch.schema.names:
            try:
                polars.from_arrow(batch.schema.empty_table().select([name]))
            except BaseException as own:  # noqa: BLE001  of polars
                refuse_other(own)
                kind = batch.schema.field(name).type
                raise SchemaError(
                    f"column `{name}` is {kind}, which polars cannot hold; cast it before, in a `map`"
                ) from None
        raise SchemaError(
            f"polars cannot read the columns: {first_line(error)}; cast them before, in a `map`"
        ) from None


def readable(columns: pa.Schema) -> Any:
    """An empty polars frame of those columns that polars can hold."""
    names = []
    for name in columns.names:
        try:
            frame_of(columns.empty_table().select([name]))
        except SchemaError:
            continue
        names.append(name)
    return frame_of(columns.empty_table().select(names))


def type_of(dtype: Any, name: str) -> pa.DataType:  # noqa: PLR0911  a case each
    """The Arrow type of a column that polars makes. Raises SchemaError for one that Arrow does not have."""
    polars = imported()
    kind = dtype.base_type()
    if kind is polars.String:
        return pa.string()
    if kind is polars.Binary:
        return pa.binary()
    if kind is polars.Time:
        return pa.time64("us")
    if kind is polars.List:
        return pa.list_(type_of(dtype.inner, name))
    if kind is polars.Array:
        return pa.list_(type_of(dtype.inner, name), dtype.size)
    if kind is polars.Struct:
        return pa.struct([(field.name, type_of(field.dtype, name)) for field in dtype.fields])
    if kind in (polars.Categorical, polars.Enum):
        return pa.dictionary(pa.int32(), pa.string())
    try:
        found: pa.DataType = polars.Series(dtype=dtype).to_arrow().type
    except BaseException as error:  # noqa: BLE001  of polars
        refuse_other(error)
        found = pa.null()
    if kind in (polars.Object, polars.Int128) or str(kind) in ("UInt128", "Object") or _is_odd(found):
        raise SchemaError(
            f"column `{name}` would be {dtype}, which Arrow does not have; cast it: `.cast(pl.Int64)`"
        )
    if pa.types.is_map(found):
        return pa.map_(_plain(found.key_type), _plain(found.item_type))
    return found


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without the large offsets that polars uses."""
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _is_odd(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


def keeps_values(dtype: Any) -> bool:
    """True if a column of this type of polars is the same after it was one of Arrow."""
    polars = imported()
    kind = dtype.base_type()
    if kind in (polars.List, polars.Array):
        return keeps_values(dtype.inner)
    if kind is polars.Struct:
        return all(keeps_values(field.dtype) for field in dtype.fields)
    plain = (polars.String, polars.Binary, polars.Boolean, polars.Date, polars.Datetime, polars.Duration)
    floats = (polars.Float32, polars.Float64)
    whole = (polars.Int8, polars.Int16, polars.Int32, polars.Int64)
    return kind in (*plain, *floats, *whole, polars.UInt8, polars.UInt16, polars.UInt32, polars.UInt64)


def array_of(series: Any) -> pa.Array:
    """A column that polars has made, as one Arrow array."""
    found: Any = series.to_arrow()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

"""Tables of other libraries as Arrow tables: what `emit_batch` takes beside a `pyarrow.RecordBatch`."""

from __future__ import annotations

import sys
from datetime import date
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
import pyarrow as pa

from ridgeline.api.errors import SchemaError, described

if TYPE_CHECKING:
    from ridgeline.api.columns.column import Column
    from ridgeline.api.columns.schema import Schema


class ArrowStream(Protocol):
    """A table that exports its columns by the Arrow PyCapsule interface, for annotations.

    Such are `pyarrow.Table` and the DataFrames of pandas and polars.

    Example:
        >>> import pyarrow as pa
        >>> from ridgeline import ArrowStream
        >>> def count(table: ArrowStream) -> int:
        ...     return pa.table(table).num_rows
        >>> count(pa.table({"account": [1, 2]}))
        2
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object:
        """The table as a stream of Arrow batches, in a PyCapsule."""


def table_of(value: object, port: str, schema: Schema) -> pa.Table:
    """A table or DataFrame as a `pyarrow.Table`, without a copy where its library allows that.

    Of a pandas DataFrame, index levels with a name become columns; an index without a name is left out. A NaN
    in a column of floats stays NaN if `schema`, the port's, has floats there. Else it is a missing value.
    Columns of Python objects are converted as values of tuples are.

    Raises SchemaError, naming the port, for what has no columns or has values that Arrow does not know.
    """
    if isinstance(value, pa.Table):
        return value
    if not _has_columns(value):
        takes = "`pyarrow.RecordBatch`, a `pyarrow.Table` or a DataFrame"
        remedy = "use `emit` for a single tuple"
        raise SchemaError(f"`{port}.emit_batch` takes a {takes}; got a {type(value).__name__}; {remedy}")
    try:
        return _of_pandas(value, schema) if _is_pandas(value) else pa.table(value)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError, OverflowError) as error:
        kind = type(value).__name__
        what = f"cannot make Arrow columns of the {kind}: {described(error)}"
        raise SchemaError(f"`{port}.emit_batch` {what}; convert its columns") from error


def _has_columns(value: object) -> TypeGuard[ArrowStream]:
    """True for an instance, not a class, that exports batches; a column alone exports something else."""
    is_column = isinstance(value, (pa.Array, pa.ChunkedArray))
    exports = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__") or _is_pandas(value)
    return exports and not is_column and not isinstance(value, type)


def _is_pandas(value: object) -> bool:
    """True for a pandas DataFrame. Does not import pandas: where there is one, it is imported already."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _of_pandas(frame: Any, schema: Schema) -> pa.Table:
    """A pandas DataFrame: an index is a column if it has a name, and only then.

    Arrow makes every NaN of pandas null. Where the port takes floats, columns with NaN are converted again.
    Arrow infers one type from all Python objects of a column, and cuts some; so the port's type decides.
    """
    named = [name for name in frame.index.names if name is not None]
    frame = frame.reset_index(named) if named else frame
    columns = {} if schema.pickled else {column.name: column for column in schema.columns}
    own = {
        str(name): array
        for place, name in enumerate(frame.columns)
        if (column := columns.get(str(name))) is not None
        and (array := _of_objects(frame.iloc[:, place], column)) is not None
    }
    rest = frame if not own else frame.loc[:, [str(name) not in own for name in frame.columns]]
    table = pa.Table.from_pandas(rest, preserve_index=False)
    for position, name in enumerate(table.column_names):
        dtype = rest.dtypes.iloc[position]
        if (
            name in columns
            and pa.types.is_floating(columns[name].type)
            and isinstance(dtype, np.dtype)
            and dtype.kind == "f"
            and table[position].null_count
        ):
            table = table.set_column(position, name, pa.array(rest.iloc[:, position].to_numpy()))
    for name, array in own.items():
        table = table.append_column(name, array) if table.num_columns else pa.table({name: array})
    return table


def _of_objects(series: Any, column: Column) -> pa.Array | None:
    """A column of Python objects, or of categories that are such; None for others.

    Raises ValueError naming the column.
    """
    categories = getattr(series.dtype, "categories", None)
    dtype = series.dtype if categories is None else categories.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind != "O":
        return None
    values = series.tolist() if categories is None else categories.tolist()
    if pa.types.is_timestamp(column.type) and {date} == {
        type(value) for value in values if value is not None
    }:
        return None  # a batch's dates become times
    if not pa.types.is_floating(column.type):  # pandas marks by NaN what is missing
        values = [None if isinstance(value, float) and value != value else value for value in values]  # noqa: PLR0124
    try:
        made = column.convert(values)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError, OverflowError) as error:
        raise ValueError(f"column `{column.name}` must be {column.type}; {error}") from error
    if categories is None:
        return made
    codes = series.cat.codes.to_numpy()
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), _decoded(made)).dictionary_decode()


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array

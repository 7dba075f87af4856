"""Rows as literals of SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.operators._json import json_column
from ridgeline.operators._table_rows import DELETED

_NULL = pa.scalar("NULL", pa.large_string())


def literals(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The values of each column as literals of SQL; null stays null, `DELETED` stays as it is.

    Raises ValueError for a number that MariaDB does not have: it names row, column and remedy.
    """
    columns = [
        column if name == DELETED else _literals(name, column, batch)
        for name, column in zip(batch.schema.names, batch, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def tuples(data: pa.Table, names: Sequence[str]) -> list[str]:
    """The rows of columns of literals as tuples of SQL: `(1,'IBM',1.25e0)`."""
    columns = [pc.fill_null(_whole(data.column(name)), _NULL) for name in names]
    joined = pc.binary_join_element_wise(*columns, pa.scalar(",", pa.large_string()))
    texts: list[str] = joined.to_pylist()
    return [f"({text})" for text in texts]


def _whole(column: Any) -> Any:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.large_string())


def _text(value: str) -> pa.Scalar[Any]:
    return pa.scalar(value, pa.large_string())


def _quoted(column: Any) -> Any:
    return pc.binary_join_element_wise(_text("'"), column.cast(pa.large_string()), _text("'"), _text(""))


def _literals(name: str, column: Any, batch: pa.RecordBatch) -> Any:  # noqa: C901, PLR0911  a case each
    """A column as literals."""
    kind, is_ = column.type, pa.types
    if is_.is_dictionary(kind):
        return _literals(name, column.dictionary_decode(), batch)
    if is_.is_null(kind):
        return column.cast(pa.large_string())
    if is_.is_boolean(kind):
        return column.cast(pa.int8()).cast(pa.large_string())
    if is_.is_integer(kind):
        return column.cast(pa.large_string())
    if is_.is_floating(kind):
        return _floats(name, column.cast(pa.float64()), batch)
    if is_.is_decimal(kind):
        texts = [None if one is None else format(one, "f") for one in column.to_pylist()]
        return pa.array(texts, pa.large_string())
    if is_.is_duration(kind):
        return column.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(pa.large_string())
    if is_.is_timestamp(kind):
        naive = column.cast(pa.timestamp("us", kind.tz), safe=False)
        return _quoted((naive.cast(pa.timestamp("us", "UTC")) if kind.tz else naive).cast(pa.timestamp("us")))
    if is_.is_time(kind):
        return _quoted(column.cast(pa.time64("us"), safe=False))
    if is_.is_date(kind):
        return _quoted(column.cast(pa.date32()))
    if is_.is_nested(kind):
        return _escaped(json_column(column))
    if is_.is_string(kind) or is_.is_large_string(kind):
        return _escaped(column)
    values = [None if one is None else f"x'{one.hex()}'" for one in column.to_pylist()]
    return pa.array(values, pa.large_string())


def _escaped(column: Any) -> Any:
    """Texts in quotes."""
    column = column.cast(pa.large_string())
    for plain, escaped in (("\\", "\\\\"), ("'", "''"), ("\0", "\\0")):
        column = pc.replace_substring(column, plain, escaped)
    return _quoted(column)


def _floats(name: str, column: Any, batch: pa.RecordBatch) -> Any:
    """Floats with all their digits. Raises ValueError for NaN and the infinities."""
    wrong = pc.invert(pc.is_finite(column))
    if pc.any(wrong).as_py():
        row = batch.slice(pc.index(wrong, True).as_py(), 1).to_pylist()[0]
        raise ValueError(
            f"column `{name}` is no finite number in row {row}, and MariaDB has no other; replace it upstream"
        )
    values = [None if one is None else _float(one) for one in column.to_pylist()]
    return pa.array(values, pa.large_string())


def _float(value: float) -> str:
    text = repr(value)
    return text if "e" in text else f"{text}e0"

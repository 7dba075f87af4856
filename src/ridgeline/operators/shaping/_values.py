"""The text of each value of a column."""

from __future__ import annotations

import pyarrow as pa

from ridgeline.api.columns.casting import is_text
from ridgeline.operators._json import json_lines

_START, _END = len('{"v":'), -1


def value_texts(column: pa.Array) -> list[str | None]:
    """The text of each value; None of null.

    A text is itself. Others are as in JSON, without quotes; NaN and the infinities are `nan` and `inf`.

    >>> value_texts(pa.array([1.5, None, float("nan")])), value_texts(pa.array(["a b"]))
    (['1.5', None, 'nan'], ['a b'])
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_text(column.type):
        texts: list[str | None] = column.to_pylist()
        return texts
    if pa.types.is_floating(column.type):
        return [None if value is None else repr(value) for value in column.cast(pa.float64()).to_pylist()]
    lines = json_lines(pa.table({"v": column})).decode().split("\n")[:-1]
    found = [line[_START:_END] for line in lines]
    bare = [text[1:-1] if text[:1] == '"' else text for text in found]
    valid = column.is_valid().to_pylist()
    return [text if there else None for text, there in zip(bare, valid, strict=True)]

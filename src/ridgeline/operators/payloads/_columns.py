"""Decoded records, dictionaries by name, as columns of a schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ridgeline.api.columns.casting import is_list
from ridgeline.api.columns.nulls import optional_columns, refuse_nulls
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.value_arrays import maker
from ridgeline.api.errors import did_you_mean

_MISSING: Any = object()


class RecordColumns:
    """Makes a batch of records, which are dictionaries. Fields that the schema lacks are ignored.

    A field that a record lacks is null where the column may be null.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._optional = optional_columns(schema)
        self._fields = [(field.name, maker(field.type), _reshaper(field.type)) for field in schema.arrow]

    def batch(self, records: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        """The batch. Raises ValueError, or what Arrow raises, for a value that does not fit."""
        arrays = []
        for name, make, reshape in self._fields:
            if name in self._optional:
                values = [record.get(name) for record in records]
            else:
                values = [record.get(name, _MISSING) for record in records]
                if _MISSING in values:
                    raise ValueError(self._lacks(name, records[values.index(_MISSING)]))
            try:
                arrays.append(make(values if reshape is None else list(map(reshape, values))))
            except (TypeError, OverflowError, ArithmeticError, AttributeError) as error:
                raise ValueError(f"column `{name}`: {error}") from error
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(records), pa.struct([])))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)
        refuse_nulls(self._schema, batch)
        return batch

    def _lacks(self, name: str, record: Mapping[str, Any]) -> str:
        return f"field `{name}` is missing; {did_you_mean(name, set(record) - set(self._schema.arrow.names))}"


def _reshaper(kind: Any) -> Callable[[Any], Any] | None:
    """The function from a nested value to the form that arrays are made of; None if it has that form."""
    form = _form(kind)
    return None if form is None else lambda value: None if value is None else form(value)


def _form(kind: Any) -> Callable[[Any], Any] | None:
    """`_reshaper` of values that are not null: structs lose the fields that they have beside their type's."""
    if pa.types.is_struct(kind):
        parts = [(field.name, _reshaper(field.type)) for field in kind]
        return lambda value: {
            name: value.get(name) if inner is None else inner(value.get(name)) for name, inner in parts
        }
    is_map = pa.types.is_map(kind)
    inner = _reshaper(kind.item_type if is_map else kind.value_type) if is_map or is_list(kind) else None
    if inner is None:
        return None
    if is_map:
        return lambda value: dict(zip(value, map(inner, value.values()), strict=True))
    return lambda value: list(map(inner, value))


class RowEncoder:
    """The base of encoders that make a value of each row, behind a frame. `fits`: what a row has to fit."""

    def __init__(self, fits: str, frame: bytes) -> None:
        self._fits, self._frame = fits, frame

    def encoded(self, record: Mapping[str, Any]) -> bytes:
        """The value of a row. Raises what the library raises if it does not fit."""
        raise NotImplementedError

    def __call__(self, batch: pa.RecordBatch) -> list[bytes]:
        """The values of all rows. Raises ValueError that names the first row which does not fit."""
        values: list[bytes] = []
        for row, record in enumerate(batch.to_pylist(maps_as_pydicts="strict")):
            try:
                values.append(self._frame + self.encoded(record))
            except Exception as error:  # what libraries raise has many classes
                raise ValueError(f"row {row} does not fit {self._fits}: {error}") from error
        return values

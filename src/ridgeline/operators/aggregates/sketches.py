"""Approximate aggregates of bounded size, by sketches of `datasketches`: their parts are its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from datasketches import (
    frequent_items_error_type,
    frequent_strings_sketch,
    hll_sketch,
    hll_union,
    kll_doubles_sketch,
    tgt_hll_type,
)

from ridgeline.api.codec import hash_column
from ridgeline.operators._kinds import plain
from ridgeline.operators.aggregates.counted import highest, top_field
from ridgeline.operators.aggregates.quantiles import floats_by_group, quantile_field
from ridgeline.operators.aggregates.rules import Rules
from ridgeline.operators.aggregates.value import Aggregate, Part, Rows

_HLL_BITS = 12
_KLL_SIZE = 200
_TOP_BITS = 12


class _ApproximateCount(Rules, kinds=("approximate_count_unique",)):
    """The part is a HyperLogLog sketch of the values' hashes."""

    def field(self, columns: pa.Schema) -> pa.Field:
        field = self.field_of(columns)
        if pa.types.is_nested(field.type):
            raise self.refused(field, "give one of plain values")
        return pa.field("", pa.int64(), nullable=False)

    def parts(self, rows: Rows) -> list[Part]:
        """Equal values have equal hashes, so a sketch gets each once."""
        found = rows.of(self.column)
        order, spans = rows.slices(found)
        hashes = hash_column(_hashable(found.column)).view(np.int64)[order] if len(order) else order
        parts: list[Part] = [None] * rows.count
        for group, begin, end in spans:
            sketch = hll_sketch(_HLL_BITS, tgt_hll_type.HLL_8)
            update = sketch.update
            for value in np.unique(hashes[begin:end]).tolist():
                update(value)
            parts[group] = sketch.serialize_compact()
        return parts

    def merge(self, one: Part, other: Part) -> Part:
        union = hll_union(_HLL_BITS)
        union.update(hll_sketch.deserialize(one))
        union.update(hll_sketch.deserialize(other))
        found: bytes = union.get_result(tgt_hll_type.HLL_8).serialize_compact()
        return found

    def result(self, part: Part) -> Any:
        return round(hll_sketch.deserialize(part).get_estimate())

    def of_nothing(self) -> Any:
        return 0


def _hashable(column: pa.Array) -> pa.Array:
    """Times of day and durations as numbers: they are no keys, and have no hash."""
    if pa.types.is_time32(column.type):
        column = column.cast(pa.int32())
    number = pa.types.is_time64(column.type) or pa.types.is_duration(column.type)
    return column.cast(pa.int64()) if number else column


class _ApproximateQuantile(Rules, kinds=("approximate_quantile", "approximate_quantiles")):
    """The part is a KLL sketch."""

    def field(self, columns: pa.Schema) -> pa.Field:
        return quantile_field(self.number_of(columns), one=self.aggregate.kind == "approximate_quantile")

    def parts(self, rows: Rows) -> list[Part]:
        values, spans = floats_by_group(self.column, rows)
        parts: list[Part] = [None] * rows.count
        for group, begin, end in spans:
            sketch = kll_doubles_sketch(_KLL_SIZE)
            sketch.update(values[begin:end])
            parts[group] = sketch.serialize()
        return parts

    def merge(self, one: Part, other: Part) -> Part:
        sketch = kll_doubles_sketch.deserialize(one)
        sketch.merge(kll_doubles_sketch.deserialize(other))
        found: bytes = sketch.serialize()
        return found

    def result(self, part: Part) -> Any:
        sketch, shares = kll_doubles_sketch.deserialize(part), self.option("q")
        one = isinstance(shares, float)
        if sketch.is_empty():  # NaN only
            return np.nan if one else [np.nan] * len(shares)
        return (
            sketch.get_quantile(shares, inclusive=True)
            if one
            else list(sketch.get_quantiles(shares, inclusive=True))
        )


class _ApproximateTop(Rules, kinds=("approximate_top",)):
    """The part is a sketch of frequent texts (Misra and Gries)."""

    def field(self, columns: pa.Schema) -> pa.Field:
        field = self.field_of(columns)
        kind = plain(field.type)
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise self.refused(field, "give one of texts, or leave `exact` out")
        return top_field(kind)

    def parts(self, rows: Rows) -> list[Part]:
        found = rows.of(self.column)
        order, spans = rows.slices(found)
        values = found.column.take(pa.array(order))
        parts: list[Part] = [None] * rows.count
        for group, begin, end in spans:
            sketch = frequent_strings_sketch(_TOP_BITS)
            for entry in values.slice(begin, end - begin).value_counts().to_pylist():
                sketch.update(entry["values"], entry["counts"])
            parts[group] = sketch.serialize()
        return parts

    def merge(self, one: Part, other: Part) -> Part:
        sketch = frequent_strings_sketch.deserialize(one)
        sketch.merge(frequent_strings_sketch.deserialize(other))
        found: bytes = sketch.serialize()
        return found

    def result(self, part: Part) -> Any:
        sketch = frequent_strings_sketch.deserialize(part)
        found = sketch.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES)
        return highest(((value, estimate) for value, estimate, *_ in found), self.option("n"))

    def of_nothing(self) -> Any:
        return []


_BY_KIND: dict[str, type[Rules]] = {
    "count_unique": _ApproximateCount,
    "quantile": _ApproximateQuantile,
    "quantiles": _ApproximateQuantile,
    "top": _ApproximateTop,
}


def approximate(kind: str, column: str, **options: Any) -> Aggregate:
    """The approximate aggregate of a kind."""
    return _BY_KIND[kind].of(f"approximate_{kind}", column, **options)

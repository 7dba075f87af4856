"""Approximate aggregates: sketches of bounded size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

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
from ridgeline.operators._exact import Index
from ridgeline.operators._kinds import plain
from ridgeline.operators.aggregate.exact import floats_of, highest, quantile_field, top_field
from ridgeline.operators.aggregate.rules import Part, Rows, Rules, placed

_HLL_BITS = 12
_KLL_SIZE = 200
_TOP_BITS = 12


class _Sketch(Rules):
    """The part is the bytes of a `sketch`."""

    sketch: ClassVar[Any]

    def taken(self, column: pa.Array, order: Index) -> Any:
        """Values of a column in this order, as `sketched` takes them."""
        return column.take(pa.array(order))

    def sketched(self, values: Any) -> bytes:
        """The part of some values."""
        raise NotImplementedError

    def parts(self, rows: Rows) -> list[Part]:
        found = rows.of(self.column)
        order, spans = rows.slices(found)
        values = self.taken(found.column, order)
        return placed(rows.count, ((group, self.sketched(values[begin:end])) for group, begin, end in spans))

    def merge(self, one: Part, other: Part) -> Part:
        sketch = self.sketch.deserialize(one)
        sketch.merge(self.sketch.deserialize(other))
        return sketch.serialize()


class _ApproximateCount(_Sketch):
    """A HyperLogLog sketch of the values' hashes."""

    takes = "plain"
    kind = pa.int64()
    nothing = 0

    def taken(self, column: pa.Array, order: Index) -> Any:
        return hash_column(_hashable(column)).view(np.int64)[order] if len(order) else order

    def sketched(self, values: Any) -> bytes:
        """Equal values have equal hashes, so a sketch gets each once."""
        sketch = hll_sketch(_HLL_BITS, tgt_hll_type.HLL_8)
        update = sketch.update
        for value in np.unique(values).tolist():
            update(value)
        return bytes(sketch.serialize_compact())

    def merge(self, one: Part, other: Part) -> Part:
        union = hll_union(_HLL_BITS)
        union.update(hll_sketch.deserialize(one))
        union.update(hll_sketch.deserialize(other))
        return union.get_result(tgt_hll_type.HLL_8).serialize_compact()

    def result(self, part: Part) -> Any:
        return round(hll_sketch.deserialize(part).get_estimate())


def _hashable(column: pa.Array) -> pa.Array:
    """Times of day and durations as numbers: they are no keys, and have no hash."""
    if pa.types.is_time32(column.type):
        column = column.cast(pa.int32())
    number = pa.types.is_time64(column.type) or pa.types.is_duration(column.type)
    return column.cast(pa.int64()) if number else column


class _ApproximateQuantile(_Sketch):
    """A KLL sketch."""

    sketch = kll_doubles_sketch

    def field(self, columns: pa.Schema) -> pa.Field:
        return quantile_field(self.number_of(columns), one=self.aggregate.kind == "approximate_quantile")

    def taken(self, column: pa.Array, order: Index) -> Any:
        return floats_of(column)[order]

    def sketched(self, values: Any) -> bytes:
        sketch = kll_doubles_sketch(_KLL_SIZE)
        sketch.update(values)
        return bytes(sketch.serialize())

    def result(self, part: Part) -> Any:
        sketch, shares = kll_doubles_sketch.deserialize(part), self.option("q")
        one = isinstance(shares, float)
        if sketch.is_empty():  # NaN only
            return np.nan if one else [np.nan] * len(shares)
        found = sketch.get_quantiles([shares] if one else shares, inclusive=True)
        return found[0] if one else list(found)


class _ApproximateTop(_Sketch):
    """A sketch of frequent texts (Misra and Gries)."""

    sketch = frequent_strings_sketch
    nothing = ()

    def field(self, columns: pa.Schema) -> pa.Field:
        field = self.field_of(columns)
        kind = plain(field.type)
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise self.refused(field, "give one of texts, or leave `exact` out")
        return top_field(kind)

    def sketched(self, values: Any) -> bytes:
        sketch = frequent_strings_sketch(_TOP_BITS)
        for entry in values.value_counts().to_pylist():
            sketch.update(entry["values"], entry["counts"])
        return bytes(sketch.serialize())

    def result(self, part: Part) -> Any:
        sketch = frequent_strings_sketch.deserialize(part)
        found = sketch.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES)
        return highest(((value, estimate) for value, estimate, *_ in found), self.option("n"))


APPROXIMATE: Mapping[str, type[Rules]] = {
    "approximate_count_unique": _ApproximateCount,
    "approximate_quantile": _ApproximateQuantile,
    "approximate_quantiles": _ApproximateQuantile,
    "approximate_top": _ApproximateTop,
}

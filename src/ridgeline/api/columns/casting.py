"""Casts of Arrow columns that keep every value equal, and checks for values that would change."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.columns.struct_types import struct_fields, without_none

Rows = npt.NDArray[np.int64]
_ROUNDING = {pa.float32(): 2.0**-24, pa.float16(): 2.0**-11}
"""By how much, relative to itself, a value is rounded by types of fewer than 64 bits."""
_ANY_INTEGER = pa.decimal128(20, 0)
_EXACT = {("bool", "number"), ("date", "time")}
"""Pairs of different families between which values can be cast and stay equal."""


def cast_exactly(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array to `kind`, with every value equal. Nested values are cast by the same rules.

    Floats of fewer than 64 bits round fractions to their precision, and nothing else: no value becomes
    infinite or zero, no whole number another one. Raises ArrowInvalid if a value would change, or if the
    types are of different families: a number never becomes text or a time.
    """
    if array.type == kind:
        return array
    source, wanted = family(array.type), family(kind)
    if source == "dictionary":
        return cast_exactly(_decoded(array), kind)
    if wanted == "dictionary":
        return cast_exactly(array, kind.value_type).dictionary_encode().cast(kind)
    if source == "null":
        return pa.nulls(len(array), kind)
    if source != wanted and (source, wanted) not in _EXACT:
        raise pa.ArrowInvalid(f"{array.type} and {kind} are different kinds of values")
    return _CASTS.get(wanted, pa.Array.cast)(array, kind)


def to_python(array: Any) -> list[Any]:
    """The Python values of an array. Raises ArrowInvalid for times of day that are finer than Python's."""
    kind = with_microseconds(array.type, timestamps=False) if "time64[ns]" in str(array.type) else array.type
    if kind != array.type:
        array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
        array = cast_exactly(array, kind)
    values: list[Any] = array.to_pylist()
    return values


def with_microseconds(kind: Any, *, timestamps: bool = True) -> pa.DataType:
    """The type with microseconds in the place of nanoseconds, at every depth."""

    def coarser(one: Any) -> pa.DataType:
        if timestamps and pa.types.is_timestamp(one) and one.unit == "ns":
            return pa.timestamp("us", one.tz)
        return pa.time64("us") if one == pa.time64("ns") else one

    return retyped(kind, coarser)


def retyped(kind: Any, change: Callable[[Any], Any]) -> pa.DataType:
    """The type with what `change` makes of it, and of all types within it."""
    kind = change(kind)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(retyped(field.type, change)) for field in kind])
    if pa.types.is_map(kind):
        key, item = retyped(kind.key_type, change), retyped(kind.item_type, change)
        return kind if (key, item) == (kind.key_type, kind.item_type) else pa.map_(key, item)
    if is_list(kind):
        item = retyped(kind.value_type, change)
        return kind if item == kind.value_type else pa.list_(item)
    return kind


_FAMILIES = {
    "null": "NA",
    "bool": "BOOL",
    "number": "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 HALF_FLOAT FLOAT DOUBLE "
    "DECIMAL32 DECIMAL64 DECIMAL128 DECIMAL256",
    "text": "STRING LARGE_STRING STRING_VIEW",
    "bytes": "BINARY LARGE_BINARY FIXED_SIZE_BINARY BINARY_VIEW",
    "time": "TIMESTAMP",
    "date": "DATE32 DATE64",
    "hour": "TIME32 TIME64",
    "duration": "DURATION",
    "list": "LIST LARGE_LIST FIXED_SIZE_LIST LIST_VIEW LARGE_LIST_VIEW",
    "struct": "STRUCT",
    "map": "MAP",
    "dictionary": "DICTIONARY",
}
_FAMILY_OF = {
    # before version 19 pyarrow has no decimals of 32 and 64 bits
    getattr(pa.lib, f"Type_{name}", name): family
    for family, names in _FAMILIES.items()
    for name in names.split()
}


def family(kind: pa.DataType) -> str:
    """The family of an Arrow type: types that differ in width, unit or layout only have the same one.

    >>> family(pa.large_string()), family(pa.decimal128(9, 2)), family(pa.time64("us"))
    ('text', 'number', 'hour')
    """
    return _FAMILY_OF.get(kind.id, str(kind.id))


def is_text(kind: pa.DataType) -> bool:
    """True for every Arrow type of text."""
    return family(kind) == "text"


def is_bytes(kind: pa.DataType) -> bool:
    """True for every Arrow type of bytes."""
    return family(kind) == "bytes"


def is_list(kind: pa.DataType) -> bool:
    """True for every Arrow type of lists, but not for maps."""
    return family(kind) == "list"


def narrow_floats(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast float64 to a type of floats; only fractions are rounded, within its precision.

    Raises ArrowInvalid for a value out of range, and for a whole number that would become another one.
    """
    made = array.cast(kind)
    if kind not in _ROUNDING:
        return made
    given, found = filled(array, 0.0), filled(made.cast(pa.float64()), 0.0)
    with np.errstate(all="ignore"):
        rounded = (np.abs(found - given) <= _ROUNDING[kind] * np.abs(given)) & (np.trunc(given) != given)
    wrong = ~(rounded | (found == given) | np.isnan(given))
    if wrong.any():
        place = int(np.argmax(wrong))
        msg = f"{given[place]!r} would become {found[place]!r} in {kind}"
        raise pa.ArrowInvalid(msg.replace("np.float64(", "").replace(")", ""))
    return made


def list_entries(array: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The items of the lists of an array, without those of nulls, and where each list begins and ends."""
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    return array.flatten(), _bounds(lengths)


def map_entries(array: pa.MapArray) -> tuple[pa.Array, pa.Array, npt.NDArray[np.int64]]:
    """The keys and values of the maps of an array, without those of nulls, and where each begins and ends."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    first, lengths = int(offsets[0]), np.diff(offsets)
    keys = array.keys.slice(first, int(offsets[-1]) - first)
    items = array.items.slice(first, int(offsets[-1]) - first)
    if array.null_count:
        there = array.is_valid().to_numpy(zero_copy_only=False)
        if lengths[~there].any():
            kept = pa.array(np.repeat(there, lengths))
            keys, items = keys.filter(kept), items.filter(kept)
        lengths = np.where(there, lengths, 0)
    return keys, items, _bounds(lengths)


def lists_of(items: pa.Array, bounds: npt.NDArray[np.int64], nulls: pa.Array | None, kind: Any) -> pa.Array:
    """Lists of type `kind` of items of its type. Raises ArrowInvalid if they are not as long as it says."""
    if pa.types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(pa.array(bounds), items, type=kind, mask=nulls)
    plain = pa.list_(kind.value_field)
    made = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), items, type=plain, mask=nulls)
    if plain == kind:
        return made
    if not pa.types.is_fixed_size_list(kind):  # views, which Arrow does not cast to
        return pa.array(made.to_pylist(), kind)
    lengths = np.diff(bounds)
    if nulls is not None:
        lengths = lengths[~nulls.to_numpy(zero_copy_only=False)]
    if (lengths != kind.list_size).any():
        raise pa.ArrowInvalid(f"{int(lengths[lengths != kind.list_size][0])} items do not fit {kind}")
    return made.cast(kind)


def maps_of(
    keys: pa.Array, items: pa.Array, bounds: npt.NDArray[np.int64], nulls: pa.Array | None, kind: Any
) -> pa.Array:
    """Maps of type `kind` of keys and values of its types. Raises ArrowInvalid for a key that is null."""
    if keys.null_count:
        raise pa.ArrowInvalid("a key of a map is null")
    return pa.MapArray.from_arrays(pa.array(bounds, pa.int32()), keys, items, type=kind, mask=nulls)


def nulls_of(array: pa.Array) -> pa.Array | None:
    """Where the array is null; None if nowhere."""
    return array.is_null() if array.null_count else None


def _bounds(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def _decoded(array: Any) -> pa.Array:
    """The values of a dictionary column; of views, which polars has, Arrow takes none."""
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    if array.dictionary.type in views:
        words = array.dictionary.cast(views[array.dictionary.type])
        array = pa.DictionaryArray.from_arrays(array.indices, words)
    return array.dictionary_decode()


def _cast_numbers(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """`cast_exactly` of integers, floats, decimals and booleans to a number."""
    types = pa.types
    if types.is_boolean(array.type):
        array = array.cast(pa.int64())
    if types.is_floating(array.type) and array.type != pa.float64():
        array = array.cast(pa.float64())
    if types.is_floating(kind):
        return narrow_floats(array if types.is_floating(array.type) else _as_floats(array), kind)
    if types.is_decimal(kind):
        if types.is_floating(array.type):  # Arrow would round 0.1, which is no decimal
            return pa.array([None if value is None else Decimal(value) for value in array.to_pylist()], kind)
        if types.is_integer(array.type):
            array = array.cast(_ANY_INTEGER)
        wide = array.cast(pa.decimal256(76, array.type.scale))  # in 128 bits Arrow's rescaling overflows
        return wide.cast(pa.decimal256(76, kind.scale)).cast(kind)
    return array.cast(kind)


def _as_floats(array: pa.Array) -> pa.Array:
    """Integers or decimals as float64. Raises ArrowInvalid for one that no float equals, such as 0.1."""
    if pa.types.is_integer(array.type):
        with contextlib.suppress(pa.ArrowInvalid):  # more than 53 bits: some may be exact
            return array.cast(pa.float64())
    values = array.to_pylist()
    made = [None if value is None else float(value) for value in values]
    for value, found in zip(values, made, strict=True):
        if found is not None and Decimal(found) != value:
            raise pa.ArrowInvalid(f"no float equals {value}")
    return pa.array(made, pa.float64())


def _cast_lists(array: pa.Array, kind: Any) -> pa.Array:
    """`cast_exactly` of lists to another type of lists."""
    items, bounds = list_entries(array)
    return lists_of(cast_exactly(items, kind.value_type), bounds, nulls_of(array), kind)


def _cast_structs(array: pa.Array, kind: Any) -> pa.Array:
    """`cast_exactly` of structs to a struct with the same fields, in any order."""
    names, wanted = [field.name for field in array.type], [field.name for field in kind]
    if sorted(names) != sorted(wanted) or len(set(names)) != len(names):
        raise pa.ArrowInvalid(f"it has the fields {sorted(names)} instead of {sorted(wanted)}")
    parts = dict(zip(names, array.flatten(), strict=True))
    arrays = []
    for field in kind:
        try:
            arrays.append(cast_exactly(parts[field.name], field.type))
        except pa.ArrowException as error:
            raise pa.ArrowInvalid(f"field `{field.name}`: {error}") from error
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=nulls_of(array))


def _cast_maps(array: Any, kind: Any) -> pa.Array:
    """`cast_exactly` of maps to another type of maps."""
    keys, items, bounds = map_entries(array)
    return maps_of(
        cast_exactly(keys, kind.key_type), cast_exactly(items, kind.item_type), bounds, nulls_of(array), kind
    )


_CASTS: dict[str, Callable[[Any, Any], pa.Array]] = {
    "number": _cast_numbers,
    "list": _cast_lists,
    "struct": _cast_structs,
    "map": _cast_maps,
}
"""The families for whose types Arrow's own cast could change a value."""


def filled(array: pa.Array, value: float) -> npt.NDArray[Any]:
    """The values of numbers, `value` in the place of null."""
    whole = array.fill_null(value) if array.null_count else array
    found: npt.NDArray[Any] = whole.to_numpy(zero_copy_only=False)
    return found


_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def types_within(kind: Any) -> Iterator[Any]:
    """A type and all types of the values within it."""
    yield kind
    for number in range(kind.num_fields):
        yield from types_within(kind.field(number).type)


def is_checked(kind: pa.DataType) -> bool:
    """True if a type is a map or a time of day, or has one within it."""
    return any(pa.types.is_time(one) or pa.types.is_map(one) for one in types_within(kind))


def refuse_changing(array: pa.Array, name: str) -> None:
    """Raise ValueError for a map that has a key twice, and for a time that is not within a day.

    `name`: the column's, for the error. All NaN are one key, and so are 0.0 and -0.0.
    """
    if not is_checked(array.type):
        return
    for part, _, place, _ in parts(array, pa.field(name, array.type), name):
        kind: Any = part.type
        if pa.types.is_time(kind):
            numbers = part.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
            for found in pc.min_max(numbers).as_py().values():
                if found is not None and not 0 <= found < _DAY[kind.unit]:
                    what = f"`{place}` has a time of day that is not within a day: {found} {kind.unit}"
                    raise ValueError(what)
        elif pa.types.is_map(kind):
            keys, _, bounds = map_entries(part)
            if (double := double_key(keys, bounds)) is not None:
                raise ValueError(f"a map in `{place}` has the key {keys[double].as_py()!r} twice")


def parts(
    array: Any, declared: Any, name: str, rows: Rows | None = None
) -> Iterator[tuple[Any, Any, str, Rows | None]]:
    """An array and all arrays of the values within it: what is declared of each, its name, its rows.

    `declared`: a column's Python type, or its Arrow field. `rows[i]`: the row of the batch to which
    `array[i]` belongs; None: row `i`. What lies under a null is left out.
    """
    yield array, declared, name, rows
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield from parts(array.dictionary, pa.field(name, kind.value_type), name)
    if not pa.types.is_nested(kind):
        return
    if array.null_count:
        there = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
        rows = there if rows is None else rows[there]
        array = array.drop_null()
    within = _declared_within(declared)
    if pa.types.is_struct(kind):
        for number, one in enumerate(within):
            yield from parts(pc.struct_field(array, number), one, f"{name}.{kind[number].name}", rows)
        return
    is_map = pa.types.is_map(kind)
    *inside, bounds = map_entries(array) if is_map else list_entries(array)
    rows = np.repeat(np.arange(len(array)) if rows is None else rows, np.diff(bounds))
    for part, one in zip(inside, within, strict=True):
        yield from parts(part, one, name + ("{}" if is_map else "[]"), rows)


def _declared_within(declared: Any) -> Sequence[Any]:
    """What is declared of the fields of a struct, of the keys and values of a map, of the items of a list."""
    kind: Any = without_none(declared)
    if isinstance(kind, pa.Field):
        kind = kind.type
    if not isinstance(kind, pa.DataType):
        return typing.get_args(kind) or list(struct_fields(kind).values())
    if pa.types.is_map(kind):
        return kind.key_field, kind.item_field
    return list(kind) if pa.types.is_struct(kind) else (kind.value_field,)


def double_key(keys: pa.Array, bounds: npt.NDArray[np.int64]) -> int | None:
    """The position of a key that its map has twice; None if there is none."""
    if len(bounds) > len(keys):  # with more maps than keys, most have no second one
        longest = int(np.diff(bounds).max(initial=0))
        if longest <= 1:
            return None
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    maps = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    numbers = _numbered(keys)
    both = maps * (int(numbers.max(initial=0)) + 1) + numbers
    order = np.argsort(both)
    same = np.diff(both[order]) == 0
    return int(order[1:][same][0]) if same.any() else None


def _numbered(keys: pa.Array) -> npt.NDArray[np.int64]:
    """A number for each key, the same for equal ones."""
    if pa.types.is_floating(keys.type):
        values = keys.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
        keys = pa.array(np.where(np.isnan(values), np.nan, values))
    try:
        return keys.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    except pa.ArrowNotImplementedError:  # keys that are nested
        known: dict[str, int] = {}
        return np.array([known.setdefault(repr(key), len(known)) for key in keys.to_pylist()], np.int64)

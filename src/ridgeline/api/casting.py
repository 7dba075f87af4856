"""Casts of Arrow columns to another type that keep every value equal."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def cast_exactly(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array to `kind`, with every value equal.

    Raises ArrowInvalid if a value would change, or if the types are of different families: a number never
    becomes text or a time.
    """
    if array.type == kind:
        return array
    source, wanted = _family(array.type), _family(kind)
    if source == "dictionary":
        return cast_exactly(array.dictionary_decode(), kind)
    if wanted == "dictionary":
        return cast_exactly(array, kind.value_type).dictionary_encode().cast(kind)
    if source not in {wanted, "null"} and (source, wanted) not in _EXACT:
        msg = f"{array.type} and {kind} are different kinds of values"
        raise pa.ArrowInvalid(msg)
    made = array.cast(kind)
    if (source, wanted) == ("time", "date") and not pc.all(
        pc.equal(made.cast(array.type), array), min_count=0
    ).as_py():
        msg = f"the times of day would be lost in {kind}"
        raise pa.ArrowInvalid(msg)
    return made


def is_text(kind: pa.DataType) -> bool:
    """True for every Arrow type of text."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """True for every Arrow type of bytes."""
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


_EXACT = {("bool", "number"), ("date", "time"), ("time", "date")}
"""Pairs of different families between which values can be cast and stay equal."""


def _family(kind: pa.DataType) -> str:
    """The family of an Arrow type: types that differ in width, unit or layout only have the same one."""
    types = pa.types
    families = {
        "null": types.is_null,
        "dictionary": types.is_dictionary,
        "bool": types.is_boolean,
        "number": lambda kind: types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind),
        "text": is_text,
        "bytes": is_bytes,
        "time": types.is_timestamp,
        "date": types.is_date,
        "hour": types.is_time,
        "list": lambda kind: (
            types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        ),
    }
    return next((name for name, is_one in families.items() if is_one(kind)), str(kind.id))

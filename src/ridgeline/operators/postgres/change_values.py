"""Values that PostgreSQL writes as text, as Arrow columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.columns.casting import is_bytes, is_list, is_text
from ridgeline.api.columns.column import Column
from ridgeline.api.errors import RidgelineError, shorten
from ridgeline.operators.postgres.connecting import Adapting, psycopg

SESSION: Mapping[str, str] = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
}
"""The settings of a session whose texts are read here."""
_JSON = {"json", "jsonb"}
_INTEGERS = {"int2", "int4", "int8", "oid"}
_NUMBERS = _INTEGERS | {"numeric", "float4", "float8"}
_ERRORS = (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError, RidgelineError)
Convert = Callable[[pa.Array], pa.Array]
"""Makes a column of an array of texts. Raises for one that does not fit."""


def type_name(oid: int) -> tuple[str | None, bool]:
    """The name of a type that every server has, and whether it is an array of it; None for others."""
    found = psycopg().adapters.types.get(oid)
    return (None, False) if found is None else (found.name, found.array_oid == oid)


def readable(kind: pa.DataType, oid: int) -> bool:
    """Whether a column of a type of PostgreSQL can be read as an Arrow type; single values may not fit."""
    name, is_array = type_name(oid)
    if name is None or is_text(kind):
        return True
    if pa.types.is_dictionary(kind):
        return readable(kind.value_type, oid)
    if is_list(kind):
        return is_array or name in _JSON
    wanted = _names(kind)
    return wanted is None or (not is_array and name in wanted)


def _names(kind: pa.DataType) -> set[str] | None:
    """The types of PostgreSQL that an Arrow type can be read from; None: only a trial shows."""
    types = pa.types
    found: list[tuple[Callable[[Any], bool], set[str]]] = [
        (types.is_boolean, {"bool"}),
        (types.is_integer, _INTEGERS),
        (types.is_floating, _NUMBERS),
        (types.is_decimal, _INTEGERS | {"numeric"}),
        (types.is_date, {"date"}),
        (types.is_time, {"time"}),
        (types.is_duration, {"interval"}),
        (is_bytes, {"bytea"}),
        (types.is_struct, _JSON),
        (types.is_map, _JSON),
    ]
    if types.is_timestamp(kind):
        return {"timestamp"} if kind.tz is None else {"timestamptz"}
    return next((names for fits, names in found if fits(kind)), None)


def converter(column: Column, field: pa.Field, oid: int) -> Convert:
    """How texts of a type of PostgreSQL become a column."""
    kind, types = field.type, pa.types
    if types.is_dictionary(kind):
        inner = converter(column, pa.field(field.name, kind.value_type), oid)
        return lambda texts: inner(texts).dictionary_encode().cast(kind)
    if is_text(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return lambda texts: texts.cast(kind)
    if types.is_boolean(kind):
        return _booleans
    if types.is_timestamp(kind):
        return lambda texts: texts.cast(pa.timestamp("us", None if kind.tz is None else "UTC")).cast(kind)
    if types.is_date(kind):
        return lambda texts: texts.cast(pa.date32()).cast(kind)
    load = _loader(kind, oid)

    def values(texts: pa.Array) -> pa.Array:
        found = [load(text) for text in texts.drop_null().to_pylist()]
        array = column.to_array(column.settle(found)[1])
        if not texts.null_count:
            return array
        places = iter(range(len(found)))
        return array.take(
            pa.array([next(places) if one else None for one in texts.is_valid().to_pylist()], pa.int64())
        )

    return values


def _booleans(texts: pa.Array) -> pa.Array:
    odd = pc.invert(pc.is_in(texts, pa.array(["t", "f", None])))
    if pc.any(odd).as_py():
        raise ValueError(f"{texts[pc.index(odd, True).as_py()].as_py()!r} is no boolean")
    return pc.equal(texts, "t")


def _loader(kind: pa.DataType, oid: int) -> Callable[[str], Any]:
    """How a text becomes a value of Python."""
    name, is_array = type_name(oid)
    if name in _JSON and not is_array:
        if pa.types.is_map(kind):
            return lambda text: list(json.loads(text).items())
        return json.loads
    if is_bytes(kind):
        return lambda text: bytes.fromhex(text.removeprefix("\\x"))
    library = psycopg()
    load = library.adapt.Transformer(Adapting()).get_loader(oid, library.pq.Format.TEXT).load

    def loaded(text: str) -> Any:
        try:
            return load(text.encode())
        except library.Error as error:  # a time that Python does not have
            raise ValueError(str(error)) from None

    return loaded


def convert(convert_all: Convert, texts: pa.Array, bad: dict[int, str], name: str) -> pa.Array:
    """A column of texts; those that do not fit are null, and their rows and reasons go to `bad`."""
    try:
        return convert_all(texts)
    except _ERRORS:
        pass
    parts = []
    for row in range(len(texts)):
        try:
            parts.append(convert_all(texts.slice(row, 1)))
        except _ERRORS as error:
            reason = f"column `{name}` has {shorten(texts[row].as_py())}, which is not of its type: {error}"
            bad.setdefault(row, reason)
            parts.append(convert_all(pa.nulls(1, pa.string())))
    return pa.concat_arrays(parts)


def zero(kind: pa.DataType) -> Any:
    """The value of a column that a deleted row lacks and that may not be null: 0, an empty text, 1970."""
    types = pa.types
    if types.is_dictionary(kind):
        return zero(kind.value_type)
    if types.is_struct(kind):
        return {field.name: zero(field.type) for field in kind}
    if types.is_fixed_size_binary(kind):
        return bytes(kind.byte_width)
    zeros: list[tuple[Callable[[Any], bool], Any]] = [
        (is_text, ""),
        (is_bytes, b""),
        (is_list, []),
        (types.is_map, []),
        (types.is_boolean, False),
        (types.is_decimal, Decimal(0)),
        (types.is_timestamp, datetime(1970, 1, 1, tzinfo=UTC)),
        (types.is_date, date(1970, 1, 1)),
        (types.is_time, time(0)),
        (types.is_duration, timedelta(0)),
    ]
    return next((value for fits, value in zeros if fits(kind)), 0)

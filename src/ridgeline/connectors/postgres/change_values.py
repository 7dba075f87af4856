"""Values that PostgreSQL writes as text, as Arrow columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.columns.casting import is_bytes, is_text
from ridgeline.api.columns.column import Column
from ridgeline.api.errors import RidgelineError, shorten
from ridgeline.connectors.postgres.connecting import Adapting, psycopg
from ridgeline.operators._kinds import family

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
_READABLE: Mapping[str, set[str]] = {
    "boolean": {"bool"},
    "integer": _INTEGERS,
    "floating": _INTEGERS | {"numeric", "float4", "float8"},
    "decimal": _INTEGERS | {"numeric"},
    "date": {"date"},
    "time": {"time"},
    "duration": {"interval"},
    "bytes": {"bytea"},
    "struct": _JSON,
    "map": _JSON,
}
"""The types of PostgreSQL that a family of Arrow's types can be read from; of others only a trial shows."""
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
    found = family(kind)
    if name is None or found == "text":
        return True
    if found == "list":
        return is_array or name in _JSON
    if found == "timestamp":
        return not is_array and name == ("timestamp" if kind.tz is None else "timestamptz")
    return found not in _READABLE or (not is_array and name in _READABLE[found])


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

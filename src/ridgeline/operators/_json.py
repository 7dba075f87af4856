"""Arrow columns as JSON values and back.

The forms of values:
- a timestamp: ISO 8601 text (`2026-01-01T00:00:00.000000Z`; without `Z` if the column has no time zone)
- a date or a time of day: ISO 8601 text
- a duration: a number of seconds, with all its digits
- a decimal: text
- bytes: base64 text
- NaN and the infinities, which JSON does not have: null
- a map: an object with its keys as text
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.columns.casting import is_bytes, is_list, is_text, list_entries, map_entries
from ridgeline.api.errors import RidgelineError
from ridgeline.operators._texts import DIGITS, float_of

_READ_DURATION = pa.decimal128(38, 9)
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_quoted = json.encoder.encode_basestring
_KEYS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def json_lines(table: pa.Table) -> bytes:
    """Encode a table as UTF-8, one JSON object a line, fields in the order of the schema.

    Raises RidgelineError for a map whose keys JSON cannot have.
    """
    pieces: list[object] = []
    for number, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        try:
            texts = _json_texts(whole(column))
        except pa.ArrowInvalid as error:
            raise RidgelineError(f"cannot write column `{name}`: {error}") from error
        pieces += [_text(f"{',' if number else '{'}{_encode(name)}:"), texts]
    lines = _joined([*pieces, _text("}\n")]).to_pylist() if pieces else ["{}\n"] * table.num_rows
    return "".join(lines).encode()


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
    found = _json_texts(column).to_pylist()
    bare = [text[1:-1] if text[:1] == '"' else text for text in found]
    return [text if there else None for text, there in zip(bare, column.is_valid().to_pylist(), strict=True)]


def json_column(column: pa.Array) -> pa.Array:
    """Each value as JSON text; null stays null. Raises RidgelineError for a map without keys of JSON."""
    return pc.if_else(column.is_null(), pa.scalar(None, pa.large_string()), _json_texts(column))


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column of a table as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _text(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())


def _joined(pieces: Sequence[object]) -> pa.Array:
    """Texts, and arrays of them, one after the other."""
    return pc.binary_join_element_wise(*pieces, _text(""))


def _texts(values: Sequence[Any], encode: Callable[[Any], str]) -> pa.Array:
    return pa.array(["null" if value is None else encode(value) for value in values], pa.large_string())


def _json_texts(column: Any) -> pa.Array:  # noqa: PLR0911  one type after the other
    """Convert a column to a column of JSON texts; null becomes `null`."""
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        return _json_texts(column.dictionary_decode())
    if types.is_integer(kind) or types.is_boolean(kind):
        return column.cast(pa.large_string()).fill_null("null")
    if types.is_floating(kind):
        column = column.cast(pa.float64())
        if not pc.all(pc.is_finite(column), min_count=0).as_py():
            column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, pa.float64()))
        return _texts(column.to_pylist(), float.__repr__)
    if is_text(kind):
        return _texts(column.to_pylist(), _quoted)
    if is_bytes(kind):
        return _texts(column.to_pylist(), lambda value: f'"{base64.b64encode(value).decode("ascii")}"')
    if types.is_duration(kind):
        return _texts(column.cast(pa.int64()).to_pylist(), lambda units: _seconds(units, DIGITS[kind.unit]))
    if types.is_nested(kind):
        return _nested_texts(column)
    if types.is_timestamp(kind):
        text = (column.cast(pa.timestamp(kind.unit, "UTC")) if kind.tz else column).cast(pa.string())
        column = pc.replace_substring(text, " ", "T", max_replacements=1)
    elif types.is_date64(kind):
        column = column.cast(pa.date32()).cast(pa.string())
    elif types.is_date(kind) or types.is_time(kind) or types.is_decimal(kind):
        column = column.cast(pa.string())
    return _texts(column.to_pylist(), _quoted if column.type == pa.string() else _encode)


def _seconds(units: int, digits: int) -> str:
    """A number of units as seconds: the shortest float if it is exact, else all digits."""
    exact = Decimal(units).scaleb(-digits)
    text = repr(units / 10**digits)
    return text if Decimal(text) == exact else format(exact, "f").rstrip("0")


def _nested_texts(column: Any) -> pa.Array:
    """`_json_texts` of lists, structs and maps."""
    kind = column.type
    if pa.types.is_struct(kind):
        pieces: list[object] = []
        for number, (field, part) in enumerate(zip(kind, column.flatten(), strict=True)):
            pieces += [_text(f"{',' if number else '{'}{_encode(field.name)}:"), _json_texts(part)]
        made = _joined([*pieces, _text("}")]) if pieces else pa.array(["{}"] * len(column), pa.large_string())
    elif pa.types.is_map(kind):
        keys, items, bounds = map_entries(column)
        entries = _joined([_key_texts(keys), _text(":"), _json_texts(items)])
        made = _joined([_text("{"), _enumerated(entries, bounds), _text("}")])
    elif is_list(kind):
        items, bounds = list_entries(column)
        made = _joined([_text("["), _enumerated(_json_texts(items), bounds), _text("]")])
    else:
        return _texts(column.to_pylist(), _encode)
    return pc.if_else(column.is_valid(), made, _text("null"))


def _enumerated(texts: pa.Array, bounds: Any) -> pa.Array:
    """The texts from each bound to the next, with commas between them."""
    return pc.binary_join(pa.LargeListArray.from_arrays(pa.array(bounds), texts), _text(","))


def _key_texts(keys: pa.Array) -> pa.Array:
    """Keys of maps as JSON texts, which are quoted. Raises ArrowInvalid for keys that are nested."""
    kind, types = keys.type, pa.types
    if types.is_nested(kind):
        raise pa.ArrowInvalid(
            f"JSON has no keys of type {kind}; give the map another type of keys, or write Parquet"
        )
    if types.is_floating(kind):
        texts = map(repr, keys.cast(pa.float64()).to_pylist())
        return _texts([_KEYS.get(text, text) for text in texts], _quoted)
    texts = _json_texts(keys)
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_duration(kind):
        return _joined([_text('"'), texts, _text('"')])
    return texts


# And back -----------------------------------------------------------------------------------------------


class Number(str):
    """The text of a number in JSON."""

    __slots__ = ()


class Doubled(dict[str, Any]):
    """An object that has a field twice: the first of such is `double`."""

    double = ""


def parse_line(line: bytes) -> Any:
    """Parse a line of JSON. Numbers stay text (`Number`, also NaN and the infinities).

    Raises ValueError, RecursionError.
    """
    return _decode(line.decode())


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    names = [name for name, _ in pairs]
    doubled = Doubled(made)
    doubled.double = next(name for name in names if names.count(name) > 1)
    return doubled


_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Number, parse_int=Number, parse_constant=Number
).decode


def read_type(kind: pa.DataType) -> pa.DataType:  # noqa: PLR0911  one type after the other
    """The type with which a JSON field is read that becomes a column of a type.

    `ridgeline.operators._texts.convert` makes the column of it, whichever reader read the field.
    """
    types = pa.types
    if types.is_dictionary(kind):
        return read_type(kind.value_type)
    if is_list(kind):
        return pa.list_(read_type(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, read_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(pa.string(), read_type(kind.item_type))
    if types.is_duration(kind):
        return _READ_DURATION
    if types.is_decimal(kind) and not types.is_decimal256(kind):
        return pa.decimal128(38, kind.scale)
    if types.is_floating(kind):
        return pa.float64()
    if types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind):
        return pa.string()
    return pa.string() if is_text(kind) or is_bytes(kind) else kind


def arrow_reads(kind: pa.DataType) -> bool:
    """True if pyarrow's JSON reader has a type, as `read_type` returns it."""
    types = pa.types
    if is_list(kind):
        return arrow_reads(kind.value_type)
    if types.is_struct(kind):
        return kind.num_fields > 0 and all(arrow_reads(field.type) for field in kind)
    plain = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return bool(plain or types.is_string(kind) or types.is_decimal(kind))


def value_of(kind: pa.DataType) -> Callable[[Any], Any]:
    """The function from what `parse_line` gives to what a column of `read_type(...)` holds.

    It raises ValueError or TypeError for a value that does not fit, as pyarrow's reader does.
    """
    inner = _value_of(kind)
    return lambda value: None if value is None else inner(value)


def _value_of(kind: pa.DataType) -> Callable[[Any], Any]:  # noqa: PLR0911  one type after the other
    """`value_of` for values that are not null."""
    types = pa.types
    if is_list(kind):
        item_of = value_of(kind.value_type)
        return lambda value: [item_of(item) for item in _of_class(value, list, kind)]
    if types.is_map(kind):
        of_item = value_of(kind.item_type)
        return lambda value: [(key, of_item(item)) for key, item in _single(value, kind).items()]
    if types.is_struct(kind):
        inners = {field.name: value_of(field.type) for field in kind}
        names = frozenset(inners)

        def read(value: Any) -> dict[str, Any]:
            fields = _single(value, kind, names)
            return {name: inner(fields.get(name)) for name, inner in inners.items()}

        return read
    if types.is_integer(kind):
        return lambda value: _whole_number(value, kind)
    if types.is_floating(kind):
        return lambda value: float_of(_of_class(value, Number, kind))
    if types.is_decimal(kind):
        return lambda value: _decimal(value, kind)
    if types.is_boolean(kind):
        return lambda value: _of_class(value, bool, kind)
    return lambda value: _of_class(value, str, kind)


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    """A number or text as a decimal, by pyarrow's rules for both."""
    if not isinstance(value, str):
        raise TypeError(f"{value} is no {kind}")
    made: Decimal = pa.scalar(str(value), pa.string()).cast(kind).as_py()
    return made


def _whole_number(value: Any, kind: pa.DataType) -> int:
    signs = "" if pa.types.is_unsigned_integer(kind) else "-"
    if not isinstance(value, Number) or not value.lstrip(signs).isdigit():
        raise TypeError(f"{value} is not a whole number")
    return int(value)


def _of_class(value: Any, kind: type, wanted: pa.DataType) -> Any:
    """The value, if it is of this class; a number is no text. Raises TypeError."""
    if isinstance(value, kind) and not (kind is str and isinstance(value, Number)):
        return value
    raise TypeError(f"{value} is no {wanted}")


def _single(value: Any, kind: pa.DataType, names: frozenset[str] | None = None) -> dict[str, Any]:
    """An object. Raises TypeError for another value, ValueError if one of `names` (None: any) is doubled."""
    fields: dict[str, Any] = _of_class(value, dict, kind)
    if isinstance(fields, Doubled) and (names is None or fields.double in names):
        raise ValueError(f"`{fields.double}` is given twice")
    return fields

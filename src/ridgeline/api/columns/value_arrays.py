"""Python values as Arrow arrays: every value equal, or refused.

The function from values to an array is made once per column. Values of the type's own classes are
converted by Arrow at once; others one by one, each compared with what it became. A batch may be cast
(`ridgeline.api.columns.casting`) to exactly the values that a tuple may hold.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.api.columns.casting import (
    cast_exactly,
    double_key,
    family,
    lists_of,
    maps_of,
    narrow_floats,
)
from ridgeline.api.columns.restoring import further_attributes
from ridgeline.api.columns.struct_types import EPOCH, is_named_tuple, is_struct, struct_fields

Make = Callable[[Sequence[Any]], pa.Array]
"""Makes an array of values. Raises TypeError, ValueError, OverflowError, or what Arrow raises."""
_NONE: type = type(None)
_INTEGERS: frozenset[type] = frozenset(
    (int, _NONE, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
)
_FLOATS: frozenset[type] = frozenset((float, int, bool, _NONE, np.float64))
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NUMPY_NANOSECONDS = {"W": 7 * 86_400 * 10**9, "D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9}
_MISSING = frozenset(("NaTType", "NAType"))
"""The classes of what pandas has in the place of None."""
_INSIDE: frozenset[type] = frozenset((str, int, bytes, date, _NONE))
"""Classes of values that stay different as keys of a map, if they were different in a dictionary."""


def maker(kind: pa.DataType) -> Make:
    """The function that makes an array of a type from values."""
    make = _MAKERS.get(family(kind))
    return functools.partial(_compared, kind) if make is None else make(kind)


def _dictionaries(kind: Any) -> Make:
    inner = maker(kind.value_type)
    return lambda values: cast_exactly(inner(values), kind)


def _numbers(kind: pa.DataType) -> Make:
    if pa.types.is_integer(kind):
        return _leaf(kind, _INTEGERS, _whole)
    if pa.types.is_decimal(kind):
        return _leaf(kind, frozenset((Decimal, int, _NONE)), _decimal)
    # by way of 64 bits: `narrow_floats` says what may be rounded, Arrow would round anything
    wide = _leaf(pa.float64(), _FLOATS, _float)
    return wide if kind == pa.float64() else lambda values: narrow_floats(wide(values), kind)


def _hours(kind: pa.DataType) -> Make:
    hours = _leaf(pa.time64("us"), frozenset((_NONE,)), _hour)
    return lambda values: cast_exactly(hours(values), kind)


def _moments(of_python: type, convert: Callable[..., int], kind: Any) -> Make:
    plain = frozenset((of_python, _NONE)) if kind.unit in ("us", "ns") else frozenset((_NONE,))
    return _leaf(kind, plain, functools.partial(convert, unit=kind.unit), pa.int64())


def _leaf(
    kind: pa.DataType,
    plain: frozenset[Any],
    convert: Callable[[Any], object],
    converted: pa.DataType | None = None,
) -> Make:
    """`maker` of a type that is not nested.

    `plain`: the classes that Arrow converts without a change, or raises. `convert`: makes of any value one
    that Arrow converts so, or raises. `converted`: the type of what it makes, if it is not `kind`.
    """

    def make(values: Sequence[Any]) -> pa.Array:
        if plain.issuperset(map(type, values)):
            try:
                return pa.array(values, kind)
            except (pa.ArrowInvalid, OverflowError):
                pass  # convert them one by one: some may fit after all, others have a clearer error
        made = [None if value is None else _converted(value, convert) for value in values]
        if converted is None:
            return pa.array(made, kind)
        # as integers first: `datetime` has no nanoseconds
        return pa.array(made, converted).cast(kind)

    return make


def _converted(value: Any, convert: Callable[[Any], object]) -> object:
    # users pass cells of Arrow columns on
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    return None if value is None or type(value).__name__ in _MISSING else convert(value)


def _plain_number(value: Any) -> Any:
    """A number of Python, if it is one of numpy. Raises TypeError for what is no number."""
    if isinstance(value, np.generic) and not isinstance(value, (np.datetime64, np.timedelta64)):
        value = value.item()
    if isinstance(value, (int, float, Decimal, Fraction, np.floating)):
        return value
    raise TypeError(f"Could not convert {value!r}: a {type(value).__name__} is no number")


def _exact(convert: Callable[[Any], Any], misfit: str) -> Callable[[object], Any]:
    """What converts numbers and compares them with what they became. `misfit`: the error, with `{}` in it."""

    def of_value(value: object) -> Any:
        number, made = _plain_number(value), None
        try:
            made = convert(number)
            is_exact = made == number or number != number  # noqa: PLR0124  NaN
        except (TypeError, ValueError, ArithmeticError):  # no comparison takes a signaling NaN
            is_exact = False
        if not is_exact:
            raise ValueError(misfit.format(value))
        return made

    return of_value


def _to_decimal(number: Any) -> Decimal:
    """A number as a Decimal, exactly if it can be; Arrow refuses what has too many digits."""
    if isinstance(number, Fraction):
        return Decimal(number.numerator) / Decimal(number.denominator)
    return Decimal(number)


_whole = _exact(int, "{} is not a whole number")
_float = _exact(float, "no float equals {}")
_decimal = _exact(_to_decimal, "no decimal equals {}")


def _boolean(value: object) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"Could not convert {value!r}: a {type(value).__name__} is no bool")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("bytes are no text; decode them")
    raise TypeError(f"it is of type `{type(value).__name__}`, not text")


def _bytes(value: object) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        raise TypeError("text is no bytes; encode it")
    raise TypeError(f"Could not convert {value!r}: a {type(value).__name__} is no bytes")


def _instant(value: Any, unit: str) -> int:
    """The units since 1970 of a time. Raises ValueError if it is between two of them."""
    if isinstance(value, np.datetime64):
        return _units(_of_numpy(value), unit, value)
    if isinstance(value, datetime):
        passed = (value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH
        return _units(_nanoseconds(passed), unit, value)
    if isinstance(value, date):
        raise TypeError("a date is no datetime; give it a time of day")
    raise _no_time(value)


def _duration(value: Any, unit: str) -> int:
    """The units of a length of time. Raises ValueError if it is between two of them."""
    if isinstance(value, np.timedelta64):
        return _units(_of_numpy(value), unit, value)
    if isinstance(value, timedelta):
        return _units(_nanoseconds(value), unit, value)
    raise _no_time(value)


def _nanoseconds(passed: timedelta) -> int:
    """The nanoseconds of a `timedelta`; that of pandas has some beside its microseconds."""
    microseconds = (passed.days * 86_400 + passed.seconds) * 10**6 + passed.microseconds
    return microseconds * 1_000 + int(getattr(passed, "nanoseconds", 0))


def _of_numpy(value: Any) -> int:
    """The nanoseconds of a time of numpy. Raises ValueError for units finer than them."""
    unit, step = np.datetime_data(value.dtype)
    if unit in ("Y", "M") and isinstance(value, np.datetime64):
        value, unit, step = value.astype("datetime64[D]"), "D", 1
    size = _NANOSECONDS.get(unit) or _NUMPY_NANOSECONDS.get(unit)
    if size is None:
        raise ValueError(f"{value!r} has the unit `{unit}`, which no column has")
    return int(value.astype(np.int64)) * step * size


def _units(nanoseconds: int, unit: str, value: object) -> int:
    units, rest = divmod(nanoseconds, _NANOSECONDS[unit])
    if rest:
        raise ValueError(f"{value!r} is finer than {unit}")
    return units


def _date(value: Any) -> date:
    if isinstance(value, np.datetime64) and np.datetime_data(value.dtype)[0] == "D":
        value = value.item()
    if isinstance(value, (datetime, np.datetime64)):
        raise TypeError("a datetime is no date, since it has a time of day")
    if isinstance(value, date):
        return value
    raise _no_time(value)


def _hour(value: Any) -> time:
    if not isinstance(value, time):
        raise _no_time(value)
    if value.tzinfo is not None:
        raise ValueError("a time of day has no time zone in a column; leave it out, or use a datetime")
    return value


def _no_time(value: object) -> TypeError:
    if isinstance(value, (int, float, Decimal, np.number, np.bool_)):
        return TypeError("a number is no date or time")
    return TypeError(f"Could not convert {value!r}: a {type(value).__name__} is no date or time")


def _compared(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """An array of a type that has no rules of its own: refused unless it gives the values back."""
    made = pa.array(values, kind)
    for value, found in zip(values, made.to_pylist(), strict=True):
        if found != value:
            raise ValueError(f"{value!r} would become {found!r} in {kind}")
    return made


def _lists(kind: Any) -> Make:
    """`maker` of lists: of lists, tuples and numpy arrays."""
    inner = maker(kind.value_type)
    size = kind.list_size if pa.types.is_fixed_size_list(kind) else None

    def make(values: Sequence[Any]) -> pa.Array:
        items: list[Any] = []
        bounds = np.zeros(len(values) + 1, np.int64)
        for place, value in enumerate(values, 1):
            if value is not None:
                items += _items(value, kind)
            bounds[place] = len(items)
        if size is not None and any(value is not None and len(value) != size for value in values):
            raise ValueError(f"a list of {kind} has {size} items")
        return lists_of(inner(items), bounds, _nulls(values), kind)

    return make


def _items(value: Any, kind: pa.DataType) -> Any:
    """A list, tuple or numpy array as a sequence. Raises TypeError for any other value."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, np.ndarray) and value.ndim:
        return value.tolist() if value.dtype.kind in "biufSU" else list(value)
    raise _misshapen(value, kind)


def _maps(kind: Any) -> Make:
    """`maker` of maps: of dictionaries, or of lists of pairs."""
    of_key, of_item = maker(kind.key_type), maker(kind.item_type)

    def make(values: Sequence[Any]) -> pa.Array:
        keys: list[Any] = []
        items: list[Any] = []
        bounds = np.zeros(len(values) + 1, np.int64)
        pairs = False
        for place, value in enumerate(values, 1):
            if isinstance(value, dict):
                keys += value.keys()
                items += value.values()
            elif value is not None:
                pairs = True
                for key, item in _items(value, kind):
                    keys.append(key)
                    items.append(item)
            bounds[place] = len(keys)
        array = of_key(keys)
        if pairs or not _INSIDE.issuperset(map(type, keys)):
            double = double_key(array, bounds) if not array.null_count else None
            if double is not None:
                raise ValueError(f"the key {keys[double]!r} is given twice")
        return maps_of(array, of_item(items), bounds, _nulls(values), kind)

    return make


def _structs(kind: Any) -> Make:
    """`maker` of structs: of instances and dictionaries with exactly these fields."""
    names = [field.name for field in kind]
    makers = [maker(field.type) for field in kind]
    nothing = (None,) * len(names)

    def make(values: Sequence[Any]) -> pa.Array:
        getters = {
            found: field_getter(found, names, kind)
            for found in set(map(type, values))
            if found is not _NONE and not issubclass(found, dict)
        }
        for found in getters:
            if not is_named_tuple(found):
                refuse_further(found, [value for value in values if type(value) is found], names)
        rows: list[Sequence[object]] = []
        for value in values:
            if value is None:
                rows.append(nothing)
            elif isinstance(value, dict):
                if len(value) != len(names) or any(name not in value for name in names):
                    raise _other_fields(value, names)
                rows.append(tuple([value[name] for name in names]))
            else:
                rows.append(getters[type(value)](value))
        if not names:
            return pa.array([None if value is None else {} for value in values], kind)
        columns = zip(*rows, strict=True) if rows else [()] * len(names)
        arrays = [inner(column) for inner, column in zip(makers, columns, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=_nulls(values))

    return make


def field_getter(found: Any, names: Sequence[str], kind: object) -> Callable[[Any], Sequence[object]]:
    """The function that returns the fields of a class's instances, in the order of `names`.

    Raises TypeError for a class that is no struct type, ValueError for one with other fields.
    """
    if is_named_tuple(found):
        own = list(found._fields)
        if own == list(names):
            return tuple
    elif is_struct(found):
        own = list(struct_fields(found))
    else:
        raise TypeError(f"a {found.__name__} is no {kind}")
    if sorted(own) != sorted(names):
        raise _other_fields(own, names)
    if len(names) == 1:
        get = attrgetter(names[0])
        return lambda value: (get(value),)
    if is_named_tuple(found):
        return itemgetter(*map(own.index, names))
    return attrgetter(*names)


def refuse_further(kind: type, rows: Sequence[Any], names: Sequence[str]) -> None:
    """Raise ValueError for instances of a class that have attributes beside the fields, which have no column.

    NamedTuples have none.
    """
    if further := further_attributes(kind, rows, names):
        remedy = "declare it `field(init=False)`, or use a port of `object`"
        raise ValueError(f"`{kind.__name__}` has `{further[0]}`, which is no field; {remedy}")


def _other_fields(found: Any, names: Sequence[str]) -> ValueError:
    return ValueError(f"it has the fields {sorted(map(str, found))} instead of {sorted(names)}")


def _misshapen(value: object, kind: pa.DataType) -> TypeError:
    return TypeError(f"a {type(value).__name__} is no {kind}")


def _nulls(values: Sequence[Any]) -> pa.Array | None:
    """Where a value is None; None if nowhere."""
    found = [value is None for value in values]  # not `None in values`: arrays compare item by item
    return pa.array(found) if any(found) else None


_MAKERS: Mapping[str, Callable[[Any], Make]] = {
    "struct": _structs,
    "map": _maps,
    "list": _lists,
    "dictionary": _dictionaries,
    "number": _numbers,
    "hour": _hours,
    "time": functools.partial(_moments, datetime, _instant),
    "duration": functools.partial(_moments, timedelta, _duration),
    "bool": lambda kind: _leaf(kind, frozenset((bool, np.bool_, _NONE)), _boolean),
    "text": lambda kind: _leaf(kind, frozenset((str, _NONE)), _text),
    "bytes": lambda kind: _leaf(kind, frozenset((bytes, _NONE)), _bytes),
    "date": lambda kind: _leaf(kind, frozenset((date, _NONE)), _date),
}
"""What makes a `Make` of a type, by its family."""

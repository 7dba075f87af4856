"""Columns of Parquet for the values of states: real types where Arrow has them, else JSON or pickles.

The shape of a state says the types of its values (see `ridgeline.plan.change.state_shapes`). The items of a
class or of a fixed tuple become columns of their own, `value_count`; those deeper inside become structs.
"""

from __future__ import annotations

import json
import math
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pyarrow as pa

from ridgeline.api.errors import shorten
from ridgeline.api.support.pickling import dumps, loads
from ridgeline.plan.change.state_shapes import ANY, Shape, arguments_of, head_of, members

PLAIN, UTC_TIMES, JSON, PICKLE = "plain", "utc", "json", "pickle"
ENCODINGS = (PLAIN, UTC_TIMES, JSON, PICKLE)
"""How a value is written, in the order in which they are tried."""
_MICROSECOND = timedelta(microseconds=1)
_EXACT = frozenset({int, float, str, bool, type(None)})


class MisfitError(ValueError):
    """A value that a column cannot hold as it is."""


class RowError(ValueError):
    """A value of a row that cannot be that of a state. `row`: from 0."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row = row


class Form(ABC):
    """One column of values. `arrow`: its type."""

    arrow: pa.DataType

    def array(self, values: Sequence[Any]) -> pa.Array:
        """The values as a column. Raises MisfitError if it cannot hold one as it is."""
        try:
            return pa.array([None if one is None else self.out(one) for one in values], self.arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError) as error:
            raise MisfitError(str(error)) from None

    def values(self, column: Sequence[Any]) -> list[Any]:
        """The values of a column, as Python has them there. Raises RowError."""
        found = []
        for row, one in enumerate(column):
            try:
                found.append(self.back(one))
            except (TypeError, ValueError, ArithmeticError, LookupError) as error:
                raise RowError(row, str(error) or type(error).__name__) from None
        return found

    @abstractmethod
    def out(self, value: Any) -> Any:
        """A value, not None, as Arrow takes it. Raises MisfitError."""

    @abstractmethod
    def back(self, value: Any) -> Any:
        """The value of what Arrow gives. Raises TypeError, ValueError, LookupError."""


@dataclass(frozen=True)
class _Plain(Form):
    """Values of some built-in types, which stay as they are."""

    arrow: pa.DataType
    kinds: tuple[type, ...]

    def array(self, values: Sequence[Any]) -> pa.Array:
        """The values as a column."""
        if not set(map(type, values)).issubset((*self.kinds, type(None))):
            raise MisfitError(self._found(next(one for one in values if type(one) not in self.kinds)))
        if float in self.kinds and any(type(one) is int and int(float(one)) != one for one in values):
            raise MisfitError("an int that no float equals")
        try:
            return pa.array(values, self.arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError) as error:
            raise MisfitError(str(error)) from None

    def out(self, value: Any) -> Any:
        """As Arrow takes it."""
        if type(value) not in self.kinds:
            raise MisfitError(self._found(value))
        if type(value) is int and not -(1 << 63) <= value < 1 << 63:
            raise MisfitError(f"{shorten(value)} has more than 64 bits")
        if type(value) is str:
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise MisfitError(str(error)) from None
        return value

    def back(self, value: Any) -> Any:
        """As Python has it."""
        if type(value) is int and self.kinds[0] is float and int(float(value)) == value:
            return float(value)
        if type(value) not in self.kinds:
            raise TypeError(self._found(value))
        return value

    def _found(self, value: object) -> str:
        if value is None:
            return f"there is no value, but it holds a `{self.kinds[0].__name__}`"
        return f"{shorten(value)} is a `{type(value).__name__}`, but it holds a `{self.kinds[0].__name__}`"


@dataclass(frozen=True)
class _Times(Form):
    """Times: without a zone, or in UTC."""

    aware: bool

    @property
    def arrow(self) -> pa.DataType:
        return pa.timestamp("us", "UTC" if self.aware else None)

    def out(self, value: Any) -> Any:
        """As Arrow takes it."""
        utc = type(value) is datetime and value.tzinfo is UTC
        if type(value) is not datetime or value.fold or (not utc if self.aware else value.tzinfo is not None):
            raise MisfitError(f"{shorten(value)} is another kind of time")
        return value

    def back(self, value: Any) -> Any:
        """As Python has it."""
        if not isinstance(value, datetime) or (value.tzinfo is None) == self.aware:
            which = "of UTC" if self.aware else "without a time zone"
            raise TypeError(f"{shorten(value)} is no time {which}")
        if type(value) is not datetime:
            raise TypeError(f"{shorten(value)} has nanoseconds; write microseconds")
        return value.astimezone(UTC) if self.aware else value


@dataclass(frozen=True)
class _Text(Form):
    """Values that have a text, or a number, from which they can be made again."""

    kind: type
    arrow: pa.DataType
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]

    def out(self, value: Any) -> Any:
        """As Arrow takes it."""
        if type(value) is not self.kind:
            raise MisfitError(f"{shorten(value)} is a `{type(value).__name__}`, no `{self.kind.__name__}`")
        return self.write(value)

    def back(self, value: Any) -> Any:
        """As Python has it."""
        if value is None:
            raise TypeError(f"there is no value, but it holds a `{self.kind.__name__}`")
        column = int if pa.types.is_integer(self.arrow) else str
        if type(value) not in {column, self.kind}:
            raise TypeError(
                f"{shorten(value)} is a `{type(value).__name__}`; it is written as `{column.__name__}`"
            )
        return self.read(value)


@dataclass(frozen=True)
class _Optional(Form):
    """Values of another form, or None."""

    inner: Form

    @property
    def arrow(self) -> pa.DataType:
        return self.inner.arrow

    def out(self, value: Any) -> Any:
        """As Arrow takes it."""
        return self.inner.out(value)

    def back(self, value: Any) -> Any:
        """As Python has it."""
        return None if value is None else self.inner.back(value)


@dataclass(frozen=True)
class _Required(Form):
    """Values of another form, which are never None."""

    inner: Form

    @property
    def arrow(self) -> pa.DataType:
        return self.inner.arrow

    def array(self, values: Sequence[Any]) -> pa.Array:
        """The values as a column."""
        if any(one is None for one in values):
            raise MisfitError("there is no value")
        return self.inner.array(values)

    def out(self, value: Any) -> Any:
        """As Arrow takes it."""
        return self.inner.out(value)

    def back(self, value: Any) -> Any:
        """As Python has it."""
        if value is None:
            raise TypeError("there is no value")
        return self.inner.back(value)


@dataclass(frozen=True)
class _Members(Form):
    """Members of an Enum, by their names."""

    kind: Any
    arrow: pa.DataType = pa.string()  # noqa: RUF009  immutable

    def out(self, value: Any) -> Any:
        """As Arrow takes it."""
        if not isinstance(value, Enum) or value.name not in type(value).__members__:
            raise MisfitError(f"{shorten(value)} is no member of an Enum")
        return value.name

    def back(self, value: Any) -> Any:
        """As Python has it."""
        try:
            return self.kind[value]
        except KeyError:
            raise LookupError(f"{shorten(value)} is no member of `{self.kind.__name__}`") from None


@dataclass(frozen=True)
class _Items(Form):
    """Lists, sets and tuples of any length."""

    kind: Any
    inner: Form

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(self.inner.arrow)

    def out(self, value: Any) -> Any:
        """As Arrow takes it."""
        if type(value) is not self.kind:
            raise MisfitError(f"{shorten(value)} is a `{type(value).__name__}`, no `{self.kind.__name__}`")
        return [_inside(self.inner, one) for one in value]

    def back(self, value: Any) -> Any:
        """As Python has it."""
        if not isinstance(value, list):
            raise TypeError(f"{shorten(value)} is no list")
        return self.kind(self.inner.back(one) for one in value)


@dataclass(frozen=True)
class _Pairs(Form):
    """Dictionaries."""

    key: Form
    value: Form

    @property
    def arrow(self) -> pa.DataType:
        return pa.map_(self.key.arrow, self.value.arrow)

    def out(self, value: Any) -> Any:
        """As Arrow takes it."""
        if type(value) is not dict or None in value:
            raise MisfitError(f"{shorten(value)} is no dictionary without the key None")
        return [(_inside(self.key, key), _inside(self.value, one)) for key, one in value.items()]

    def back(self, value: Any) -> Any:
        """As Python has it."""
        pairs = value.items() if isinstance(value, dict) else value
        if pairs is None:
            raise TypeError("there is no dictionary")
        found = {self.key.back(key): self.value.back(one) for key, one in pairs}
        if len(found) != len(pairs):
            raise ValueError(f"{shorten(value)} has a key twice")
        return found


@dataclass(frozen=True)
class Fields(Form):
    """Instances of a class, or tuples of a fixed length: a value for each field.

    `make` makes one of its values, in order. `by_place`: they are tuples.
    """

    fields: Mapping[str, Form]
    make: Callable[[Sequence[Any]], Any]
    kind: str
    by_place: bool

    @property
    def arrow(self) -> pa.DataType:
        """A struct."""
        return pa.struct([(name, one.arrow) for name, one in self.fields.items()])

    def parts(self, value: Any) -> Sequence[Any]:
        """The values of the fields. Raises MisfitError."""
        name = type(value).__name__
        if self.by_place:
            if not isinstance(value, tuple) or len(value) != len(self.fields) or name != self.kind:
                raise MisfitError(f"{shorten(value)} is no `{self.kind}` of {len(self.fields)} values")
            return value
        if name != self.kind:
            raise MisfitError(f"{shorten(value)} is a `{name}`, no `{self.kind}`")
        found = getattr(value, "__dict__", None)
        if found is not None and found.keys() - self.fields.keys():
            raise MisfitError(f"{shorten(value)} has attributes that are no fields")
        try:
            return [getattr(value, field) for field in self.fields]
        except AttributeError as error:
            raise MisfitError(str(error)) from None

    def out(self, value: Any) -> Any:
        """As Arrow takes it."""
        parts = zip(self.fields.items(), self.parts(value), strict=True)
        return {name: _inside(form, one) for (name, form), one in parts}

    def back(self, value: Any) -> Any:
        """As Python has it."""
        if not isinstance(value, dict):
            raise TypeError(f"{shorten(value)} is no `{self.kind}`")
        return self.make([form.back(value[name]) for name, form in self.fields.items()])


class _Json(Form):
    """Values that JSON gives back unchanged."""

    arrow = pa.string()

    def array(self, values: Sequence[Any]) -> pa.Array:
        """The values as a column."""
        return pa.array(list(map(self.out, values)), self.arrow)

    def out(self, value: Any) -> Any:
        """As Arrow takes it."""
        if not _is_json(value):
            raise MisfitError(f"{shorten(value)} has no JSON form that is the same")
        try:
            text = json.dumps(value, ensure_ascii=True)
        except (ValueError, RecursionError) as error:
            raise MisfitError(str(error)) from None
        return text

    def back(self, value: Any) -> Any:
        """As Python has it."""
        try:
            return json.loads(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{shorten(value)} is no JSON: {error}") from None


def _is_json(value: object) -> bool:
    kind = type(value)
    if kind is float:
        return math.isfinite(value)  # type: ignore[arg-type]  # it is one
    if kind is list:
        return all(map(_is_json, value))  # type: ignore[call-overload]  # it is one
    if kind is dict:
        items: Any = value
        return all(type(key) is str and _is_json(one) for key, one in items.items())
    return kind in _EXACT


class _Pickles(Form):
    """Anything. To read it may run code."""

    arrow = pa.large_binary()

    def array(self, values: Sequence[Any]) -> pa.Array:
        """The values as a column."""
        return pa.array(list(map(self.out, values)), self.arrow)

    def out(self, value: Any) -> Any:
        """As Arrow takes it."""
        try:
            return dumps(value)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise MisfitError(str(error)) from None

    def back(self, value: Any) -> Any:
        """As Python has it."""
        try:
            return loads(value)
        except Exception as error:  # noqa: BLE001  of any code
            raise ValueError(f"it is no pickle that can be read here: {error}") from None


def _inside(form: Form, value: Any) -> Any:
    """A value within another one. Raises MisfitError for None where none may be."""
    if value is None:
        if not isinstance(form, _Optional):
            raise MisfitError("there is no value inside")
        return None
    return form.out(value)


# The form of a type -----------------------------------------------------------------------------------------

_SCALARS: Mapping[str, Form] = {
    "int": _Plain(pa.int64(), (int,)),
    "float": _Plain(pa.float64(), (float, int)),
    "bool": _Plain(pa.bool_(), (bool,)),
    "str": _Plain(pa.string(), (str,)),
    "bytes": _Plain(pa.binary(), (bytes,)),
    "None": _Plain(pa.null(), ()),
    "datetime:date": _Plain(pa.date32(), (date,)),
    "datetime:time": _Plain(pa.time64("us"), (time,)),
    "datetime:timedelta": _Text(
        timedelta, pa.int64(), lambda one: one // _MICROSECOND, lambda one: timedelta(microseconds=one)
    ),
    "decimal:Decimal": _Text(Decimal, pa.string(), str, Decimal),
    "uuid:UUID": _Text(UUID, pa.string(), str, lambda one: UUID(str(one))),
}
_ITEMS: Mapping[str, type] = {"list": list, "set": set, "frozenset": frozenset}


class NoFormError(Exception):
    """A type has no Arrow type."""


class Forms:
    """Makes forms of types. `classes`: shapes by name; `kinds`: the classes themselves, to make values."""

    def __init__(self, classes: Mapping[str, Shape], kinds: Mapping[str, type], encoding: str) -> None:
        self._classes, self._kinds = classes, kinds
        self._utc = encoding == UTC_TIMES
        self._encoding = encoding
        self._within: tuple[str, ...] = ()

    def of(self, kind: Any) -> Form:
        """The form of a type. Raises NoFormError."""
        if self._encoding == JSON:
            return _Json()
        return _Pickles() if self._encoding == PICKLE else self._of(kind)

    def _of(self, kind: Any) -> Form:  # noqa: PLR0911  one for each kind of type
        """The form of a type with real columns. Raises NoFormError."""
        head, arguments = head_of(kind), arguments_of(kind)
        if head == "|":
            kinds = [one for one in members(kind) if one != "None"]
            if len(kinds) != 1:
                raise NoFormError(kind)
            found = self._of(kinds[0])
            return _Optional(found) if len(members(kind)) > 1 else found
        if head == "datetime:datetime":
            return _Times(self._utc)
        if head in _SCALARS and not arguments:
            return _SCALARS[head]
        if head in _ITEMS and len(arguments) == 1:
            return _Items(_ITEMS[head], self._of(arguments[0]))
        if head == "tuple" and arguments:
            return self._tuple(arguments)
        if head == "dict" and len(arguments) == 2:  # noqa: PLR2004  key and value
            return _Pairs(self._of(arguments[0]), self._of(arguments[1]))
        return self._class(head)

    def _tuple(self, arguments: Sequence[Any]) -> Form:
        if arguments[-1] == "...":
            return _Items(tuple, self._of(arguments[0]))
        fields = {str(place): self._of(one) for place, one in enumerate(arguments)}
        return Fields(fields, tuple, "tuple", by_place=True)

    def _class(self, name: str) -> Form:
        """The form of a class of users. Raises NoFormError if its fields are not known."""
        shape = self._classes.get(name)
        if shape is None or name in self._within or shape.get("own"):
            raise NoFormError(name)
        kind: Any = self._kinds.get(name)
        path = name.rpartition(":")[2].rpartition(".")[2]
        if shape["kind"] == "Enum":
            return _Members(kind)
        if shape["kind"] not in {"NamedTuple", "dataclass", "model"} or not shape["fields"]:
            raise NoFormError(name)
        self._within = (*self._within, name)
        fields = {field: self._of(inner) for field, inner, _ in shape["fields"]}
        self._within = self._within[:-1]
        by_place = shape["kind"] == "NamedTuple"
        return Fields(fields, _maker(kind, by_place, tuple(fields)), path, by_place=by_place)


def _maker(kind: Any, by_place: object, names: Sequence[str]) -> Callable[[Sequence[Any]], Any]:
    """The function that makes an instance of a class of its values."""
    if by_place:
        return lambda values: tuple.__new__(kind, values)
    return lambda values: kind(**dict(zip(names, values, strict=True)))


def guessed(values: Sequence[Any]) -> Any:
    """The type of values for which none is declared, as a shape; ANY if they are not of one plain type."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) != 1:
        return ANY
    [kind] = kinds
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}:{kind.__name__}"
    return ["|", name, "None"] if name in _SCALARS or kind is datetime else ANY


# Several columns --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """The columns of one value: its form alone, or one for each field of it."""

    title: str
    form: Form

    @property
    def fields(self) -> dict[str, Form]:
        """The forms by column."""
        if isinstance(self.form, Fields):
            return {f"{self.title}_{name}": one for name, one in self.form.fields.items()}
        return {self.title: self.form}

    def arrays(self, values: Sequence[Any]) -> list[pa.Array]:
        """A column for each field. Raises MisfitError."""
        if not isinstance(self.form, Fields):
            return [_required(self.form).array(values)]
        parts = list(map(self.form.parts, values))
        columns: Any = zip(*parts, strict=True) if parts else [()] * len(self.form.fields)
        return [
            _required(one).array(list(column))
            for one, column in zip(self.form.fields.values(), columns, strict=True)
        ]

    def read(self, batch: pa.RecordBatch) -> list[Any]:
        """The values of some rows. Raises RowError."""
        columns = []
        for name, one in self.fields.items():
            try:
                columns.append(one.values(cast(batch.column(name), one.arrow).to_pylist()))
            except RowError as error:
                raise RowError(error.row, f"`{name}`: {error}") from None
        if not isinstance(self.form, Fields):
            return columns[0]
        found = []
        for row, parts in enumerate(zip(*columns, strict=True)):
            try:
                found.append(self.form.make(parts))
            except Exception as error:  # noqa: BLE001  of users' classes
                raise RowError(row, f"no `{self.form.kind}` can be made of it: {error}") from None
        return found


def _required(form: Form) -> Form:
    return form if isinstance(form, (_Optional, _Json, _Pickles)) else _Required(form)


def columns_of(
    title: str, kind: Any, encoding: str, classes: Mapping[str, Shape], kinds: Mapping[str, type]
) -> Columns:
    """The columns of values of a type. Raises NoFormError if that encoding has no place for it."""
    return Columns(title, Forms(classes, kinds, encoding).of(kind))


def tries(kind: Any, sample: Sequence[Any], classes: Mapping[str, Shape]) -> list[tuple[Any, str]]:
    """The types, as shapes, and encodings that may hold values of a type, best first.

    `sample`: some of the values, for where no type is declared.
    """
    found = []
    known = guessed(sample) if kind == ANY else kind
    for encoding in ENCODINGS:
        one = known if encoding in {PLAIN, UTC_TIMES} else kind
        try:
            Forms(classes, {}, encoding).of(one)
        except NoFormError:
            continue
        found.append((one, encoding))
    return found


def cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column as the type that is wanted, if it differs in its width alone; else as it is."""
    if column.type == wanted:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    alike = (
        pa.types.is_integer,
        pa.types.is_floating,
        lambda one: pa.types.is_string(one) or pa.types.is_large_string(one) or one == pa.string_view(),
        lambda one: pa.types.is_binary(one) or pa.types.is_large_binary(one) or one == pa.binary_view(),
        lambda one: pa.types.is_timestamp(one) and (one.tz is None) == (getattr(wanted, "tz", None) is None),
        pa.types.is_time,
        pa.types.is_nested,
    )
    if any(test(column.type) and test(wanted) for test in alike):
        try:
            return column.cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            # nanoseconds have no value in Python: as texts they are refused by row
            return column.cast(pa.string()) if pa.types.is_temporal(column.type) else column
    return column

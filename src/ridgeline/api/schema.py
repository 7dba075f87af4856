"""What the tuples of a port look like: a NamedTuple, a dataclass, a `pyarrow.Schema`, or `object`."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from ridgeline.api.errors import SchemaError, shorten
from ridgeline.api.pickling import dumps, loads

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""The Arrow type of a `datetime` column: microseconds, UTC. A naive datetime is taken as UTC."""

_SCALARS: dict[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    datetime: TIMESTAMP,
    date: pa.date32(),
    timedelta: pa.duration("us"),
    time_of_day: pa.time64("us"),
    Decimal: pa.decimal128(38, 18),
}
_EXACT: dict[pa.DataType, type] = {
    pa.int64(): int,
    pa.float64(): float,
    pa.string(): str,
    pa.bool_(): bool,
    pa.binary(): bytes,
    TIMESTAMP: datetime,
}
"""Columns whose Python values come back from Arrow just as they went in, if they are of this very type."""

PICKLED = pa.schema([pa.field("value", pa.binary())], metadata={"ridgeline": "pickled"})
"""The Arrow schema of a port of `object`: one column of pickled values."""


class Schema:
    """The type of a stream's tuples, and how they become Arrow batches and come back.

    `type` is what the author gave, `arrow` its Arrow schema. Tuples of a `pyarrow.Schema` port are plain dictionaries.
    Raises SchemaError for a type that cannot be a schema.
    """

    def __init__(self, declared: Any) -> None:
        self.type = declared
        self.pickled = declared is object
        if self.pickled:
            self.arrow = PICKLED
        elif isinstance(declared, pa.Schema):
            self.arrow = declared
        else:
            fields = record_fields(declared).items()
            self.arrow = pa.schema([pa.field(name, to_arrow(kind, f"{declared.__name__}.{name}")) for name, kind in fields])

    def __reduce__(self) -> tuple[type[Schema], tuple[Any]]:
        return type(self), (self.type,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.pickled == other.pickled and self.arrow.equals(other.arrow)

    def __hash__(self) -> int:
        return hash((self.pickled, tuple(self.arrow.names)))

    def __repr__(self) -> str:
        return f"Schema({self.name})"

    @property
    def name(self) -> str:
        """The name of the declared type (`Payment`), `pyarrow.Schema` or `object`."""
        return "pyarrow.Schema" if isinstance(self.type, pa.Schema) else str(getattr(self.type, "__name__", self.type))

    def describe(self) -> str:
        """The name with its columns: `Balance(account: int64, cents: int64)`."""
        if self.pickled:
            return "object"
        return f"{self.name}({', '.join(f'{field.name}: {field.type}' for field in self.arrow)})"

    def difference(self, consumer: Schema) -> str | None:
        """What differs, seen from the consumer of this schema's tuples; None if nothing does. `object` consumers take anything.

        Columns are compared by position: name, then type.
        """
        if consumer.pickled or self == consumer:
            return None
        if self.pickled:
            return f"`object` cannot be read as {consumer.describe()}"
        for position, (mine, theirs) in enumerate(zip(self.arrow, consumer.arrow, strict=False)):
            if mine.name != theirs.name:
                return f"field {position + 1} is `{mine.name}` here and `{theirs.name}` there"
            if mine.type != theirs.type:
                return f"field `{mine.name}` is {mine.type} here and {theirs.type} there"
        longer, where = (self, "here") if len(self.arrow) > len(consumer.arrow) else (consumer, "there")
        field = longer.arrow[min(len(self.arrow), len(consumer.arrow))]
        return f"field `{field.name}` is only {where}" if len(self.arrow) != len(consumer.arrow) else None

    # Tuples to batches and back ------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """Tuples as one Arrow batch. Raises SchemaError naming the tuple and the column that do not fit."""
        if self.pickled:
            return pa.RecordBatch.from_arrays([pa.array([dumps(row) for row in rows], pa.binary())], schema=self.arrow)
        try:
            columns = self._columns(rows)
            arrays = [_to_array(column, field.type) for column, field in zip(columns, self.arrow, strict=True)]
            return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)
        except (pa.ArrowException, TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
            raise self._misfit(rows, error) from error

    def decode(self, batch: pa.RecordBatch) -> list[Any]:
        """The tuples of an Arrow batch, as the declared type."""
        if self.pickled:
            return [loads(value) for value in batch.column(0).to_pylist()]
        if isinstance(self.type, pa.Schema):
            return typing.cast("list[Any]", batch.to_pylist())
        columns = [
            [build(value) for value in column.to_pylist()] if build else column.to_pylist()
            for column, build in zip(batch.columns, self._builders, strict=True)
        ]
        if not columns:
            return [self.type() for _ in range(batch.num_rows)]
        if is_named_tuple(self.type):
            return list(map(self.type._make, zip(*columns, strict=True)))
        if any(field.kw_only for field in dataclasses.fields(self.type)):
            names = self.arrow.names
            return [self.type(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]
        return list(map(self.type, *columns))

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch that an author made, in exactly this schema: columns by name, cast where that loses nothing.

        Raises SchemaError naming the column that is missing, extra, or of another type.
        """
        if batch.schema.equals(self.arrow):
            return batch
        if set(batch.schema.names) != set(self.arrow.names) or len(batch.schema) != len(self.arrow):
            msg = f"a batch with columns {batch.schema.names} was emitted; the port's schema is {self.describe()}; name its columns"
            raise SchemaError(msg)
        arrays = []
        for field in self.arrow:
            array = batch.column(batch.schema.get_field_index(field.name))
            if array.type != field.type:
                try:
                    array = array.cast(field.type)
                except pa.ArrowException as error:
                    msg = f"column `{field.name}` of an emitted batch is {array.type}; the port's schema says {field.type}; {error}"
                    raise SchemaError(msg) from error
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def canonical(self, rows: Sequence[Any]) -> bool:
        """True if encoding and decoding `rows` would give back equal values of the very same types, so both can be left out."""
        if self.pickled:
            return True
        if not rows:
            return True
        if self._exact is None or set(map(type, rows)) != {self.type}:
            return False
        return all(_is_exact(column, exact) for column, exact in zip(self._columns(rows), self._exact, strict=True))

    @cached_property
    def _exact(self) -> list[type] | None:
        if isinstance(self.type, pa.Schema):
            return None
        if dataclasses.is_dataclass(self.type) and not all(field.init for field in dataclasses.fields(self.type)):
            return None  # what is not given to `__init__` is made again on the other side
        exact = [_EXACT.get(field.type) for field in self.arrow]
        return typing.cast("list[type]", exact) if all(exact) else None

    @cached_property
    def _builders(self) -> list[Callable[[Any], Any] | None]:
        return [builder(kind) for kind in record_fields(self.type).values()]

    @cached_property
    def _nested(self) -> list[bool]:
        return [pa.types.is_nested(field.type) for field in self.arrow]

    def _columns(self, rows: Sequence[Any]) -> Sequence[Sequence[Any]]:
        names = self.arrow.names
        if not rows:
            return [()] * len(names)
        if isinstance(self.type, pa.Schema):
            for row in rows:
                if row.keys() != set(names):
                    msg = f"keys {sorted(row)} instead of {sorted(names)}"
                    raise ValueError(msg)
            return [[row[name] for row in rows] for name in names]
        if dataclasses.is_dataclass(self.type):
            return [[_plain(getattr(row, name)) for row in rows] for name in names]
        for kind in set(map(type, rows)):
            if not issubclass(kind, (tuple, list)):
                msg = f"a {kind.__name__} is no tuple"
                raise TypeError(msg)
        columns = list(zip(*rows, strict=True))
        if len(columns) != len(names):
            msg = f"{len(columns)} values instead of {len(names)}"
            raise ValueError(msg)
        return [[_plain(value) for value in column] if nested else column for column, nested in zip(columns, self._nested, strict=True)]

    def _misfit(self, rows: Sequence[Any], error: Exception) -> SchemaError:
        """Find the first tuple that does not fit, for the error's text."""
        for row in rows:
            try:
                columns = self._columns([row])
                for field, column in zip(self.arrow, columns, strict=True):
                    try:
                        _to_array(column, field.type)
                    except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
                        what = f"`{field.name}` must be {field.type}; got {shorten(column[0])} ({cause})"
                        return SchemaError(f"{shorten(row)} does not fit {self.describe()}: {what}")
            except (TypeError, ValueError, AttributeError, KeyError) as cause:
                wanted = "dictionary of its columns" if isinstance(self.type, pa.Schema) else f"`{self.name}`"
                return SchemaError(f"{shorten(row)} does not fit {self.describe()}; emit a {wanted} ({cause})")
        return SchemaError(f"tuples do not fit {self.describe()}: {error}")


def is_named_tuple(kind: object) -> bool:
    """True for a class made by `typing.NamedTuple` or `collections.namedtuple`."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def is_record(kind: object) -> bool:
    """True for a NamedTuple or dataclass class."""
    return is_named_tuple(kind) or (isinstance(kind, type) and dataclasses.is_dataclass(kind))


def record_fields(kind: Any) -> Mapping[str, Any]:
    """Names and types of a NamedTuple's or dataclass's fields. Raises SchemaError for anything else, or a field without a type."""
    if not is_record(kind):
        msg = f"{shorten(kind)} cannot be a schema; give a NamedTuple, a dataclass, a `pyarrow.Schema` or `object`"
        raise SchemaError(msg)
    return _record_fields(kind)


@lru_cache(maxsize=1024)
def _record_fields(kind: Any) -> Mapping[str, Any]:
    names = kind._fields if is_named_tuple(kind) else [field.name for field in dataclasses.fields(kind) if field.init]
    try:
        hints = typing.get_type_hints(kind)
    except NameError as error:
        msg = f"the types of `{kind.__name__}` cannot be resolved: {error}; define them at module level"
        raise SchemaError(msg) from error
    missing = [name for name in names if name not in hints]
    if missing:
        msg = f"field `{missing[0]}` of `{kind.__name__}` has no type; use `typing.NamedTuple` with annotations"
        raise SchemaError(msg)
    _settle_annotations(kind, hints)
    return {name: hints[name] for name in names}


def _settle_annotations(kind: type, hints: Mapping[str, Any]) -> None:
    """In classes of a script or notebook, put types in the place of their names: a worker's `__main__` does not know these names."""
    for base in kind.__mro__:
        if base.__module__ == "__main__":
            annotations = vars(base).get("__annotations__", {})
            annotations.update({name: hints[name] for name in annotations if name in hints})


def _without_none(kind: Any) -> Any:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        rest = [part for part in typing.get_args(kind) if part is not type(None)]
        if len(rest) == 1:
            return rest[0]
    return kind


def to_arrow(kind: Any, where: str, within: tuple[Any, ...] = ()) -> pa.DataType:
    """The Arrow type of a field's Python type; `where` names the field in errors. Raises SchemaError if there is none.

    `within`: the records that the field lies in.
    """
    kind = _without_none(kind)
    if isinstance(kind, pa.DataType):
        return kind
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list and arguments:
        return pa.list_(to_arrow(arguments[0], where, within))
    if origin is dict and arguments:
        return pa.map_(to_arrow(arguments[0], where, within), to_arrow(arguments[1], where, within))
    if kind in within:
        msg = f"`{where}` has type `{kind.__name__}`, which contains itself, so it has no column type; use a port of `object`"
        raise SchemaError(msg)
    if is_record(kind):
        inside = (*within, kind)
        return pa.struct([pa.field(name, to_arrow(part, f"{where}.{name}", inside)) for name, part in record_fields(kind).items()])
    known = ", ".join(scalar.__name__ for scalar in _SCALARS)
    msg = (
        f"`{where}` has type {shorten(kind)}, which has no column type; "
        f"use one of {known}, list[...], dict[..., ...], a NamedTuple or a dataclass"
    )
    raise SchemaError(msg)


def builder(kind: Any) -> Callable[[Any], Any] | None:
    """What turns Arrow's Python value back into the declared type; None where it is that already."""
    kind = _without_none(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is datetime:
        return _in_utc
    if origin is list:
        inner = builder(arguments[0])
        return (lambda value: None if value is None else [inner(item) for item in value]) if inner else None
    if origin is dict:
        of_key, of_value = (builder(argument) or _as_it_is for argument in arguments)
        return lambda value: None if value is None else {of_key(key): of_value(item) for key, item in value}
    if is_record(kind):
        inners = {name: builder(part) for name, part in record_fields(kind).items()}

        def build(value: dict[str, Any] | None) -> Any:
            return None if value is None else kind(**{name: inner(value[name]) if inner else value[name] for name, inner in inners.items()})

        return build
    return None


def _plain(value: Any) -> Any:
    """A value in the form that Arrow takes: nested NamedTuples and dataclasses as dictionaries."""
    if is_named_tuple(type(value)):
        return {name: _plain(part) for name, part in zip(value._fields, value, strict=True)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(getattr(value, name)) for name in record_fields(type(value))}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return [(_plain(key), _plain(item)) for key, item in value.items()]
    return value


def _to_array(column: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An Arrow array. Raises what Arrow raises, and for what Arrow would take but change: 1.5 as an integer, a number as a time."""
    _check_values(column, kind)
    return pa.array(column, kind)


def _check_values(column: Sequence[Any], kind: pa.DataType) -> None:
    if pa.types.is_nested(kind):
        _check_nested([value for value in column if value is not None], kind)
        return
    kinds = set(map(type, column))
    if pa.types.is_integer(kind) and any(issubclass(found, (float, Decimal)) for found in kinds):
        broken = [value for value in column if isinstance(value, (float, Decimal)) and value != int(value)]
        if broken:
            msg = f"{broken[0]} is not a whole number"
            raise ValueError(msg)
    if pa.types.is_temporal(kind) and any(issubclass(found, (int, float)) for found in kinds):
        msg = "a number is no date or time"
        raise TypeError(msg)


def _check_nested(column: Sequence[Any], kind: pa.DataType) -> None:
    if pa.types.is_map(kind):
        pairs = [pair for value in column for pair in (value.items() if isinstance(value, dict) else value)]
        _check_values([key for key, _ in pairs], kind.key_type)
        _check_values([item for _, item in pairs], kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            _check_values([value.get(field.name) for value in column if isinstance(value, dict)], field.type)
    elif hasattr(kind, "value_type"):
        _check_values([item for value in column for item in value], kind.value_type)


def _in_utc(value: datetime | None) -> datetime | None:
    """Arrow's time with the time zone object that every author writes."""
    return None if value is None else value.replace(tzinfo=UTC)


def _as_it_is(value: Any) -> Any:
    return value


def _is_exact(column: Sequence[Any], exact: type) -> bool:
    if set(map(type, column)) != {exact}:
        return False
    if exact is int:
        return bool(min(column) >= -(2**63) and max(column) < 2**63)
    return exact is not datetime or all(value.tzinfo is UTC for value in column)


__all__ = ["PICKLED", "TIMESTAMP", "UTC", "Schema", "builder", "is_named_tuple", "is_record", "record_fields", "to_arrow"]

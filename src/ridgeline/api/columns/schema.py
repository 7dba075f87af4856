"""Schemas of ports: a class with fields, a TypedDict, a `pyarrow.Schema`, or `object`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa

from ridgeline.api.columns.casting import cast_exactly, is_checked, refuse_changing, retyped, types_within
from ridgeline.api.columns.column import Column
from ridgeline.api.columns.holding import held
from ridgeline.api.columns.nulls import is_optional
from ridgeline.api.columns.restoring import is_plain, restorer
from ridgeline.api.columns.struct_types import (
    TIMESTAMP,
    field_names,
    is_named_tuple,
    is_record,
    is_struct,
    struct_fields,
)
from ridgeline.api.columns.value_arrays import field_getter, refuse_further
from ridgeline.api.errors import SchemaError, described, shorten
from ridgeline.api.support.pickling import PICKLES_WITHIN, dumps, loads

_MARK = b"ridgeline"
PICKLED = pa.schema([pa.field("value", pa.binary())], metadata={_MARK: b"pickled"})
"""The Arrow schema of a port of `object`: one column of pickled values."""
_MISFITS = (pa.ArrowException, TypeError, ValueError, AttributeError, KeyError, OverflowError)
"""Errors that a conversion raises for tuples that do not fit."""


class Schema:
    """The type of a stream's tuples, with their conversion to Arrow batches and back.

    `type` is what the author gave, `arrow` its Arrow schema. It is a NamedTuple, a dataclass, an attrs class,
    a pydantic model, a TypedDict, a `pyarrow.Schema` or one of polars. `of_dicts`: tuples are dictionaries,
    as of the last three. Raises SchemaError for a type that cannot be a schema.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Schema
        >>> class Payment(NamedTuple):
        ...     account: int
        ...     cents: int
        >>> schema = Schema(Payment)
        >>> schema.describe()
        'Payment(account: int64, cents: int64)'
        >>> batch = schema.encode([Payment(1, 100), Payment(2, 5)])
        >>> batch.column("cents").to_pylist()
        [100, 5]
        >>> schema.decode(batch)
        [Payment(account=1, cents=100), Payment(account=2, cents=5)]
    """

    def __init__(self, declared: Any) -> None:
        if hasattr(declared, "to_python") and hasattr(declared, "dtypes"):
            declared = _of_polars(declared)
        self.type = declared
        self.pickled = declared is object
        self.of_dicts = is_record(declared)
        if self.pickled:
            self.arrow = PICKLED
        elif isinstance(declared, pa.Schema):
            self.arrow = declared if not _is_marked(declared) else _unmarked(declared)
            if (name := _doubled(declared)) is not None:
                raise SchemaError(f"the schema has the column `{name}` twice; rename one of them")
        else:
            fields = struct_fields(declared).items()
            self.arrow = pa.schema(
                [pa.field(name, held(kind, f"{declared.__name__}.{name}").type) for name, kind in fields]
            )

    def __reduce__(self) -> tuple[type[Schema], tuple[object]]:
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
        return "pyarrow.Schema" if self.of_dicts else str(getattr(self.type, "__name__", self.type))

    def describe(self) -> str:
        """The name with its columns: `Balance(account: int64, cents: int64)`."""
        if self.pickled:
            return "object"
        return f"{self.name}({', '.join(f'{field.name}: {field.type}' for field in self.arrow)})"

    def difference(self, consumer: Schema) -> str | None:
        """Why a consumer cannot read tuples of this schema; None if it can.

        Columns are compared by position: name, then type. A consumer of `object` reads any schema, one of a
        dataclass the classes that derive from it.
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
        kinds = self.type, consumer.type
        derived = all(map(dataclasses.is_dataclass, kinds)) and issubclass(*kinds)
        if len(self.arrow) == len(consumer.arrow) or derived:
            return self._nulls_for(consumer)
        longer, where = (self, "here") if len(self.arrow) > len(consumer.arrow) else (consumer, "there")
        field = longer.arrow[min(len(self.arrow), len(consumer.arrow))]
        return f"field `{field.name}` is only {where}"

    def _nulls_for(self, consumer: Schema) -> str | None:
        """The column that may be null, and may not be in a consumer with the same columns; None if none.

        Arrow fields of structs may be null, whatever the class declares: what is emitted is checked.
        """
        declared = {} if isinstance(self.type, pa.Schema) else struct_fields(self.type)
        for mine, theirs in zip(self.arrow, consumer.arrow, strict=False):
            may_be = is_optional(declared[mine.name]) if declared else mine.nullable
            if may_be and not theirs.nullable:
                return f"field `{mine.name}` may be null here and not there"
        return None

    @cached_property
    def has_dictionary(self) -> bool:
        """True if batches come with dictionaries, which are messages of their own."""
        return any(pa.types.is_dictionary(one) for field in self.arrow for one in types_within(field.type))

    # Tuples to batches and back -----------------------------------------------------------------------------

    def encode(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """Convert tuples into one Arrow batch.

        Raises SchemaError naming the tuple and the column that do not fit.
        """
        return self.assemble(rows, self.settle(rows)[1])

    def settle(self, rows: Sequence[Any]) -> tuple[bool, Sequence[object]]:
        """Check tuples: whether encoding and decoding keeps them unchanged; their columns for `assemble`.

        Unchanged are equal values of exactly the same types. Raises SchemaError naming the tuple and the
        column that do not fit.
        """
        if self.pickled:
            return True, ()
        kinds = set(map(type, rows))
        try:
            settled = [
                column.settle(values)
                for column, values in zip(self.columns, self._values(rows, kinds), strict=True)
            ]
        except _MISFITS as error:
            raise self._misfit(rows, error) from error
        # a dictionary can be changed by each consumer
        canonical = not self.of_dicts and kinds == {self.type} and all(exact for exact, _ in settled)
        return canonical, [values for _, values in settled]

    def assemble(self, rows: Sequence[Any], settled: Sequence[object]) -> pa.RecordBatch:
        """Make the batch of `rows` from what `settle` returned. Raises SchemaError like `encode`."""
        if self.pickled:
            return pa.RecordBatch.from_arrays(
                [pa.array(list(map(_pickled, rows)), pa.binary())], schema=self.arrow
            )
        try:
            arrays = [column.to_array(values) for column, values in zip(self.columns, settled, strict=True)]
            if not arrays:  # a batch without columns must know how many rows it has
                return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
            return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)
        except _MISFITS as error:
            raise self._misfit(rows, error) from error

    def decode(self, batch: pa.RecordBatch) -> list[Any]:
        """Convert an Arrow batch into tuples of the declared type.

        Raises OverflowError or ValueError naming the column with a value that Python's types cannot hold.
        """
        if self.pickled:
            return [loads(value) for value in batch.column(0).to_pylist()]
        if not batch.num_columns:
            make = dict if self.of_dicts else restorer(self.type)
            return [make(()) for _ in range(batch.num_rows)]
        columns = [
            self._read(column, array) for column, array in zip(self.columns, batch.columns, strict=True)
        ]
        if self.of_dicts:
            return [dict(zip(self.arrow.names, values, strict=True)) for values in zip(*columns, strict=True)]
        if is_named_tuple(self.type):
            return list(map(tuple.__new__, repeat(self.type), zip(*columns, strict=True)))
        if is_plain(self.type):
            return list(map(self.type, *columns))
        return list(map(restorer(self.type), zip(*columns, strict=True)))

    def _read(self, column: Column, array: pa.Array) -> list[object]:
        try:
            return column.read(array)
        except (OverflowError, ValueError) as error:
            what = f"column `{column.name}` of {self.describe()} has a value that Python's types cannot hold"
            msg = f"{what}: {error}; read it in batches"
            kind = OverflowError if isinstance(error, OverflowError) else ValueError
            raise kind(msg) from error

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch of an author into exactly this schema.

        Columns are taken by name, and cast if every value stays equal.

        Raises SchemaError naming the column that is missing, extra, or of another type.
        """
        if batch.schema.equals(self.arrow, check_metadata=True):
            return self._checked(batch)
        if self.pickled:  # bytes of any other batch may come from anywhere
            what = "the port's schema is `object`, which takes batches of such streams only"
            remedy = "emit tuples one by one, or give the port a schema with columns"
            raise SchemaError(f"a batch with columns {batch.schema.names} was emitted; {what}; {remedy}")
        if holds_pickles(batch):  # the mark comes from a file, for example: its bytes must not be unpickled
            batch = batch.replace_schema_metadata(self.arrow.metadata)
        if batch.schema.equals(self.arrow):
            return self._checked(batch)
        if set(batch.schema.names) != set(self.arrow.names) or len(batch.schema) != len(self.arrow):
            what = f"a batch with columns {batch.schema.names} was emitted"
            raise SchemaError(f"{what}; the port's schema is {self.describe()}; name its columns")
        arrays = []
        for field in self.arrow:
            array = batch.column(batch.schema.get_field_index(field.name))
            if array.type != field.type:
                try:
                    array = cast_exactly(array, field.type)
                except pa.ArrowException as error:
                    what = f"column `{field.name}` of an emitted batch is {array.type}"
                    raise SchemaError(f"{what}; the port's schema says {field.type}; {error}") from error
            arrays.append(array)
        return self._checked(pa.RecordBatch.from_arrays(arrays, schema=self.arrow))

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch of an author, in this schema. Raises SchemaError for values that Python would change."""
        for place in self._changing:
            try:
                refuse_changing(batch.column(place), self.arrow.names[place])
            except ValueError as error:
                remedy = "a dictionary has one value for each key" if "twice" in str(error) else "correct it"
                raise SchemaError(f"{error}, in a batch that was emitted; {remedy}") from error
        return batch

    @cached_property
    def _changing(self) -> list[int]:
        """The columns with maps or times of day."""
        return [place for place, field in enumerate(self.arrow) if is_checked(field.type)]

    @cached_property
    def columns(self) -> list[Column]:
        """The conversion of each column."""
        if self.pickled or isinstance(self.type, pa.Schema):
            return list(map(Column, self.arrow))
        return list(map(Column, self.arrow, struct_fields(self.type).values()))

    @cached_property
    def takes_no_null(self) -> bool:
        """True if no column may be null and none is nested."""
        return not any(column.takes_null or column.nested for column in self.columns)

    @cached_property
    def _getters(self) -> list[Callable[[Any], object]]:
        """For each column, the function that reads its value in a tuple."""
        if is_named_tuple(self.type):
            return list(map(itemgetter, range(len(self.arrow))))
        return list(map(itemgetter if self.of_dicts else attrgetter, self.arrow.names))

    def _values(self, rows: Sequence[Any], kinds: set[type]) -> list[list[object]]:
        """Split tuples into columns; `kinds`: the types of the tuples.

        Raises ValueError, TypeError or AttributeError for a row that is no tuple of this schema.
        """
        if self.of_dicts:
            names = set(self.arrow.names)
            for row in rows:
                if row.keys() != names:
                    raise ValueError(f"keys {sorted(row)} instead of {sorted(names)}")
        elif not is_named_tuple(self.type):
            self._check_dataclasses(rows, kinds)
        elif kinds != {self.type}:
            self._check_tuples(rows, kinds)
        return [list(map(get, rows)) for get in self._getters]

    def _check_tuples(self, rows: Sequence[Any], kinds: set[type]) -> None:
        """Refuse rows that are no tuples of this NamedTuple's fields, which count by position."""
        names = self.arrow.names
        for kind in kinds:
            if not issubclass(kind, (tuple, list)):
                raise TypeError(f"a {kind.__name__} is no tuple")
            if list(fields := getattr(kind, "_fields", names)) != names:
                raise ValueError(f"the fields {list(fields)} instead of {names}")
        for width in set(map(len, rows)) - {len(names)}:
            raise ValueError(f"{width} values instead of {len(names)}")

    def _check_dataclasses(self, rows: Sequence[Any], kinds: set[type]) -> None:
        """Refuse instances with other fields than this dataclass, and attributes that have no column."""
        for kind in kinds:
            if kind is not self.type and is_struct(kind):
                field_getter(kind, self.arrow.names, self.name)  # raises for other fields
            own = rows if len(kinds) == 1 else [row for row in rows if type(row) is kind]
            refuse_further(kind, own, self.arrow.names)

    def _misfit(self, rows: Sequence[Any], error: Exception) -> SchemaError:
        """The error that names the first tuple that does not fit; `error`: the one raised for all rows."""
        for row in rows:
            try:
                for column, values in zip(self.columns, self._values([row], {type(row)}), strict=True):
                    try:
                        column.to_array(column.settle(values)[1])
                    except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
                        what = f"`{column.name}` must be {column.type}; got {shorten(values[0])} ({cause})"
                        return SchemaError(f"{shorten(row)} does not fit {self.describe()}: {what}")
            except (TypeError, ValueError, AttributeError, KeyError) as cause:
                wanted = "dictionary of its columns" if self.of_dicts else f"`{self.name}`"
                return SchemaError(
                    f"{shorten(row)} does not fit {self.describe()}; emit a {wanted} ({cause})"
                )
        return SchemaError(f"tuples do not fit {self.describe()}: {error}")


def _of_polars(declared: Any) -> pa.Schema:
    """The Arrow schema of one of polars, with plain texts and bytes. Raises SchemaError."""
    try:
        found = pa.schema(declared.to_frame().to_arrow().schema)
    except Exception as error:
        raise SchemaError(
            f"{shorten(declared)} cannot be a schema: {error}; give a `pyarrow.Schema`"
        ) from error
    return pa.schema(
        [field.with_type(retyped(field.type, _plain_offsets)).remove_metadata() for field in found]
    )


def _plain_offsets(kind: Any) -> pa.DataType:
    """A type without the large offsets of polars."""
    if pa.types.is_large_list(kind):
        return pa.list_(kind.value_type)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), _plain_offsets(kind.value_type))
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)


def _pickled(row: object) -> bytes:
    try:
        return dumps(row)
    except Exception as error:
        what = f"cannot be pickled on its way to another container: {described(error)}"
        raise SchemaError(f"{shorten(row)} {what}; emit plain values") from error


def holds_pickles(batch: pa.RecordBatch) -> bool:
    """True for a batch of a stream of `object`.

    Batches from outside never have the mark: `conform` removes it.
    """
    return _is_marked(batch.schema)


def pickles_of(batch: pa.RecordBatch) -> list[bytes]:
    """The pickles in a batch of a stream of `object`; nothing in another one."""
    return batch.column(0).to_pylist() if holds_pickles(batch) else []


PICKLES_WITHIN[pa.RecordBatch] = pickles_of


def _doubled(schema: pa.Schema) -> str | None:
    """A name that a schema, or a struct within it, has twice; None if there is none."""
    structs = filter(pa.types.is_struct, types_within(pa.struct(list(schema))))
    names = ([field.name for field in kind] for kind in structs)
    return next((name for some in names for name in some if some.count(name) > 1), None)


def _is_marked(schema: pa.Schema) -> bool:
    return schema.metadata is not None and _MARK in schema.metadata


def _unmarked(schema: pa.Schema) -> pa.Schema:
    return schema.with_metadata({key: value for key, value in schema.metadata.items() if key != _MARK})


def tuple_maker(kind: Any) -> Callable[[Any], Any]:
    """The function that makes a tuple of a type of a plain one; other values stay as they are.

    It raises SchemaError for another number of values, and what the type raises.
    """
    if isinstance(kind, pa.Schema):
        names, new = kind.names, dict
    elif is_struct(kind):
        names, new = field_names(kind) or [], kind
    else:
        return lambda item: item

    def made(item: Any) -> Any:
        if type(item) is not tuple:
            return item
        if len(item) != len(names):
            found = f"item {shorten(item)} has {len(item)} value{'' if len(item) == 1 else 's'}"
            raise SchemaError(
                f"{found}, but the list has tuples of {Schema(kind).describe()}; give one for each field"
            )
        return new(**dict(zip(names, item, strict=True)))

    return made


__all__ = [
    "PICKLED",
    "TIMESTAMP",
    "Schema",
    "holds_pickles",
    "is_named_tuple",
    "is_struct",
    "struct_fields",
    "tuple_maker",
]

"""Struct types: classes with fields, their fields, and the fields' Arrow types; what a schema may be."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import Field
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

import pyarrow as pa
import typing_extensions

from ridgeline.api.errors import SchemaError, shorten

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMESTAMP = pa.timestamp("us", tz="UTC")
"""The Arrow type of a `datetime` column: microseconds, UTC. A naive datetime is taken as UTC."""


def is_named_tuple(kind: object) -> bool:
    """True for a class made by `typing.NamedTuple` or `collections.namedtuple`."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def is_struct(kind: object) -> bool:
    """True for a NamedTuple, dataclass, attrs class or pydantic model."""
    return is_named_tuple(kind) or (isinstance(kind, type) and field_names(kind) is not None)


def is_pydantic(kind: object) -> bool:
    """True for a pydantic model."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_fields__") and hasattr(kind, "model_fields")


def is_record(kind: object) -> bool:
    """True for a type whose tuples are dictionaries: a `pyarrow.Schema` or a TypedDict."""
    return isinstance(kind, pa.Schema) or typing_extensions.is_typeddict(kind)


def field_names(kind: Any) -> list[str] | None:
    """The names of the fields of a class; None if it is none that has fields."""
    if is_named_tuple(kind):
        return list(kind._fields)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if is_pydantic(kind):
        return list(kind.model_fields)
    if hasattr(kind, "__attrs_attrs__"):
        return [field.name for field in kind.__attrs_attrs__]
    return None


def struct_fields(kind: Any) -> Mapping[str, object]:
    """Names and types of the fields of a class, also of those that its constructor lacks.

    Raises SchemaError for a class without fields, or a field without a type.
    """
    if not is_struct(kind) and not typing_extensions.is_typeddict(kind):
        remedy = (
            "give a NamedTuple, a dataclass, an attrs class, a pydantic model, a TypedDict, "
            "a `pyarrow.Schema`, a `polars.Schema` or `object`"
        )
        raise SchemaError(f"{shorten(kind)} cannot be a schema; {remedy}")
    return _struct_fields(kind)


@lru_cache(maxsize=1024)
def _struct_fields(kind: Any) -> Mapping[str, object]:
    """`struct_fields` of a class with fields. Raises SchemaError for a field without a type."""
    names = field_names(kind)
    try:
        hints = typing_extensions.get_type_hints(kind)
    except NameError as error:
        raise SchemaError(
            f"the types of `{kind.__name__}` cannot be resolved: {error}; define them at module level"
        ) from error
    names = list(hints) if names is None else names
    missing = [name for name in names if name not in hints]
    if missing:
        raise SchemaError(
            f"field `{missing[0]}` of `{kind.__name__}` has no type; use `typing.NamedTuple` with annotations"
        )
    optional: frozenset[str] = getattr(kind, "__optional_keys__", frozenset())
    if optional:
        name = min(optional)
        remedy = f"write `{name}: ... | None`, and give it always"
        raise SchemaError(
            f"field `{name}` of `{kind.__name__}` may be missing, and a column has a value or null; {remedy}"
        )
    _settle_annotations(kind, hints)
    return {name: hints[name] for name in names}


def _settle_annotations(kind: type, hints: Mapping[str, object]) -> None:
    """Replace the names of types by the types in annotations of classes of `__main__`.

    A worker's `__main__` does not have the names that a script or notebook defines.
    """
    for base in kind.__mro__:
        if base.__module__ == "__main__":
            annotations = vars(base).get("__annotations__", {})
            annotations.update({name: hints[name] for name in annotations if name in hints})


def without_none(kind: Any) -> object:
    """The type `T` of a union `T | None`; any other type unchanged."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        rest = [part for part in typing.get_args(kind) if part is not type(None)]
        if len(rest) == 1:
            return without_none(rest[0])
    if typing.get_origin(kind) is typing.Literal and None in typing.get_args(kind):
        return typing.Literal[tuple(one for one in typing.get_args(kind) if one is not None)]
    return kind.__supertype__ if isinstance(kind, typing.NewType) else kind


if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultedTypeVar

    _T = DefaultedTypeVar("_T", default=Any)


class ArrowSchema(Protocol):
    """An object that exports column names and types by the Arrow PyCapsule interface: a `pyarrow.Schema`.

    Example:
        >>> import pyarrow as pa
        >>> from ridgeline import ArrowSchema
        >>> def names(schema: ArrowSchema) -> list[str]:
        ...     return pa.schema(schema).names
        >>> names(pa.schema([("account", pa.int64())]))
        ['account']
    """

    def __arrow_c_schema__(self) -> object:
        """The schema, in a PyCapsule."""


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Struct = TypeVar("Struct", bound="tuple[Any, ...] | _Dataclass")
"""A NamedTuple or a dataclass."""

if TYPE_CHECKING:
    SchemaType: TypeAlias = type[_T] | ArrowSchema
    """The type of a property that says which schema a port has: `schema: SchemaType[T]`."""
else:

    class SchemaType:
        """The type of a property that says which schema a port has: `schema: SchemaType[T]`.

        Property validation accepts any value; faults of schemas are reported with the port.

        Example:
            >>> from typing import Any, NamedTuple
            >>> from ridgeline import InputOperator, OutputPort, SchemaType
            >>> class Payment(NamedTuple):
            ...     account: int
            >>> class Source(InputOperator):
            ...     schema: SchemaType[Any]
            ...     output = OutputPort(Any)
            ...
            ...     def __post_init__(self) -> None:
            ...         self.declare_schema("output", self.schema)
            >>> Source(schema=Payment).output.schema.describe()
            'Payment(account: int64)'
        """

        def __class_getitem__(cls, element: object) -> object:
            """Return `Any`: the element type is not known at run time."""
            return Any

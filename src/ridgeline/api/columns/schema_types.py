"""Types for annotations: schemas as type checkers see them."""

from __future__ import annotations

from dataclasses import Field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

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

"""Types for annotations: what a schema may be, as type checkers see it."""

from __future__ import annotations

from dataclasses import Field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultedTypeVar

    _T = DefaultedTypeVar("_T", default=Any)


class ArrowSchema(Protocol):
    """A `pyarrow.Schema`: what exports column names and types by the Arrow PyCapsule interface."""

    def __arrow_c_schema__(self) -> object:
        """The schema, in a PyCapsule."""


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Record = TypeVar("Record", bound="tuple[Any, ...] | _Dataclass")
"""A NamedTuple or a dataclass."""

if TYPE_CHECKING:
    SchemaType: TypeAlias = type[_T] | ArrowSchema
    """The type of a property that says which schema a port has: `schema: SchemaType[T]`."""
else:

    class SchemaType:
        """The type of a property that says which schema a port has: `schema: SchemaType[T]`.

        Property validation passes any value: faults of schemas are found with the port.
        """

        def __class_getitem__(cls, element: object) -> object:
            """`Any`, which is all that is known at run time."""
            return Any

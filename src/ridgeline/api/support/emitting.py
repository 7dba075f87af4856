"""Operators with an output port of the name `output`, as type checkers see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol

from typing_extensions import TypeVar

if TYPE_CHECKING:
    from ridgeline.api.points import OutputPoint

T = TypeVar("T", default=Any)
T_co = TypeVar("T_co", covariant=True, default=Any)


class Emits(Generic[T_co]):
    """A base of operators that emit tuples of type `T` on their port `output`: for type checkers only.

    Example:
        >>> from ridgeline.testing import ListInput
        >>> isinstance(ListInput(object, [1, 2]), Emits)
        True
    """


class HasOutput(Protocol[T]):
    """The same for operators of authors, which need no base; pyright does not find them out.

    Example:
        >>> from typing import Any
        >>> from ridgeline.testing import ListInput
        >>> def schema_of(source: HasOutput[Any]) -> str:
        ...     return source.output.schema.describe()
        >>> schema_of(ListInput(object, [1, 2]))
        'object'
    """

    @property
    def output(self) -> OutputPoint[T]:
        """The output port."""

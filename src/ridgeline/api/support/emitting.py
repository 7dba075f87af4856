"""Operators that emit on a port `output`, and those that take tuples, as type checkers see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol

from typing_extensions import TypeVar

if TYPE_CHECKING:
    from ridgeline.api.points import OutputPoint

T = TypeVar("T", default=Any)
T_co = TypeVar("T_co", covariant=True, default=Any)
T_contra = TypeVar("T_contra", contravariant=True, default=Any)
Made_co = TypeVar("Made_co", covariant=True, default=Any)


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

    def emit_tuples(self) -> None:
        """Emit a window's tuples: only input operators do."""


class Takes(Protocol[T_contra, Made_co]):
    """An operator or module that a stream of `T` may be written to: for type checkers only.

    `_takes` exists for them alone. `Operator` takes anything there, since its ports may have any names; an
    input operator takes nothing. A sink of the library that knows its type, such as `CollectorSink[Payment]`,
    takes that. `Made` is the operator itself, which `Stream.write` returns.

    Example:
        >>> from ridgeline.operators import ConsoleOutput
        >>> def written_by(output: "Takes[object, ConsoleOutput]") -> str:
        ...     return type(output).__name__
        >>> written_by(ConsoleOutput())
        'ConsoleOutput'
    """

    def _takes(self, value: T_contra, /) -> Made_co: ...

"""The types of steps that take expressions by name: attributes have names and types, all else is columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Never, Protocol, Self, TypeAlias, cast, overload

from typing_extensions import TypeVar

from ridgeline.api import OnError, Partitioner, ProcessingMode
from ridgeline.operators.aggregate import Aggregate

if TYPE_CHECKING:
    import polars as pl

    from ridgeline.streams.connecting import Outputs, Steps

    Expression: TypeAlias = str | pl.Expr

T = TypeVar("T", default=Any)
Unnamed_contra = TypeVar("Unnamed_contra", contravariant=True, default=Any)
Named_contra = TypeVar("Named_contra", contravariant=True, default=Any)
Made_co = TypeVar("Made_co", covariant=True, default=Any)


class Keywords(Protocol[Unnamed_contra, Named_contra, Made_co]):
    """A step that takes values by name: `with_columns("euros", euros="cents / 100", partitions=2)`.

    `emit`, `ttl` and `ttl_by` are options of `aggregate` of all records, and values of other steps.
    """

    def __call__(  # noqa: PLR0913  each attribute
        self,
        name: str,
        /,
        *unnamed: Unnamed_contra,
        emit: Named_contra | Literal["changes", "records"] = ...,
        ttl: Named_contra | float | str | None = ...,
        ttl_by: Named_contra | Literal["clock", "record"] = ...,
        partitions: int = ...,
        partitioner: Partitioner | None = ...,
        application_window_count: int = ...,
        application_window: float | str | None = ...,
        slide_by_window_count: int | None = ...,
        processing_mode: ProcessingMode | Literal["AT_LEAST_ONCE", "EXACTLY_ONCE", "AT_MOST_ONCE"] = ...,
        keep_state: bool = ...,
        on_error: OnError | Literal["STOP", "SKIP", "RETRY"] = ...,
        callback_timeout: float | str | None = ...,
        timeout_window_count: int = ...,
        recovery_attempts: int = ...,
        unifier_limit: int | Sequence[int] | None = ...,
        partition_parallel: bool = ...,
        time_ahead_limit: float | str = ...,
        error_tuples_kept: int = ...,
        memory_mb: int | None = ...,
        vcores: int | None = ...,
        gpus: int | None = ...,
        locality_host: str | None = ...,
        locality_rack: str | None = ...,
        speculation: float | None = ...,
        **named: Named_contra,
    ) -> Made_co:
        """See the method of the stream."""


class ComputingStep(Protocol[Made_co]):
    """`select` and `with_columns`."""

    @overload
    def __get__(self, instance: None, owner: object) -> Self: ...
    @overload
    def __get__(
        self, instance: Steps[T], owner: object
    ) -> Keywords[Expression, Expression | Callable[[T], Any], Made_co]: ...


class BranchingStep(Protocol):
    """`branch`."""

    @overload
    def __get__(self, instance: None, owner: object) -> Self: ...
    @overload
    def __get__(
        self, instance: Steps[T], owner: object
    ) -> Keywords[Never, Expression | Callable[[T], bool], Outputs]: ...


def computes(method: Callable[..., Made_co]) -> ComputingStep[Made_co]:
    """The method, as type checkers see it on an instance."""
    return cast("Any", method)


def branches(method: Callable[..., Outputs]) -> BranchingStep:
    """The method, as type checkers see it on an instance."""
    return cast("Any", method)


def aggregates(method: Callable[..., Made_co]) -> Keywords[Never, Aggregate, Made_co]:
    """The method, as type checkers see it on an instance."""
    return cast("Any", method)

"""The types of steps that take expressions by name: attributes have names and types, all else is columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, cast, overload

from typing_extensions import TypeVar

from ridgeline.api import OnError, Partitioner, ProcessingMode

if TYPE_CHECKING:
    import polars as pl

    from ridgeline.streams.connecting import Steps
    from ridgeline.streams.outputs import Outputs

T = TypeVar("T", default=Any)
T_co = TypeVar("T_co", covariant=True, default=Any)
Made_co = TypeVar("Made_co", covariant=True, default=Any)


class Computes(Protocol[T_co, Made_co]):
    """`select` and `with_columns`: `with_columns("euros", euros="cents / 100", partitions=2)`."""

    def __call__(  # noqa: PLR0913  each attribute
        self,
        name: str,
        /,
        *columns: str | pl.Expr,
        partitions: int = ...,
        partitioner: Partitioner | None = ...,
        application_window_count: int = ...,
        application_window: float | str | None = ...,
        slide_by_window_count: int | None = ...,
        processing_mode: ProcessingMode | Literal["AT_LEAST_ONCE", "EXACTLY_ONCE", "AT_MOST_ONCE"] = ...,
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
        **named: str | pl.Expr | Callable[[T_co], Any],
    ) -> Made_co:
        """See `Stream.select` and `Stream.with_columns`."""


class Branches(Protocol[T_co]):
    """`branch`: `branch("size", large="cents > 1000", partitions=2)`."""

    def __call__(  # noqa: PLR0913  each attribute
        self,
        name: str,
        /,
        *,
        partitions: int = ...,
        partitioner: Partitioner | None = ...,
        application_window_count: int = ...,
        application_window: float | str | None = ...,
        slide_by_window_count: int | None = ...,
        processing_mode: ProcessingMode | Literal["AT_LEAST_ONCE", "EXACTLY_ONCE", "AT_MOST_ONCE"] = ...,
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
        **named: str | pl.Expr | Callable[[T_co], bool],
    ) -> Outputs:
        """See `Stream.branch`."""


class ComputingStep(Protocol[Made_co]):
    """A method of streams that is `Computes` of the stream's tuples."""

    @overload
    def __get__(self, instance: None, owner: object) -> Self: ...
    @overload
    def __get__(self, instance: Steps[T], owner: object) -> Computes[T, Made_co]: ...


class BranchingStep(Protocol):
    """A method of streams that is `Branches` of the stream's tuples."""

    @overload
    def __get__(self, instance: None, owner: object) -> Self: ...
    @overload
    def __get__(self, instance: Steps[T], owner: object) -> Branches[T]: ...


def computes(method: Callable[..., Made_co]) -> ComputingStep[Made_co]:
    """The method, as type checkers see it on an instance."""
    return cast("Any", method)


def branches(method: Callable[..., Outputs]) -> BranchingStep:
    """The method, as type checkers see it on an instance."""
    return cast("Any", method)

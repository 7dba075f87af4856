"""`Application.sql` as type checkers see it; its attributes are those of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from typing_extensions import TypeVar

from ridgeline.api.attributes import ModeName, OnError, OnErrorName, ProcessingMode
from ridgeline.api.partitioner import Partitioner

if TYPE_CHECKING:
    from ridgeline.api.columns.struct_types import SchemaType
    from ridgeline.operators import Sliding
    from ridgeline.streams.stream import Stream


T = TypeVar("T", default=Any)


class Queries(Protocol):
    """`Application.sql`: options and attributes have names and types, all other keywords are streams."""

    def __call__(  # noqa: PLR0913  names are what it is for
        self,
        name: str,
        sql: str,
        /,
        *,
        schema: SchemaType[T] = ...,
        windows: Sliding | None = ...,
        timestamp: str | None = ...,
        partitions: int = ...,
        partitioner: Partitioner | None = ...,
        application_window_count: int = ...,
        application_window: float | str | None = ...,
        slide_by_window_count: int | None = ...,
        processing_mode: ProcessingMode | ModeName = ...,
        keep_state: bool = ...,
        on_error: OnError | OnErrorName = ...,
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
        **streams: Stream[Any],
    ) -> Stream[T]:
        """With the type of the result; without a schema rows are dictionaries."""


def queries(method: Callable[..., Any]) -> Queries:
    """The method, as type checkers see it on an application."""
    return cast("Any", method)

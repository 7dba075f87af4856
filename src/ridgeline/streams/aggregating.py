"""The types of `aggregate`: attributes have names and types, all other keywords are aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Never, Protocol, cast

from typing_extensions import TypeVar

from ridgeline.api import OnError, Partitioner, ProcessingMode
from ridgeline.operators.aggregate import Aggregate
from ridgeline.streams.expressing import Keywords

Made_co = TypeVar("Made_co", covariant=True, default=Any)


class AggregatesAll(Protocol[Made_co]):
    """`aggregate` of all records so far: `aggregate("totals", n=agg.count(), ttl="1h")`."""

    def __call__(  # noqa: PLR0913  each attribute
        self,
        name: str,
        /,
        *,
        emit: Literal["changes", "records"] = ...,
        ttl: float | str | None = ...,
        ttl_by: Literal["clock", "record"] = ...,
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
        **aggregates: Aggregate,
    ) -> Made_co:
        """See `GroupedStream.aggregate`."""


def aggregates_windows(method: Callable[..., Made_co]) -> Keywords[Never, Aggregate, Made_co]:
    """The method, as type checkers see it on an instance."""
    return cast("Any", method)


def aggregates_all(method: Callable[..., Made_co]) -> AggregatesAll[Made_co]:
    """The method, as type checkers see it on an instance."""
    return cast("Any", method)

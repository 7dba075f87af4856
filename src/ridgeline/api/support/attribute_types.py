"""Attributes as type checkers see them: the keyword arguments of `Application` and `add_operator`.

`ridgeline.api.attributes` has their defaults and rules; a test compares the names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, cast

from typing_extensions import TypeVar

from ridgeline.api.attributes import Locality, OnError, ProcessingMode, RecordingLevel
from ridgeline.api.codec import StreamCodec
from ridgeline.api.partitioner import Partitioner

if TYPE_CHECKING:
    from ridgeline.api.columns.struct_types import SchemaType
    from ridgeline.operators import Sliding
    from ridgeline.streams.queried import Queried
    from ridgeline.streams.stream import Stream


T = TypeVar("T", default=Any)


class InputPortAttributes(TypedDict, total=False):
    """Attributes of an input port: `app.set_attribute(sum.data, partition_parallel=True)`.

    Example:
        >>> side_by_side: InputPortAttributes = {"partition_parallel": True}
    """

    unifier_single_final: bool | None
    stream_codec: StreamCodec | None
    partition_parallel: bool
    queue_capacity: int | None


class OutputPortAttributes(TypedDict, total=False):
    """Attributes of an output port: `app.set_attribute(sum.total, unifier_limit=4)`.

    Example:
        >>> cascade: OutputPortAttributes = {"unifier_limit": 4}
    """

    unifier_limit: int | Sequence[int] | None
    unifier_single_final: bool | None
    buffer_memory_mb: int | None


class UnifierAttributes(TypedDict, total=False):
    """Attributes of a port's unifiers: `app.set_attribute(sum.total, unifier=True, vcores=2)`.

    Example:
        >>> large: UnifierAttributes = {"memory_mb": 2048}
    """

    application_window_count: int
    application_window: float | str | None
    timeout_window_count: int
    recovery_attempts: int
    memory_mb: int | None
    vcores: int | None
    gpus: int | None


class StreamAttributes(TypedDict, total=False):
    """Attributes of a stream: `app.set_attribute(words, locality="CONTAINER_LOCAL")`.

    Example:
        >>> together: StreamAttributes = {"locality": "CONTAINER_LOCAL"}
    """

    locality: Locality | Literal["THREAD_LOCAL", "CONTAINER_LOCAL", "NODE_LOCAL", "RACK_LOCAL"] | None


class OperatorAttributes(TypedDict, total=False):
    """Attributes of one operator: `add_operator("sum", Sum(), partitions=2)`.

    Example:
        >>> scaled: OperatorAttributes = {"partitions": 2, "callback_timeout": "5s"}
    """

    partitions: int
    partitioner: Partitioner | None
    application_window_count: int
    application_window: float | str | None
    slide_by_window_count: int | None
    processing_mode: ProcessingMode | Literal["AT_LEAST_ONCE", "EXACTLY_ONCE", "AT_MOST_ONCE"]
    keep_state: bool
    on_error: OnError | Literal["STOP", "SKIP", "RETRY"]
    callback_timeout: float | str | None
    timeout_window_count: int
    recovery_attempts: int
    unifier_limit: int | Sequence[int] | None
    partition_parallel: bool
    time_ahead_limit: float | str
    error_tuples_kept: int
    memory_mb: int | None
    vcores: int | None
    gpus: int | None
    locality_host: str | None
    locality_rack: str | None
    speculation: float | None


class ApplicationAttributes(TypedDict, total=False):
    """Attributes of an application: `Application("payments", heartbeat_timeout="1m")`.

    Example:
        >>> patient: ApplicationAttributes = {"heartbeat_timeout": "1m", "windows_kept": 10}
    """

    processing_mode: ProcessingMode | Literal["AT_LEAST_ONCE", "EXACTLY_ONCE", "AT_MOST_ONCE"]
    on_error: OnError | Literal["STOP", "SKIP", "RETRY"]
    callback_timeout: float | str | None
    timeout_window_count: int
    recovery_attempts: int
    unifier_limit: int | Sequence[int] | None
    stream_codec: StreamCodec | None
    time_ahead_limit: float | str
    error_tuples_kept: int
    memory_mb: int | None
    vcores: int | None
    containers_max_count: int | None
    doc_link: str | None
    data_link: str | None
    snapshot_interval: int | None
    windows_kept: int
    windows_in_flight: int
    window_work: float | str | None
    speculation: float | None
    speculation_multiplier: float
    heartbeat_interval: float | str
    heartbeat_timeout: float | str
    throughput_calculation_interval: float | str
    stats_max_allowable_windows_lag: int
    ages_from_newest_record: bool
    metrics_recording_level: RecordingLevel | Literal["OFF", "INFO", "TRACE"]


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
        **streams: Stream[Any],
    ) -> Queried[T]:
        """With the type of the result; without a schema rows are dictionaries."""


def queries(method: Callable[..., Any]) -> Queries:
    """The method, as type checkers see it on an application."""
    return cast("Any", method)

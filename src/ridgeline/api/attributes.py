"""Attributes: what belongs to the platform, not to the operator's function.

The one list of names, scopes, types, defaults and rules.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, Union, get_args, get_origin, get_type_hints

from ridgeline.api.codec import StreamCodec
from ridgeline.api.partitioner import Partitioner
from ridgeline.api.support.attribute import Attribute, Scope
from ridgeline.api.support.documented import documented


class ProcessingMode(enum.StrEnum):
    """How a window is handled in which an operator fails.

    Example:
        >>> from ridgeline import Application, ProcessingMode
        >>> from ridgeline.testing import ListInput
        >>> app = Application("payments")
        >>> once = ListInput(object, [1])
        >>> source = app.add_operator("source", once, processing_mode=ProcessingMode.EXACTLY_ONCE)
    """

    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_MOST_ONCE = "AT_MOST_ONCE"


class OnError(enum.StrEnum):
    """How a tuple is handled on which an operator fails.

    STOP: the application fails. SKIP: the tuple is left out. RETRY: the tuple is tried again.

    Example:
        >>> from ridgeline import Application, OnError
        >>> from ridgeline.operators import Map
        >>> app = Application("numbers")
        >>> parse = app.add_operator("parse", Map(int, schema=object), on_error=OnError.SKIP)
    """

    STOP = "STOP"
    SKIP = "SKIP"
    RETRY = "RETRY"


class RecordingLevel(enum.StrEnum):
    """How much is measured; the levels are named as Kafka's.

    OFF: nothing while a window runs. INFO: the usual metrics. TRACE: also those that cost more.

    Example:
        >>> from ridgeline import Application, RecordingLevel
        >>> app = Application("payments", metrics_recording_level=RecordingLevel.TRACE)
    """

    OFF = "OFF"
    INFO = "INFO"
    TRACE = "TRACE"


class Locality(enum.StrEnum):
    """Where the operators of a stream run: the first two in one container, the next two in separate ones.

    Example:
        >>> from ridgeline import Locality
        >>> Locality.THREAD_LOCAL.together, Locality.NODE_LOCAL.together
        (True, False)
    """

    THREAD_LOCAL = "THREAD_LOCAL"
    CONTAINER_LOCAL = "CONTAINER_LOCAL"
    NODE_LOCAL = "NODE_LOCAL"
    RACK_LOCAL = "RACK_LOCAL"

    @property
    def together(self) -> bool:
        """True if the operators must share a container."""
        return self in (Locality.THREAD_LOCAL, Locality.CONTAINER_LOCAL)


LocalityName: TypeAlias = Literal["THREAD_LOCAL", "CONTAINER_LOCAL", "NODE_LOCAL", "RACK_LOCAL"]
ModeName: TypeAlias = Literal["AT_LEAST_ONCE", "EXACTLY_ONCE", "AT_MOST_ONCE"]
OnErrorName: TypeAlias = Literal["STOP", "SKIP", "RETRY"]


@dataclass(frozen=True, slots=True)
class About:
    """What an annotation says of an attribute beside the type, as of `Attribute`."""

    default: Any = None
    minimum: float | None = None
    maximum: int = 2**31 - 1


class _OfAll(TypedDict, total=False):
    """Attributes of operators and unifiers, for which the application may say a default.

    Args:
        timeout_window_count: windows, or 60 s if that is more, without its end of a window and with no slot
            at work
        recovery_attempts: how often a window that failed is started again before the application fails
        memory_mb: memory of a partition's Python process in MB, which its slot asks the cluster for; with
            dynamic allocation only
        vcores: cores that its slot takes on a cluster, for operators with threads of their own; default: 1
    """

    timeout_window_count: Annotated[int, About(default=120, minimum=1)]
    recovery_attempts: Annotated[int, About(default=3, minimum=0)]
    memory_mb: Annotated[int | None, About(minimum=1)]
    vcores: Annotated[int | None, About(minimum=1, maximum=1024)]


class _OfEach(TypedDict, total=False):
    """Attributes of operators and unifiers.

    Args:
        application_window_count: streaming windows that the operator sees as one
        application_window: the same as a duration, a multiple of the application's window; in place of
            `application_window_count`
        gpus: GPUs of a partition, which its slot takes on a cluster
    """

    application_window_count: Annotated[int, About(default=1, minimum=1)]
    application_window: float | str | None
    gpus: Annotated[int | None, About(minimum=1, maximum=1024)]


class _OfOperators(TypedDict, total=False):
    """Attributes of operators, for which the application may say a default.

    Args:
        processing_mode: what happens to a window in which it fails
        on_error: a tuple on which it fails: STOP (tried twice), SKIP it, or RETRY it
        callback_timeout: seconds without a tuple in or out after which a callback is stuck; default: never
        time_ahead_limit: of input operators: seconds by which a record's time may be ahead of the clock and
            still move the watermark; default: a day
        error_tuples_kept: how many tuples of error ports are kept per window and shown
        speculation: quantile, such as 0.9, of the past times of a slot with it. One that takes longer for a
            window than `speculation_multiplier` times that gives its containers to a spare slot, which takes
            one more core; default: never
        unifier_limit: greatest number of partitions that one unifier merges; more make a cascade; several
            numbers: one for each level
    """

    processing_mode: Annotated[ProcessingMode | ModeName, About(default=ProcessingMode.AT_LEAST_ONCE)]
    on_error: Annotated[OnError | OnErrorName, About(default=OnError.STOP)]
    callback_timeout: float | str | None
    time_ahead_limit: Annotated[float | str, About(default=86_400.0)]
    error_tuples_kept: Annotated[int, About(default=0, minimum=0)]
    speculation: Annotated[float | None, About(minimum=0.5, maximum=1)]
    unifier_limit: Annotated[int | Sequence[int] | None, About(minimum=2)]


class _Divided(TypedDict, total=False):
    """Attributes that divide an operator, which are listed first.

    Args:
        partitions: number of instances of the operator
        partitioner: who gets which tuples; default: sticky by key on every connected port that has one
    """

    partitions: Annotated[int, About(default=1, minimum=1, maximum=2**16)]
    partitioner: Partitioner | None


class OperatorAttributes(_Divided, _OfEach, _OfOperators, _OfAll, total=False):
    """Attributes of one operator: `add_operator("sum", Sum(), partitions=2)`.

    Example:
        >>> scaled: OperatorAttributes = {"partitions": 2, "callback_timeout": "5s"}

    Args:
        slide_by_window_count: streaming windows by which the application window slides, a divisor of
            `application_window_count`; default: application windows do not overlap
        keep_state: false, with AT_MOST_ONCE: its state is not committed; after an outage it begins anew, and
            a window that is made again passes it by
        locality_host: the host where its partitions run if Spark can start them there, as Spark names it; an
            `AffinityRule(..., hosts=[...])` is strict
        locality_rack: as `locality_host`, any host of this rack; where Hadoop names racks, as on YARN
        partition_parallel: partitions follow the upstream operator's, one to one, without a shuffle; of an
            operator: at all its input ports
    """

    slide_by_window_count: Annotated[int | None, About(minimum=1)]
    keep_state: Annotated[bool, About(default=True)]
    locality_host: str | None
    locality_rack: str | None
    partition_parallel: Annotated[bool, About(default=False)]


class ApplicationAttributes(_OfOperators, _OfAll, total=False):
    """Attributes of an application: `Application("payments", heartbeat_timeout="1m")`.

    Example:
        >>> patient: ApplicationAttributes = {"heartbeat_timeout": "1m", "windows_kept": 10}

    Args:
        containers_max_count: the most slots, each a process in which containers live; default: one a
            container, as far as there are cores
        doc_link: where the application is described; shown in plans and over REST
        data_link: where its results are seen; shown in plans and over REST
        snapshot_interval: deltas of an operator's state before they are merged, beside the windows; default:
            16, up to 256 where they come within a second
        windows_kept: committed windows whose manifests and state are kept before they are purged
        windows_in_flight: windows that may be under way at the same time; with 2 or 1 records get to sinks
            sooner, in fewer windows a second
        window_work: seconds of work that a window has at most while inputs are behind. What is more waits for
            the next one; an hour or more: no bound; default: the width of windows, half a second at least
        speculation_multiplier: so many times the quantile that `speculation` says, and 100 ms at least, a
            window may take
        heartbeat_interval: seconds between a container's messages in a long window; with more than 2,000
            slots they come less often
        heartbeat_timeout: seconds without a heartbeat after which a container counts as silent
        throughput_calculation_interval: seconds over which tuples per second are averaged
        stats_max_allowable_windows_lag: windows after which an operator's latency is taken from its lag
        ages_from_newest_record: record ages are less that of the newest record that the window has read: for
            a replay of old data
        metrics_recording_level: how much is measured: OFF, INFO or TRACE
        stream_codec: what makes bytes of tuples on their way to input ports, in place of Arrow; its `hash` is
            not used
    """

    containers_max_count: Annotated[int | None, About(minimum=1)]
    doc_link: str | None
    data_link: str | None
    snapshot_interval: Annotated[int | None, About(minimum=1)]
    windows_kept: Annotated[int, About(default=5, minimum=1)]
    windows_in_flight: Annotated[int, About(default=4, minimum=1, maximum=64)]
    window_work: float | str | None
    speculation_multiplier: Annotated[float, About(default=1.5, minimum=1, maximum=1000)]
    heartbeat_interval: Annotated[float | str, About(default=1.0)]
    heartbeat_timeout: Annotated[float | str, About(default=30.0)]
    throughput_calculation_interval: Annotated[float | str, About(default=10.0)]
    stats_max_allowable_windows_lag: Annotated[int, About(default=1000, minimum=10)]
    ages_from_newest_record: Annotated[bool, About(default=False)]
    metrics_recording_level: Annotated[
        RecordingLevel | Literal["OFF", "INFO", "TRACE"], About(default=RecordingLevel.INFO)
    ]
    stream_codec: StreamCodec | None


class InputPortAttributes(TypedDict, total=False):
    """Attributes of an input port: `app.set_attribute(sum.data, partition_parallel=True)`.

    Example:
        >>> side_by_side: InputPortAttributes = {"partition_parallel": True}

    Args:
        unifier_single_final: one unifier for all partitions downstream, in place of one for each. Of an input
            port: for its operator, whatever the output port says; default: false
        queue_capacity: no further window begins while so many tuples wait at the port, sent by other
            containers; default: `windows_in_flight` alone bounds them
    """

    unifier_single_final: bool | None
    stream_codec: StreamCodec | None
    partition_parallel: Annotated[bool, About(default=False)]
    queue_capacity: Annotated[int | None, About(minimum=1)]


class OutputPortAttributes(TypedDict, total=False):
    """Attributes of an output port: `app.set_attribute(sum.total, unifier_limit=4)`.

    Example:
        >>> cascade: OutputPortAttributes = {"unifier_limit": 4}

    Args:
        buffer_memory_mb: no further window begins while so many MB wait that the containers of the port have
            sent to others; default: `windows_in_flight` alone bounds them
    """

    unifier_limit: Annotated[int | Sequence[int] | None, About(minimum=2)]
    unifier_single_final: bool | None
    buffer_memory_mb: Annotated[int | None, About(minimum=1, maximum=2**20)]


class UnifierAttributes(_OfEach, _OfAll, total=False):
    """Attributes of a port's unifiers: `app.set_attribute(sum.total, unifier=True, vcores=2)`.

    Example:
        >>> large: UnifierAttributes = {"memory_mb": 2048}
    """


class StreamAttributes(TypedDict, total=False):
    """Attributes of a stream: `app.set_attribute(words, locality="CONTAINER_LOCAL")`.

    Example:
        >>> together: StreamAttributes = {"locality": "CONTAINER_LOCAL"}

    Args:
        locality: where the operators of the stream run: in one container, or in separate ones. On Spark those
            share a host or rack; default: the planner decides
    """

    locality: Locality | LocalityName | None


def _kind(hint: Any) -> tuple[type, bool]:
    """The type of an attribute's values by its annotation, and whether it takes several."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    classes = [one for one in parts if isinstance(one, type) and one is not type(None)]
    several = any(get_origin(one) is Sequence for one in parts)
    return (Real if classes[0] is float and str not in classes else classes[0]), several


_OF = {
    Scope.OPERATOR: OperatorAttributes,
    Scope.INPUT_PORT: InputPortAttributes,
    Scope.OUTPUT_PORT: OutputPortAttributes,
    Scope.UNIFIER: UnifierAttributes,
    Scope.STREAM: StreamAttributes,
    Scope.APPLICATION: ApplicationAttributes,
}
_HINTS = {scope: get_type_hints(kind, include_extras=True) for scope, kind in _OF.items()}
_HELP = {
    name: said.text
    for kind in (_OfAll, _OfEach, _OfOperators, _Divided, *_OF.values())
    for name, said in documented(kind)[1].items()
}


def _attribute(name: str) -> Attribute:
    scopes = [scope for scope, hints in _HINTS.items() if name in hints]
    hint, about = _HINTS[scopes[0]][name], About()
    if get_origin(hint) is Annotated:
        hint, about = get_args(hint)
    kind, several = _kind(hint)
    limits = about.minimum, about.maximum
    text = _HELP.get(name, "")  # Python has no docstrings with `-OO`
    return Attribute(name, frozenset(scopes), kind, about.default, text, *limits, several)


ATTRIBUTES: Mapping[str, Attribute] = {
    name: _attribute(name) for name in dict.fromkeys(name for hints in _HINTS.values() for name in hints)
}
"""All attributes, by name."""


def attributes_of(scope: Scope) -> Mapping[str, Attribute]:
    """The attributes of a scope, by name.

    Example:
        >>> list(attributes_of(Scope.STREAM))
        ['locality']
    """
    return _BY_SCOPE[scope]


_BY_SCOPE = {scope: {name: ATTRIBUTES[name] for name in hints} for scope, hints in _HINTS.items()}
"""The attributes of each scope, by name."""
APPLICATION_ATTRIBUTES = attributes_of(Scope.APPLICATION)

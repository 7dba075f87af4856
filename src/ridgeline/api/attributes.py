"""Attributes: what belongs to the platform, not to the operator's function.

The one list of names, scopes, types, defaults and rules.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from numbers import Real

from ridgeline.api.codec import StreamCodec
from ridgeline.api.partitioner import Partitioner
from ridgeline.api.support.attribute import Attribute, Scope


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


def _scopes(*scopes: Scope) -> frozenset[Scope]:
    return frozenset(scopes)


_APPLICATION = _scopes(Scope.APPLICATION)
_OPERATOR = _scopes(Scope.OPERATOR)
_OPERATORS = _scopes(Scope.APPLICATION, Scope.OPERATOR)
_ALSO_UNIFIERS = _scopes(Scope.OPERATOR, Scope.UNIFIER)
_OPERATORS_AND_UNIFIERS = _scopes(Scope.APPLICATION, Scope.OPERATOR, Scope.UNIFIER)

_ALL = (
    Attribute("partitions", _OPERATOR, int, 1, "number of instances of the operator", 1, 2**16),
    Attribute(
        "partitioner",
        _OPERATOR,
        Partitioner,
        None,
        "who gets which tuples; default: sticky by key on every connected port that has one",
    ),
    Attribute(
        "application_window_count",
        _ALSO_UNIFIERS,
        int,
        1,
        "streaming windows that the operator sees as one",
        1,
    ),
    Attribute(
        "application_window",
        _ALSO_UNIFIERS,
        float,
        None,
        "the same as a duration, a multiple of the application's window; in place of "
        "`application_window_count`",
    ),
    Attribute(
        "slide_by_window_count",
        _OPERATOR,
        int,
        None,
        "streaming windows by which the application window slides, a divisor of `application_window_count`; "
        "default: application windows do not overlap",
        1,
    ),
    Attribute(
        "processing_mode",
        _OPERATORS,
        ProcessingMode,
        ProcessingMode.AT_LEAST_ONCE,
        "what happens to a window in which it fails",
    ),
    Attribute(
        "keep_state",
        _OPERATOR,
        bool,
        default=True,
        help="false, with AT_MOST_ONCE: its state is not committed; after an outage it begins anew, and a "
        "window that is made again passes it by",
    ),
    Attribute(
        "on_error",
        _OPERATORS,
        OnError,
        OnError.STOP,
        "a tuple on which it fails: STOP (tried twice), SKIP it, or RETRY it",
    ),
    Attribute(
        "callback_timeout",
        _OPERATORS,
        float,
        None,
        "seconds without a tuple in or out after which a callback is stuck; default: never",
    ),
    Attribute(
        "timeout_window_count",
        _OPERATORS_AND_UNIFIERS,
        int,
        120,
        "windows, or 60 s if that is more, without its end of a window and with no slot at work",
        1,
    ),
    Attribute(
        "recovery_attempts",
        _OPERATORS_AND_UNIFIERS,
        int,
        3,
        "how often a window that failed is started again before the application fails",
        0,
    ),
    Attribute(
        "unifier_limit",
        _scopes(Scope.APPLICATION, Scope.OPERATOR, Scope.OUTPUT_PORT),
        int,
        None,
        "greatest number of partitions that one unifier merges; more make a cascade; "
        "several numbers: one for each level",
        2,
        several=True,
    ),
    Attribute(
        "unifier_single_final",
        _scopes(Scope.INPUT_PORT, Scope.OUTPUT_PORT),
        bool,
        None,
        "one unifier for all partitions downstream, in place of one for each; of an input port: for its "
        "operator, whatever the output port says; default: false",
    ),
    Attribute(
        "stream_codec",
        _scopes(Scope.APPLICATION, Scope.INPUT_PORT),
        StreamCodec,
        None,
        "what makes bytes of tuples on their way to input ports, in place of Arrow; its `hash` is not used",
    ),
    Attribute(
        "partition_parallel",
        _scopes(Scope.OPERATOR, Scope.INPUT_PORT),
        bool,
        default=False,
        help="partitions follow the upstream operator's, one to one, without a shuffle; "
        "of an operator: at all its input ports",
    ),
    Attribute(
        "queue_capacity",
        _scopes(Scope.INPUT_PORT),
        int,
        None,
        "no further window begins while so many tuples wait at the port, sent by other containers; "
        "default: `windows_in_flight` alone bounds them",
        1,
    ),
    Attribute(
        "buffer_memory_mb",
        _scopes(Scope.OUTPUT_PORT),
        int,
        None,
        "no further window begins while so many MB wait that the containers of the port have sent "
        "to others; default: `windows_in_flight` alone bounds them",
        1,
        2**20,
    ),
    Attribute(
        "time_ahead_limit",
        _OPERATORS,
        float,
        365 * 86_400.0,
        "of input operators: seconds by which a record's time may be ahead of the clock and still move the "
        "watermark; default: a year",
    ),
    Attribute(
        "error_tuples_kept",
        _OPERATORS,
        int,
        0,
        "how many tuples of error ports are kept per window and shown",
        0,
    ),
    Attribute(
        "memory_mb",
        _OPERATORS_AND_UNIFIERS,
        int,
        None,
        "memory of a partition's Python process in MB, which its slot asks the cluster for; "
        "with dynamic allocation only",
        1,
    ),
    Attribute(
        "vcores",
        _OPERATORS_AND_UNIFIERS,
        int,
        None,
        "cores that its slot takes on a cluster, for operators with threads of their own; default: 1",
        1,
        1024,
    ),
    Attribute(
        "gpus",
        _ALSO_UNIFIERS,
        int,
        None,
        "GPUs of a partition, which its slot takes on a cluster",
        1,
        1024,
    ),
    Attribute(
        "locality_host",
        _OPERATOR,
        str,
        None,
        "the host where its partitions run if Spark can start them there, as Spark names it; "
        "an `AffinityRule(..., hosts=[...])` is strict",
    ),
    Attribute(
        "locality_rack",
        _OPERATOR,
        str,
        None,
        "as `locality_host`, any host of this rack; where Hadoop names racks, as on YARN",
    ),
    Attribute(
        "locality",
        _scopes(Scope.STREAM),
        Locality,
        None,
        "where the operators of the stream run: in one container, or in separate ones, which on Spark share "
        "a host or rack; default: the planner decides",
    ),
    Attribute(
        "containers_max_count",
        _APPLICATION,
        int,
        None,
        "the most slots, each a process in which containers live; default: one a container, as far "
        "as there are cores",
        1,
    ),
    Attribute(
        "doc_link",
        _APPLICATION,
        str,
        None,
        "where the application is described; shown in plans and over REST",
    ),
    Attribute(
        "data_link", _APPLICATION, str, None, "where its results are seen; shown in plans and over REST"
    ),
    Attribute(
        "snapshot_interval",
        _APPLICATION,
        int,
        None,
        "deltas of an operator's state before they are merged, beside the windows; "
        "default: 16, up to 256 where they come within a second",
        1,
    ),
    Attribute(
        "windows_kept",
        _APPLICATION,
        int,
        5,
        "committed windows whose manifests and state are kept before they are purged",
        1,
    ),
    Attribute(
        "windows_in_flight",
        _APPLICATION,
        int,
        4,
        "windows that may be under way at the same time; with 2 or 1 records get to sinks sooner, "
        "in fewer windows a second",
        1,
        64,
    ),
    Attribute(
        "window_work",
        _APPLICATION,
        float,
        None,
        "seconds of work that a window has at most while inputs are behind: what is more waits for the next "
        "one; an hour or more: no bound; default: the width of windows, half a second at least",
    ),
    Attribute(
        "speculation",
        _OPERATORS,
        Real,
        None,
        "a slot with it that takes longer for a window than `speculation_multiplier` times this quantile "
        "of its own past, such as 0.9, gives its containers to a spare slot, which takes one more core; "
        "default: never",
        0.5,
        1,
    ),
    Attribute(
        "speculation_multiplier",
        _APPLICATION,
        Real,
        1.5,
        "so many times the quantile that `speculation` says, and 100 ms at least, a window may take",
        1,
        1000,
    ),
    Attribute(
        "heartbeat_interval",
        _APPLICATION,
        float,
        1.0,
        "seconds between a container's messages in a long window; "
        "with more than 2,000 slots they come less often",
    ),
    Attribute(
        "heartbeat_timeout",
        _APPLICATION,
        float,
        30.0,
        "seconds without a heartbeat after which a container counts as silent",
    ),
    Attribute(
        "throughput_calculation_interval",
        _APPLICATION,
        float,
        10.0,
        "seconds over which tuples per second are averaged",
    ),
    Attribute(
        "stats_max_allowable_windows_lag",
        _APPLICATION,
        int,
        1000,
        "windows after which an operator's latency is taken from its lag",
        10,
    ),
    Attribute(
        "ages_from_newest_record",
        _APPLICATION,
        bool,
        False,  # noqa: FBT003  the default
        "record ages are less that of the newest record that the window has read: for a replay of old data",
    ),
    Attribute(
        "metrics_recording_level",
        _APPLICATION,
        RecordingLevel,
        RecordingLevel.INFO,
        "how much is measured: OFF, INFO or TRACE",
    ),
)
ATTRIBUTES: Mapping[str, Attribute] = {attribute.name: attribute for attribute in _ALL}
"""All attributes, by name."""


def attributes_of(scope: Scope) -> Mapping[str, Attribute]:
    """The attributes of a scope, by name.

    Example:
        >>> list(attributes_of(Scope.STREAM))
        ['locality']
    """
    return _BY_SCOPE[scope]


_BY_SCOPE = {
    scope: {name: attribute for name, attribute in ATTRIBUTES.items() if scope in attribute.scopes}
    for scope in Scope
}
"""The attributes of each scope, by name."""
OPERATOR_ATTRIBUTES = attributes_of(Scope.OPERATOR)
APPLICATION_ATTRIBUTES = attributes_of(Scope.APPLICATION)

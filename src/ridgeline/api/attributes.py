"""Attributes: what belongs to the platform, not to the operator's function.

The one list of names, types, defaults and rules.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ridgeline.api.duration import parse_duration
from ridgeline.api.errors import did_you_mean
from ridgeline.api.partitioner import Partitioner

_LEAST_SECONDS = 0.001
MOST_SECONDS = 365 * 86_400.0
"""The longest duration that an attribute may have; threads and clocks cannot wait for much longer."""


class ProcessingMode(enum.StrEnum):
    """What happens to a window in which an operator fails.

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
    """What happens to a tuple on which an operator fails.

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

    OFF: nothing while a window runs. INFO: what everybody needs. TRACE: also what costs more.

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


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute.

    `scope`: `operator` or `application`. `kind`: its type. `minimum` and `maximum`: the numbers allowed.

    Attributes of kind `float` are durations in seconds, from a millisecond to a year. They are given as a
    number or a text such as "500ms".
    """

    name: str
    scope: str
    kind: type
    default: Any
    help: str
    minimum: int | None = None
    maximum: int = 2**31 - 1

    def check(self, value: object) -> tuple[object, str | None]:
        """Return the value in the attribute's type and None, or unchanged and the rule that it breaks."""
        if value is None and self.default is None:
            return None, None
        if self.kind is Partitioner:
            return value, None if isinstance(value, Partitioner) else "must be a `Partitioner`"
        if issubclass(self.kind, enum.Enum):
            names = [member.name for member in self.kind]
            name = getattr(value, "name", str(value)).upper()
            return (self.kind[name], None) if name in names else (value, f"must be one of {', '.join(names)}")
        if self.kind is bool:
            text = str(value).lower()
            return (text == "true", None) if text in ("true", "false") else (value, "must be true or false")
        return _check_duration(value) if self.kind is float else self._check_number(value)

    def _check_number(self, value: Any) -> tuple[object, str | None]:
        """`check` of a whole number: an int, an object that can be an index, or a text of digits."""
        try:
            number = int(value) if isinstance(value, str) else operator.index(value)
        except (TypeError, ValueError):
            number = None
        if number is None or isinstance(value, bool):
            return value, "must be a whole number"
        if self.minimum is not None and number < self.minimum:
            return value, f"must be at least {self.minimum}"
        if number > self.maximum:
            return value, f"must be at most {self.maximum}"
        return number, None


def _check_duration(value: object) -> tuple[object, str | None]:
    """`Attribute.check` of a duration; returns seconds."""
    try:
        seconds = parse_duration(value)
    except ValueError:
        seconds = 0.0
    if not seconds:
        return value, 'must be a number of seconds above 0, or a text such as "500ms", "1s" or "5m"'
    return (
        (seconds, None)
        if _LEAST_SECONDS <= seconds <= MOST_SECONDS
        else (value, "must be at least 1 ms and at most 8760 h, which is a year")
    )


_ALL = (
    Attribute("partitions", "operator", int, 1, "number of instances of the operator", 1, 2**16),
    Attribute(
        "partitioner",
        "operator",
        Partitioner,
        None,
        "who gets which tuples; default: sticky by key on every connected port that has one",
    ),
    Attribute(
        "application_window_count", "operator", int, 1, "streaming windows that the operator sees as one", 1
    ),
    Attribute(
        "processing_mode",
        "operator",
        ProcessingMode,
        ProcessingMode.AT_LEAST_ONCE,
        "what happens to a window in which it fails",
    ),
    Attribute(
        "on_error",
        "operator",
        OnError,
        OnError.STOP,
        "a tuple on which it fails: STOP (tried twice), SKIP it, or RETRY it",
    ),
    Attribute(
        "callback_timeout",
        "operator",
        float,
        None,
        "seconds without a tuple in or out after which a callback is stuck; default: never",
    ),
    Attribute(
        "timeout_window_count",
        "operator",
        int,
        120,
        "in slots: windows, or 60 s if that is more, without its end of a window after which it is stuck",
        1,
    ),
    Attribute(
        "recovery_attempts",
        "operator",
        int,
        3,
        "how often a window that failed is started again before the application fails",
        0,
    ),
    Attribute(
        "unifier_limit",
        "operator",
        int,
        None,
        "greatest number of partitions that one unifier merges; more make a cascade",
        2,
    ),
    Attribute(
        "partition_parallel",
        "operator",
        bool,
        default=False,
        help="partitions follow the upstream operator's, one to one, without a shuffle",
    ),
    Attribute(
        "error_tuples_kept",
        "operator",
        int,
        0,
        "how many tuples of error ports are kept per window and shown",
        0,
    ),
    Attribute(
        "memory_mb",
        "operator",
        int,
        None,
        "memory of a partition's Python process in MB, which its slot asks the cluster for; "
        "with dynamic allocation only",
        1,
    ),
    Attribute(
        "vcores",
        "operator",
        int,
        None,
        "cores that its slot takes on a cluster, for operators with threads of their own; default: 1",
        1,
        1024,
    ),
    Attribute(
        "gpus", "operator", int, None, "GPUs of a partition, which its slot takes on a cluster", 1, 1024
    ),
    Attribute(
        "snapshot_interval",
        "application",
        int,
        None,
        "deltas of an operator's state before they are merged, beside the windows; "
        "default: 16, up to 256 where they come within a second",
        1,
    ),
    Attribute(
        "windows_kept",
        "application",
        int,
        5,
        "committed windows whose manifests and state are kept before they are purged",
        1,
    ),
    Attribute(
        "windows_in_flight",
        "application",
        int,
        4,
        "windows that may be under way at the same time, where containers live in slots",
        1,
        64,
    ),
    Attribute(
        "heartbeat_interval",
        "application",
        float,
        1.0,
        "seconds between a container's messages in a long window",
    ),
    Attribute(
        "heartbeat_timeout",
        "application",
        float,
        30.0,
        "seconds without a heartbeat after which a container counts as silent",
    ),
    Attribute(
        "throughput_calculation_interval",
        "application",
        float,
        10.0,
        "seconds over which tuples per second are averaged",
    ),
    Attribute(
        "stats_max_allowable_windows_lag",
        "application",
        int,
        1000,
        "windows after which an operator's latency is taken from its lag",
        10,
    ),
    Attribute(
        "metrics_recording_level",
        "application",
        RecordingLevel,
        RecordingLevel.INFO,
        "how much is measured: OFF, INFO or TRACE",
    ),
)
OPERATOR_ATTRIBUTES: Mapping[str, Attribute] = {
    attribute.name: attribute for attribute in _ALL if attribute.scope == "operator"
}
APPLICATION_ATTRIBUTES: Mapping[str, Attribute] = {
    attribute.name: attribute for attribute in _ALL if attribute.scope == "application"
}
_ELSEWHERE = {
    "checkpoint_window_count": "every window is a checkpoint here; leave it out",
    "locality": "locality belongs to a stream: `add_stream(..., locality=...)`",
    "stateless": "an operator without declared state is stateless; leave it out",
    "window": 'the streaming window is the application\'s: `Application(name, window="1s")`',
}


def unknown_attribute(name: str, known: Mapping[str, Attribute]) -> str:
    """The remedy for an attribute that does not exist."""
    return _ELSEWHERE.get(name) or did_you_mean(name, known)

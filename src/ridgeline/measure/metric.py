"""The description of a metric of the registry."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "ridgeline_"


class Kind(StrEnum):
    """The kind of a metric.

    `info`: a gauge that is 1 and says all with its labels; `state`: a gauge, 1 for the state that holds, else
    0.
    """

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    `name` is without `PREFIX`, `labels` are those besides `application`. `unit` is the base unit, empty for
    what is only counted by its name. `advice` says what to do about it. `aliases` are the names that users of
    other products know. `bounds` are the upper bounds of a histogram, in the metric's unit; `states` the
    values that the last label of a `state` takes.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    help: str
    advice: str
    aliases: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    states: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name in `/metrics`."""
        return PREFIX + self.name

    @property
    def all_labels(self) -> tuple[str, ...]:
        """All label names, in the order of their values."""
        return ("application", *self.labels)


# fmt: off
LATENCY_BOUNDS_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
    300.0, 600.0,
)
# fmt: on
"""Upper bounds, inclusive, of the latency histograms: 1 ms to 10 minutes."""
VERDICTS = (
    "keeping up",
    "paced",
    "catching up",
    "holding",
    "settling",
    "falling behind",
    "stuck",
    "unreachable",
    "unknown",
)
STATES = ("RUNNING", "PAUSED", "FINISHED", "STOPPED", "FAILED")
CHANGE_STATES = ("QUEUED", "APPLIED", "REFUSED", "WITHDRAWN")
OPERATOR = ("operator", "partition")
"""The labels of a physical operator."""

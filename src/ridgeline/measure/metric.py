"""The description of a metric of the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from ridgeline.measure.age.histogram import Distribution
from ridgeline.measure.progress.verdict import Verdict

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


Labels: TypeAlias = tuple[str, ...]


Value: TypeAlias = float | Distribution | None
"""None: not known."""
Labelled: TypeAlias = Iterable[tuple[Labels, Value]]
"""The values of a metric's labels but `application`, and the value."""
_KINDS = {"total": Kind.COUNTER, "info": Kind.INFO}
_UNITS = frozenset({"seconds", "bytes", "records", "windows", "tasks"})


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    `name` is without `PREFIX`; it ends in `_total` of a counter, in `_info` of an info, and has the unit as a
    word. `labels` are those besides `application`. `advice` says what to do about it. `aliases` are the names
    that users of other products know. `bounds` are the upper bounds of a histogram, in the metric's unit;
    `states` the values that the last label of a `state` takes. `read` takes the values from a `Scrape`, once
    the application is planned.
    """

    name: str
    help: str
    advice: str
    labels: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    states: tuple[str, ...] = ()
    read: Callable[[Any], Labelled] = lambda _: ()

    @property
    def kind(self) -> Kind:
        """As its name and its fields say."""
        if self.bounds or self.states:
            return Kind.HISTOGRAM if self.bounds else Kind.STATE
        return _KINDS.get(self.name.rpartition("_")[2], Kind.GAUGE)

    @property
    def unit(self) -> str:
        """The base unit, the last one in its name; empty if it is only counted."""
        return next((word for word in reversed(self.name.split("_")) if word in _UNITS), "")

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
VERDICTS = tuple(one.value for one in Verdict)
STATES = ("RUNNING", "PAUSED", "FINISHED", "STOPPED", "FAILED")
CHANGE_STATES = ("QUEUED", "APPLIED", "REFUSED", "WITHDRAWN")
OPERATOR = ("operator", "partition")
"""The labels of a physical operator."""


def operator_labels(title: str, partition: int) -> Labels:
    """The labels `operator` and `partition` of a physical operator."""
    return title.removesuffix(f"[{partition}]"), str(partition)

"""One moment of a run, from which the values of operators and containers are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ridgeline.measure.progress.throughput import Rates, Totals
from ridgeline.measure.status import ContainerStatus, OperatorStatus

RUNNING = {"waiting": "WAITING", "running": "ACTIVE", "done": "DONE"}
"""The status of an operator in a running window, by the state that heartbeats report."""


@dataclass(frozen=True, slots=True)
class Moment:
    """State that the answers of one moment share, by operator id.

    `latencies`: the rows of `LatencyFold.latency`. `behind`: windows behind. `tuples`: in sum, and per
    second. `states`: those of the running window, as far as containers have reported. `silent`: ids of
    containers.
    """

    now: float
    over: bool
    current_window: int | None
    latencies: Mapping[int, Mapping[str, object]] = field(default_factory=dict)
    behind: Mapping[int, int] = field(default_factory=dict)
    tuples: Mapping[int, tuple[Totals, Rates]] = field(default_factory=dict)
    states: Mapping[int, str] = field(default_factory=dict)
    silent: frozenset[int] = frozenset()


@dataclass(frozen=True)
class OperatorMoment:
    """One physical operator at a moment."""

    status: OperatorStatus
    container: ContainerStatus
    moment: Moment

    @property
    def current_window(self) -> int | None:
        """The window that it works on, or its last one."""
        running = self.moment.states.get(self.status.node.id) in RUNNING
        return self.moment.current_window if running else self.status.last_window

    @cached_property
    def latency(self) -> Mapping[str, object]:
        """Its row of `/latency`; empty before its first window."""
        return self.moment.latencies.get(self.status.node.id, {})

    @property
    def totals(self) -> Totals:
        """Its tuples since the start."""
        return self.moment.tuples[self.status.node.id][0]

    @property
    def rates(self) -> Rates:
        """Its tuples per second."""
        return self.moment.tuples[self.status.node.id][1]

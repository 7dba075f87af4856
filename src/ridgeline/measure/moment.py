"""One moment of a run, from which the values of operators and containers are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ridgeline.measure.progress.averages import Lately
from ridgeline.measure.progress.columns import Doing
from ridgeline.measure.progress.throughput import Throughput, Tuples
from ridgeline.measure.status import ContainerStatus, OperatorStatus

RUNNING = {"waiting": "WAITING", "running": "ACTIVE", "done": "DONE"}
"""The status of an operator in a running window, by the state that heartbeats report."""


@dataclass(frozen=True, slots=True)
class Moment:
    """State that the answers of one moment share.

    `latencies`: the rows of `LatencyFold.latency`, and `behind`: windows behind, both by operator id.
    `doing`: the states of the running window, as far as containers have reported.
    """

    now: float
    over: bool
    current_window: int | None
    latencies: Mapping[int, Mapping[str, object]]
    behind: Mapping[int, int]
    throughput: Throughput
    lately: Lately
    doing: Doing


@dataclass(frozen=True)
class OperatorMoment:
    """One physical operator at a moment."""

    status: OperatorStatus
    container: ContainerStatus
    moment: Moment

    @property
    def current_window(self) -> int | None:
        """The window that it works on, or its last one."""
        running = self.moment.doing.states.get(self.status.node.id) in RUNNING
        return self.moment.current_window if running else self.status.last_window

    @cached_property
    def latency(self) -> Mapping[str, object]:
        """Its row of `/latency`; empty before its first window."""
        return self.moment.latencies.get(self.status.node.id, {})

    @cached_property
    def totals(self) -> Tuples:
        """Its tuples since the start."""
        return self.moment.throughput.totals(self.status.node.id)

    @cached_property
    def rates(self) -> Tuples:
        """Its tuples per second."""
        return self.moment.throughput.rates(self.status.node.id, self.moment.now)

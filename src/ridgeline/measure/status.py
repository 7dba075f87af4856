"""What operators and containers are doing and have done: Apex's figures that are no times."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

from ridgeline.measure.events import (
    ContainerHeartbeat,
    ContainerWindow,
    OperatorWindow,
    WatermarkReading,
    WindowRetried,
)
from ridgeline.measure.topology import OperatorNode, Topology

AVERAGE_WINDOWS = 10
"""Windows that moving averages are over, as Apex's."""
_FAILED = re.compile(r"operator `([^`]*)` \(partition (\d+)\) of application ")  # how a failure's text begins


@dataclass(slots=True)
class OperatorStatus:
    """One physical operator, as of its last committed window. `last_window` is None before the first."""

    node: OperatorNode
    last_window: int | None = None
    errors: int = 0
    error_tuples: tuple[str, ...] = ()
    dropped_windows: int = 0
    state_bytes: int = 0
    held_bytes: int = 0
    failures: int = 0
    finished: bool = False
    watermark: WatermarkReading | None = None
    late: int = 0
    ahead: int = 0
    _compute: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=AVERAGE_WINDOWS + 1))
    _queues: deque[int] = field(default_factory=lambda: deque(maxlen=AVERAGE_WINDOWS))

    def add(self, event: OperatorWindow) -> None:
        """Take in a committed window."""
        self.last_window = event.window_id
        self.errors += event.errors
        self.error_tuples = event.error_tuples or self.error_tuples
        self.dropped_windows += bool(event.dropped)
        self.state_bytes = event.state_bytes
        self.held_bytes = event.held_bytes
        self.finished = event.finished
        self.watermark = event.watermark or self.watermark
        self.late += event.late
        self.ahead += event.watermark.ahead if event.watermark is not None else 0
        self._compute.append((event.at, event.compute_seconds))
        self._queues.append(event.queue)

    @property
    def queue(self) -> float | None:
        """Tuples that waited when its turn came, on average over the last windows."""
        return sum(self._queues) / len(self._queues) if self._queues else None

    @property
    def cpu_percentage(self) -> float | None:
        """Compute time per wall time over the last windows, in percent; None before the second window."""
        if len(self._compute) < 2 or self._compute[-1][0] <= self._compute[0][0]:  # noqa: PLR2004  a duration has two ends
            return None
        busy = sum(seconds for _, seconds in list(self._compute)[1:])
        return 100 * busy / (self._compute[-1][0] - self._compute[0][0])


@dataclass(slots=True)
class ContainerStatus:
    """One container.

    `last_seen`: when its last heartbeat or report came. `has_heartbeat`: one came in the running attempt.
    """

    id: int
    stage: int
    host: str | None = None
    pid: int | None = None
    started: float | None = None
    last_seen: float | None = None
    last_window: int | None = None
    bytes_out: int = 0
    stack: str = ""
    has_heartbeat: bool = False

    def seen(self, at: float, host: str, pid: int) -> None:
        """Note a sign of life. A new process counts as a new start."""
        if self.started is None or (host, pid) != (self.host, self.pid):
            self.started = at
        self.host, self.pid, self.last_seen = host, pid, at


class Statuses:
    """The status of all operators and containers of the present plan."""

    def __init__(self) -> None:
        self.operators: dict[int, OperatorStatus] = {}
        self.containers: dict[int, ContainerStatus] = {}
        self.failed_containers = 0

    def planned(self, topology: Topology) -> list[int]:
        """Replace the plan.

        Returns the ids of the operators that are forgotten: those that it has not, or has given to another.
        """
        titles = {node.id: node.title for node in topology.operators}
        gone = [
            number for number, status in self.operators.items() if titles.get(number) != status.node.title
        ]
        kept = {number: status for number, status in self.operators.items() if number not in set(gone)}
        self.operators = {node.id: kept.get(node.id) or OperatorStatus(node) for node in topology.operators}
        for node in topology.operators:
            self.operators[node.id].node = node
        self.containers = {
            container: self.containers.get(container)
            or ContainerStatus(container, topology.stage_of[container])
            for container in topology.containers
        }
        for container, status in self.containers.items():
            status.stage = topology.stage_of[container]
        return gone

    def process_lost(self, host: str, pid: int) -> None:
        """A process is gone: its containers have none until another one reports."""
        for container in self.containers.values():
            if (container.host, container.pid) == (host, pid):
                container.host = container.pid = container.started = None
                container.has_heartbeat = False
                container.stack = ""

    def attempt(self) -> None:
        """An attempt at a window begins: reports of an earlier one no longer count."""
        for container in self.containers.values():
            container.has_heartbeat = False
            container.stack = ""

    def heartbeat(self, event: ContainerHeartbeat) -> None:
        """A container has sent a heartbeat."""
        container = self.containers.get(event.container)
        if container is not None:
            container.seen(event.at, event.host, event.pid)
            container.has_heartbeat = True
            container.stack = event.stack or container.stack

    def container_window(self, event: ContainerWindow) -> None:
        """A container's window is committed."""
        container = self.containers.get(event.container)
        if container is not None:
            container.seen(max(event.received, container.last_seen or 0.0), event.host, event.pid)
            container.last_window = event.window_id
            container.bytes_out += event.bytes_out
            container.has_heartbeat = False

    def operator_window(self, event: OperatorWindow) -> None:
        """An operator's window is committed."""
        operator = self.operators.get(event.operator)
        if operator is not None:
            operator.add(event)

    def retried(self, event: WindowRetried) -> None:
        """An attempt did not count."""
        if not event.final:
            self.failed(event.reason)

    def failed(self, reason: str) -> None:
        """Count a failure with the operator that its text names, if any."""
        named = _FAILED.search(reason)
        if named is None:
            return
        name, partition = named[1], int(named[2])
        for operator in self.operators.values():
            node = operator.node
            if node.name == name and node.partition == partition and not node.unifier:
                operator.failures += 1
                self.failed_containers += 1
                return

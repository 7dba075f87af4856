"""The status of operators and containers: Apex's figures that are no times."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from ridgeline.measure.clocks import ClockOffsets
from ridgeline.measure.events import (
    ContainerHeartbeat,
    ContainerWindow,
    Counts,
    OperatorWindow,
    ProcessUsage,
    WatermarkReading,
    WindowRetried,
)
from ridgeline.measure.topology import OperatorNode, Series, Topology, surplus

_SECONDS = itemgetter(1)
AVERAGE_WINDOWS = 10
"""Windows that moving averages are over, as Apex's."""
_FAILED = re.compile(r"operator `([^`]*)` \(partition (\d+)\) of application ")  # how a failure's text begins


@dataclass(slots=True)
class OperatorStatus:
    """One physical operator, as of its last committed window.

    `begun`: the last window before its first one, None if the run began with it. `counts`: sums since the
    start of the run, of all that had its label and partition, by name. `last`: None before its first window.
    `last_state_written`: when its state was last written, by STRAM's clock; None before. That took
    `last_state_seconds`, with the file of its container.
    """

    node: OperatorNode
    begun: int | None = None
    counts: Counter[str] = field(default_factory=Counter)
    last: OperatorWindow | None = None
    error_tuples: tuple[str, ...] = ()
    watermark: WatermarkReading | None = None
    last_state_written: float | None = None
    last_state_seconds: float | None = None
    _lately: deque[tuple[float, float, Counts]] = field(
        default_factory=lambda: deque(maxlen=AVERAGE_WINDOWS + 1)
    )
    """When the last windows ended, their processor seconds as far as known, and tuples by input port."""

    def add(self, event: OperatorWindow, counted: Mapping[str, Callable[[OperatorWindow], int]]) -> None:
        """Take in a committed window. `counted`: how much it adds to each of `counts`."""
        self.last = event
        self.error_tuples = event.error_tuples or self.error_tuples
        self.watermark = event.watermark or self.watermark
        for name, amount in counted.items():
            if more := amount(event):
                self.counts[name] += more
        if event.watermark is not None:
            self.counts["recordsAhead"] += event.watermark.ahead
        cpu = event.compute_seconds if event.cpu_seconds is None else event.cpu_seconds
        self._lately.append((event.at, cpu, event.tuples_in))

    def continued(self, node: OperatorNode) -> OperatorStatus:
        """The status of what takes the place of this one: not `last`, whose sizes are of this one's state."""
        return OperatorStatus(
            node, self.done, self.counts, error_tuples=self.error_tuples, watermark=self.watermark
        )

    @property
    def last_window(self) -> int | None:
        """The last window that it has completed; None before its first."""
        return None if self.last is None else self.last.window_id

    @property
    def finished(self) -> bool:
        """True if it has come to the end of its input."""
        return self.last is not None and self.last.finished

    @property
    def done(self) -> int | None:
        """The last window that it has completed, or the one before its first; None before the run's first."""
        return self.begun if self.last_window is None else self.last_window

    @property
    def queue(self) -> float | None:
        """Tuples that waited when its turn came, on average over the last windows."""
        return self._mean(lambda tuples: sum(tuples.values()))

    def queue_at(self, port: str) -> float | None:
        """As `queue`, of an input port."""
        return self._mean(lambda tuples: tuples.get(port, 0))

    def _mean(self, of_window: Callable[[Counts], int]) -> float | None:
        windows = [of_window(tuples) for _, _, tuples in self._lately][-AVERAGE_WINDOWS:]
        return sum(windows) / len(windows) if windows else None

    @property
    def cpu_percentage(self) -> float | None:
        """Processor time per wall time over the last windows, in percent; None before the second window."""
        if not self._lately or self._lately[-1][0] <= self._lately[0][0]:
            return None
        (first, before, _), *_, (last, _, _) = self._lately
        busy = sum(map(_SECONDS, self._lately)) - before  # of very many operators each time
        return 100 * busy / (last - first)


@dataclass(slots=True, eq=False)
class ContainerStatus:
    """One container.

    `last_seen`: when its last heartbeat or report came. `has_heartbeat`: one came in the running attempt.
    `usage`: of its process, as of its last heartbeat.
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
    usage: ProcessUsage | None = None

    def seen(self, at: float, host: str, pid: int) -> None:
        """Note a sign of life. A new process counts as a new start."""
        if self.started is None or (host, pid) != (self.host, self.pid):
            self.started, self.usage = at, None
        self.host, self.pid, self.last_seen = host, pid, at


class Statuses:
    """The status of all operators and containers of the present plan.

    `counted`: how much a window adds to each of an operator's `counts`, by name.
    """

    def __init__(
        self,
        counted: Mapping[str, Callable[[OperatorWindow], int]],
    ) -> None:
        self._counted = counted
        self.operators: dict[int, OperatorStatus] = {}
        self.containers: dict[int, ContainerStatus] = {}
        self.failed_containers = 0
        self._of_process: dict[tuple[str | None, int | None], set[ContainerStatus]] = {}
        """The containers of each process: heartbeats come from all processes each second."""
        self._known: dict[Series, OperatorStatus] = {}
        """Those of `operators`, and of operators that other plans had."""

    def planned(self, topology: Topology, committed: int | None = None) -> None:
        """Replace the plan. Counts go on by label and partition. `committed`: the last window that is."""
        self.operators = {}
        for node in topology.operators:
            known = self._known.get(node.series) or OperatorStatus(node, committed)
            if known.node.id != node.id:
                known = known.continued(node)
            known.node = node
            self._known[node.series] = self.operators[node.id] = known
        self.containers = {
            container: self.containers.get(container)
            or ContainerStatus(container, topology.stage_of[container])
            for container in topology.containers
        }
        self._of_process = {}
        for container, status in self.containers.items():
            status.stage = topology.stage_of[container]
            self._of_process.setdefault((status.host, status.pid), set()).add(status)

    def heartbeat_ages(self, now: float) -> list[tuple[tuple[str, ...], float | None]]:
        """The seconds since the last heartbeat of containers, by id and host."""
        containers = self.containers.values()
        ages = [None if one.last_seen is None else max(0.0, now - one.last_seen) for one in containers]
        return [((str(one.id), str(one.host)), age) for one, age in zip(containers, ages, strict=True)]

    def workers(self) -> list[tuple[tuple[str, ...], ProcessUsage]]:
        """What each process uses that runs containers and has said so, by host and process id."""
        return [
            ((str(host), str(pid)), usage)
            for (host, pid), containers in self._of_process.items()
            if (usage := next((one.usage for one in containers if one.usage is not None), None)) is not None
        ]

    def settle(self) -> None:
        """The plan has a window: bound what is kept of others."""
        present = {status.node.series for status in self.operators.values()}
        for gone in surplus(self._known, present):
            del self._known[gone]

    def process_lost(self, host: str, pid: int) -> None:
        """A process is gone: its containers have none until another one reports."""
        for container in self._of_process.pop((host, pid), ()):
            container.host = container.pid = container.started = None
            container.has_heartbeat = False
            container.stack, container.usage = "", None

    def attempt(self) -> None:
        """An attempt at a window begins: reports of an earlier one no longer count."""
        for container in self.containers.values():
            container.has_heartbeat = False
            container.stack = ""

    def heartbeat(self, event: ContainerHeartbeat) -> None:
        """A container has sent a heartbeat."""
        container = self.containers.get(event.container)
        if container is not None:
            self._seen(container, event.at, event)
            container.has_heartbeat = True
            container.stack = event.stack or container.stack

    def _seen(
        self, container: ContainerStatus, at: float, event: ContainerHeartbeat | ContainerWindow
    ) -> None:
        """A container has given a sign of life, perhaps from another process than before."""
        before, process = (container.host, container.pid), (event.host, event.pid)
        if before != process:
            others = self._of_process.get(before, set())
            others.discard(container)
            if not others:
                self._of_process.pop(before, None)
            self._of_process.setdefault(process, set()).add(container)
        container.seen(at, *process)

    def process_usage(self, event: ContainerHeartbeat) -> None:
        """A process has said what it uses; it may run several containers, or none now."""
        if event.usage is None:
            return
        for container in self._of_process.get((event.host, event.pid), ()):
            container.usage = event.usage

    def container_window(self, event: ContainerWindow) -> None:
        """A container's window is committed."""
        container = self.containers.get(event.container)
        if container is not None:
            self._seen(container, max(event.received, container.last_seen or 0.0), event)
            container.last_window = event.window_id
            container.bytes_out += event.bytes_out
            container.has_heartbeat = False

    def operator_window(self, event: OperatorWindow, clocks: ClockOffsets) -> None:
        """An operator's window is committed. After its containers, by which `clocks` are known."""
        operator = self.operators.get(event.operator)
        if operator is not None:
            operator.add(event, self._counted)
            if at := event.state_written:
                operator.last_state_written = at + clocks.offset(event.host, at)
                operator.last_state_seconds = event.state_seconds + event.write_seconds

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
                operator.counts["failureCount"] += 1
                self.failed_containers += 1
                return

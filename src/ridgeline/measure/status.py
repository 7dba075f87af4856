"""The status of operators and containers: Apex's figures that are no times."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ridgeline.measure.events import (
    OPERATORS,
    ContainerHeartbeat,
    ProcessUsage,
    WatermarkReading,
    WindowReported,
    WindowRetried,
)
from ridgeline.measure.slot_events import SlotEvent
from ridgeline.measure.topology import OperatorNode, Series, Topology, surplus

_FAILED = re.compile(r"operator `([^`]*)` \(partition (\d+)\) of application ")  # how a failure's text begins
_NEVER = -1


@dataclass(slots=True)
class OperatorStatus:
    """One physical operator, as of its last committed window.

    `row`: its row of the table of `Statuses`. `begun`: the last window before its first one, None if the run
    began with it. `counts`: sums of what is rare since the start of the run, of all that had its label and
    partition, by name.
    """

    node: OperatorNode
    row: np.void
    begun: int | None = None
    counts: Counter[str] = field(default_factory=Counter)
    error_tuples: tuple[str, ...] = ()
    watermark: WatermarkReading | None = None

    @property
    def last_window(self) -> int | None:
        """The last window that it has completed; None before its first."""
        window = int(self.row["window"])
        return None if window == _NEVER else window

    @property
    def done(self) -> int | None:
        """The last window that it has completed, or the one before its first; None before the run's first."""
        return self.begun if self.last_window is None else self.last_window


@dataclass(slots=True)
class ContainerStatus:
    """One container.

    `host`, `pid`: of the process where it runs, since `started`. `last_seen`: when its last heartbeat or
    report came. `last_window`: the last one that it has completed; None before its first. `bytes_out`: what
    it has sent to others since it is there. `has_heartbeat`: one came in the running attempt. `usage`: of its
    process, by a heartbeat.
    """

    id: int
    host: str | None = None
    pid: int | None = None
    started: float | None = None
    last_seen: float | None = None
    last_window: int | None = None
    bytes_out: int = 0
    has_heartbeat: bool = False
    stack: str = ""
    usage: ProcessUsage | None = None

    def seen(self, at: float, host: str, pid: int) -> None:
        """It has given a sign of life; from a process where it was not before, that is a new start."""
        self.last_seen = at
        if (self.host, self.pid) != (host, pid):
            self.host, self.pid, self.started, self.usage = host, pid, at, None


class Statuses:
    """The status of all operators and containers of the present plan: tables, in the plan's order.

    `kept`: columns of reports of which the last window's are kept; `summed`: those that are added up.
    """

    def __init__(self, kept: Collection[str], summed: Collection[str]) -> None:
        self._kept, self._summed = ("finished", *kept), tuple(summed)
        columns: list[tuple[str, Any]] = [(name, OPERATORS[name]) for name in (*self._kept, *self._summed)]
        states = ("written", np.float64), ("writing", np.float64)
        self._rows = np.zeros(0, [("window", np.int64), *states, *columns])
        self.operators: dict[int, OperatorStatus] = {}
        self.containers: dict[int, ContainerStatus] = {}
        self.failed_containers = 0
        self._topology = Topology((), ())
        self._known: dict[Series, OperatorStatus] = {}
        """Those of `operators`, and of operators that other plans had."""

    def planned(self, topology: Topology, committed: int | None = None) -> None:
        """Replace the plan. Counts go on by label and partition. `committed`: the last window that is."""
        self._topology = topology
        for status in self._known.values():
            status.row = status.row.copy()  # else it would keep the whole table
        self._rows = np.zeros(len(topology.operators), self._rows.dtype)
        self._rows["window"] = _NEVER
        self.operators = {}
        for place, node in enumerate(topology.operators):
            row = self._rows[place]  # a view
            known = self._known.get(node.series)
            if known is None:
                known = OperatorStatus(node, row, committed)
            elif known.node.id == node.id:
                self._rows[place] = known.row
            else:  # sizes are of the state of the one before
                known.begun = known.done
                for name in self._summed:
                    row[name] = known.row[name]
            known.node, known.row = node, row
            self._known[node.series] = self.operators[node.id] = known
        for gone in surplus(self._known, {node.series for node in topology.operators}):
            del self._known[gone]
        before = self.containers
        self.containers = {one: before.get(one) or ContainerStatus(one) for one in topology.containers}

    def _of_process(self, host: str, pid: int) -> list[ContainerStatus]:
        """The containers of a process."""
        return [one for one in self.containers.values() if (one.host, one.pid) == (host, pid)]

    def slot(self, event: SlotEvent) -> None:
        """If a process is gone, its containers have none until another one reports."""
        for container in self._of_process(event.host, event.pid) if event.kind == "lost" else ():
            container.host = container.pid = container.started = container.usage = None
            container.has_heartbeat, container.stack = False, ""

    def attempt(self) -> None:
        """An attempt at a window begins: reports of an earlier one no longer count."""
        for container in self.containers.values():
            container.has_heartbeat, container.stack = False, ""

    def heartbeat(self, event: ContainerHeartbeat) -> None:
        """A container has sent a heartbeat."""
        container = self.containers.get(event.container)
        if container is not None:
            container.seen(event.at, event.host, event.pid)
            container.has_heartbeat = True
            container.stack = event.stack or container.stack

    def process_usage(self, event: ContainerHeartbeat) -> None:
        """A process has said what it uses; it may run several containers, or none now."""
        if event.usage is not None:
            for container in self._of_process(event.host, event.pid):
                container.usage = event.usage

    def window(self, event: WindowReported) -> None:
        """A window of this plan is committed; times are on STRAM's clock."""
        names = ("container", "host", "pid", "received", "bytes_out")
        for number, host, pid, received, sent in event.containers[[*names]].tolist():
            container = self.containers[number]
            container.seen(max(received, container.last_seen or 0.0), event.hosts[host], pid)
            container.last_window, container.has_heartbeat = event.window_id, False
            container.bytes_out += sent
        own, places = event.operators, self._topology.ids.places(event.operators["operator"])
        self._rows["window"][places] = event.window_id
        for name in self._kept:
            self._rows[name][places] = own[name]
        for name in self._summed:
            self._rows[name][places] += own[name]
        wrote = own["state_written"] > 0
        if wrote.any():
            self._rows["written"][places[wrote]] = own["state_written"][wrote]
            self._rows["writing"][places[wrote]] = (own["state_seconds"] + own["write_seconds"])[wrote]
        for operator in event.dropped:
            self.operators[operator].counts["droppedWindows"] += 1
        for operator, texts in event.error_tuples.items():
            self.operators[operator].error_tuples = texts
        for operator, reading in event.watermarks.items():
            self.operators[operator].watermark = reading
            self.operators[operator].counts["recordsAhead"] += reading.ahead

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

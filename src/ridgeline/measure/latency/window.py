"""Everything known of one committed window, with all times on STRAM's clock: what latency, critical path and blame are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ridgeline.measure.clocks import ClockOffsets
from ridgeline.measure.events import (
    ContainerWindow,
    OperatorWindow,
    RunEvent,
    SparkTrigger,
    WindowCommitted,
    WindowPlanned,
)
from ridgeline.measure.topology import Topology


@dataclass(frozen=True, slots=True)
class ContainerTimes:
    """When a container did what, seconds since 1970; the fields are those of `ridgeline.measure.events.ContainerWindow`."""

    task: str
    task_began: float
    began: float
    restored: float
    ran: float
    written: float
    received: float
    host: str = ""
    sent: float = 0.0
    worker_began: float = 0.0
    daemon_began: float = 0.0

    @property
    def ended(self) -> float:
        """When its messages had been handed to Spark; who does not say is done with its state file."""
        return max(self.written, self.sent)


@dataclass(frozen=True, slots=True)
class OperatorTimes:
    """When an operator's turn came and when its window ended (EWT), seconds since 1970; durations in seconds; tuples over all ports."""

    began: float
    ended: float
    compute_seconds: float
    wait_seconds: float = 0.0
    transfer_seconds: float = 0.0
    tuples_in: int = 0
    tuples_out: int = 0
    encode_seconds: float = 0.0
    state_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """One Spark task: its containers in the order in which they ran, when it entered Python, when its first container began, its end."""

    containers: tuple[int, ...]
    entered: float
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class WindowTimes:
    """One committed window: the driver's times as in `WindowCommitted`, containers and operators by id.

    Who did not report is missing.
    """

    window_id: int
    attempts: int
    due: float
    began: float
    planned: float
    launched: float
    returned: float
    staged: float
    committed: float
    published: float
    containers: Mapping[int, ContainerTimes]
    operators: Mapping[int, OperatorTimes]
    trigger: SparkTrigger | None = None

    @property
    def triggered(self) -> float:
        """When the window's time begins: Spark's trigger if Spark drives, else the tick."""
        return self.began if self.trigger is None else self.trigger.triggered

    @property
    def latency_seconds(self) -> float:
        """The window's latency: trigger to commit. Publication comes after it."""
        return max(0.0, self.committed - self.triggered)

    @property
    def late_seconds(self) -> float:
        """How long after its schedule it began: the trigger wait, no part of the latency."""
        return max(0.0, self.began - self.due)

    def tuples(self, topology: Topology) -> tuple[int, int]:
        """Tuples that entered the application (emitted by its inputs) and that reached its leaves."""
        entered = sum(
            self.operators[operator].tuples_out for operator in topology.inputs if operator in self.operators
        )
        left = sum(
            self.operators[operator].tuples_in for operator in topology.leaves if operator in self.operators
        )
        return entered, left


def assemble(topology: Topology, events: Iterable[RunEvent], offsets: ClockOffsets) -> WindowTimes:
    """The events of one window as its times; what containers read from their hosts' clocks is put on STRAM's by `offsets`.

    Each time is corrected by its host's offset at that time, since clocks drift within long windows. Events
    of other windows, and of operators and containers that `topology` has not, are left out. Raises ValueError
    without a `WindowCommitted`.
    """
    events = tuple(events)
    committed = next((event for event in reversed(events) if isinstance(event, WindowCommitted)), None)
    if committed is None:
        kinds = ", ".join(sorted({f"`{type(event).__name__}`" for event in events}))
        msg = f"a window's times need its `WindowCommitted`; got {kinds or 'no events'}"
        raise ValueError(msg)
    due, trigger = committed.began, None
    containers: dict[int, ContainerWindow] = {}
    operators: dict[int, OperatorWindow] = {}
    for event in events:
        if getattr(event, "window_id", None) != committed.window_id:
            continue
        match event:
            case WindowPlanned():
                due = event.due
            case SparkTrigger():
                trigger = event
            case ContainerWindow() if event.container in topology.containers:
                containers[event.container] = event
            case OperatorWindow() if event.operator in topology.by_id:
                operators[event.operator] = event
    return WindowTimes(
        window_id=committed.window_id,
        attempts=committed.attempts,
        due=due,
        began=committed.began,
        planned=committed.planned,
        launched=committed.launched,
        returned=committed.returned,
        staged=committed.staged,
        committed=committed.committed,
        published=committed.published,
        containers={number: _container(container, offsets) for number, container in containers.items()},
        operators={number: _operator(operator, offsets) for number, operator in operators.items()},
        trigger=trigger,
    )


def tasks_by_stage(topology: Topology, times: WindowTimes) -> tuple[tuple[TaskTimes, ...], ...]:
    """The Spark tasks of each stage that reported, stages in order: containers of a stage with the same `task` ran one after the other."""
    groups: dict[int, dict[str, list[int]]] = {}
    for container, found in times.containers.items():
        groups.setdefault(topology.stage_of[container], {}).setdefault(found.task, []).append(container)
    return tuple(
        tuple(_task(times, groups[stage][name]) for name in sorted(groups[stage])) for stage in sorted(groups)
    )


def _task(times: WindowTimes, members: list[int]) -> TaskTimes:
    ordered = sorted(members, key=lambda member: (times.containers[member].began, member))
    found = [times.containers[member] for member in ordered]
    entered, ended = (
        min(container.task_began for container in found),
        max(container.written for container in found),
    )
    return TaskTimes(tuple(ordered), entered, found[0].began, ended)


def _container(event: ContainerWindow, offsets: ClockOffsets) -> ContainerTimes:
    def corrected(at: float) -> float:
        return at + offsets.offset(event.host, at) if at else 0.0

    return ContainerTimes(
        task=event.task,
        task_began=corrected(event.task_began),
        began=corrected(event.began),
        restored=corrected(event.restored),
        ran=corrected(event.ran),
        written=corrected(event.written),
        received=event.received,
        host=event.host,
        sent=corrected(event.sent),
        worker_began=corrected(event.worker_began),
        daemon_began=corrected(event.daemon_began),
    )


def _operator(event: OperatorWindow, offsets: ClockOffsets) -> OperatorTimes:
    return OperatorTimes(
        began=event.began + offsets.offset(event.host, event.began),
        ended=event.ended + offsets.offset(event.host, event.ended),
        compute_seconds=event.compute_seconds,
        wait_seconds=event.wait_seconds,
        transfer_seconds=event.transfer_seconds,
        tuples_in=sum(event.tuples_in.values()),
        tuples_out=sum(event.tuples_out.values()),
        encode_seconds=event.encode_seconds,
        state_seconds=event.state_seconds,
    )

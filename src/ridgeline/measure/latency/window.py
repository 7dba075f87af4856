"""One committed window with all times on STRAM's clock: the input of latency, critical path and blame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ridgeline.measure.clocks import ClockOffsets, corrected_events
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
class WindowTimes:
    """One committed window, all times on STRAM's clock.

    `commit`: the driver's times. Containers and operators by id, those that reported.
    """

    commit: WindowCommitted
    due: float
    containers: Mapping[int, ContainerWindow]
    operators: Mapping[int, OperatorWindow]
    trigger: SparkTrigger | None = None
    plan_version: int = 0

    @property
    def triggered(self) -> float:
        """When the window's time begins: Spark's trigger if Spark drives, else Ridgeline's own."""
        return self.commit.began if self.trigger is None else self.trigger.triggered

    @property
    def latency_seconds(self) -> float:
        """The window's latency: trigger to commit. Publication comes after it."""
        return max(0.0, self.commit.committed - self.triggered)

    @property
    def late_seconds(self) -> float:
        """How long after its schedule it began: the trigger wait, no part of the latency."""
        return max(0.0, self.commit.began - self.due)


class Count:
    """The rows of `counts_of`."""

    TUPLES_IN, TUPLES_OUT, QUEUE, ERRORS, LATE, STATE, REPORTED = range(7)
    COUNT = 7


def counts_of(topology: Topology, times: WindowTimes) -> npt.NDArray[np.float64]:
    """Of a window the rows of `Count` by physical operator; 0: it did not report."""
    found = np.zeros((len(topology.operators), Count.COUNT))
    reported = corrected_events(times.operators).reported  # no time of theirs is needed
    for place, node in enumerate(topology.operators):
        one = reported.get(node.id)
        if one is not None:
            tuples = sum(one.tuples_in.values()), sum(one.tuples_out.values())
            found[place] = (*tuples, one.queue, one.errors, one.late, one.state_bytes, 1.0)
    return found.T


def entered_and_left(topology: Topology, counts: npt.NDArray[np.float64]) -> tuple[int, int]:
    """Tuples that entered the application (emitted by its inputs) and that reached its leaves."""
    inputs, leaves = ([topology.places[one] for one in ids] for ids in (topology.inputs, topology.leaves))
    return int(counts[Count.TUPLES_OUT, inputs].sum()), int(counts[Count.TUPLES_IN, leaves].sum())


def assemble(topology: Topology, events: Iterable[RunEvent], offsets: ClockOffsets) -> WindowTimes:
    """The events of one window as its times, all on STRAM's clock by `offsets`.

    Each time is corrected by its host's offset at that time, since clocks drift within long windows. Events
    of other windows, and of operators and containers that `topology` has not, are left out. Raises ValueError
    without a `WindowCommitted`.
    """
    events = tuple(events)
    committed = next((event for event in reversed(events) if isinstance(event, WindowCommitted)), None)
    if committed is None:
        kinds = ", ".join(sorted({f"`{type(event).__name__}`" for event in events}))
        raise ValueError(f"a window's times need its `WindowCommitted`; got {kinds or 'no events'}")
    due, trigger, version = committed.began, None, 0
    containers: dict[int, ContainerWindow] = {}
    operators: dict[int, OperatorWindow] = {}
    known, places = topology.by_id, topology.containers
    for event in events:
        if isinstance(event, OperatorWindow):
            if event.operator in known and event.window_id == committed.window_id:
                operators[event.operator] = event
        elif isinstance(event, ContainerWindow):
            if event.container in places and event.window_id == committed.window_id:
                containers[event.container] = event
        elif isinstance(event, WindowPlanned) and event.window_id == committed.window_id:
            due, version = event.due, event.plan_version
        elif isinstance(event, SparkTrigger) and event.window_id == committed.window_id:
            trigger = event
    return WindowTimes(
        commit=committed,
        due=due,
        containers=offsets.all_corrected(containers),
        operators=offsets.all_corrected(operators),
        trigger=trigger,
        plan_version=version,
    )

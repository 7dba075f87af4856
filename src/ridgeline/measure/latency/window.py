"""Committed windows with all times on STRAM's clock: the input of latency, critical path and blame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.measure.clocks import NO_CORRECTION, Line, on_our_clock
from ridgeline.measure.events import (
    ContainerWindow,
    OperatorWindow,
    RunEvent,
    SparkTrigger,
    WindowCommitted,
    WindowPlanned,
)
from ridgeline.measure.topology import Topology

Figures = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class WindowTimes:
    """One committed window. Containers and operators by id, those that reported, as their hosts' clocks were.

    `commit`: the driver's times. `clocks`: the lines of these clocks by host; where one is missing it is
    STRAM's own.
    """

    commit: WindowCommitted
    due: float
    containers: Mapping[int, ContainerWindow]
    operators: Mapping[int, OperatorWindow]
    trigger: SparkTrigger | None = None
    plan_version: int = 0
    clocks: Mapping[str, Line] = field(default_factory=dict)

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


def assemble(
    topology: Topology, events: Iterable[RunEvent], clocks: Mapping[str, Line] | None = None
) -> WindowTimes:
    """The events of one window. `clocks`: as in `WindowTimes`.

    Events of other windows, and of operators and containers that `topology` has not, are left out. Raises
    ValueError without a `WindowCommitted`.
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
    return WindowTimes(committed, due, containers, operators, trigger, version, clocks or {})


class Count:
    """The rows of `Windows.counts`."""

    TUPLES_IN, TUPLES_OUT, ERRORS, LATE, STATE, REPORTED = range(6)
    COUNT = 6


def _of_operator(event: OperatorWindow) -> tuple[float | None, ...]:
    """What is read of an operator: two times of its host, then durations, then those of `Count`."""
    return (
        event.began,
        event.ended,
        event.compute_seconds,
        event.cpu_seconds,
        event.estimated,
        sum(event.tuples_in.values()),
        sum(event.tuples_out.values()),
        event.errors,
        event.late,
        event.state_bytes,
        1.0,
    )


_of_container: Callable[[ContainerWindow], tuple[float, ...]] = attrgetter(
    "ready", "began", "restored", "ran", "written", "sent"
)


class Windows:
    """Windows of one plan as arrays: by window, then by operator or container, all on STRAM's clock.

    NaN is what is not known: it has not reported. Each time is corrected by its host's offset at that time,
    since clocks drift within long windows. Of operators: `began`, `ended`, `compute`, `cpu` and `estimated`
    (1: yes); `counts` has the rows of `Count` before the operators, 0 where nothing is known. Of containers:
    `came`, `turned` (its turn began), `restored`, `ran`, `written` and `sent` (its messages were).
    """

    def __init__(self, topology: Topology, times: Sequence[WindowTimes]) -> None:
        self.topology, self.times = topology, times
        clocks = [one.clocks for one in times]
        found = _columns(topology.places, [one.operators for one in times], _of_operator, 11, 2, clocks)
        self.began, self.ended, self.compute, self.cpu, self.estimated = found[:5]
        self.counts = np.nan_to_num(found[5:]).swapaxes(0, 1)
        containers = [one.containers for one in times]
        found = _columns(topology.places_of_containers, containers, _of_container, 6, 6, clocks)
        ready, self.turned, self.restored, self.ran, self.written, sent = found
        self.came = np.where(ready == 0.0, self.turned, ready)
        self.sent = np.maximum(self.written, sent)

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def busy(self) -> Figures:
        """When slots of containers ran something before their input had come: stretches in order of time.

        By stretch, then begin and end, then window and container.
        """
        places = self.topology.places_of_containers
        known = [
            (row, places[number], np.reshape(event.busy, (-1, 2)))
            for row, one in enumerate(self.times)
            for number, event in one.containers.items()
            if event.busy
        ]
        found = np.full((max((len(own) for *_, own in known), default=0), 2, *self.came.shape), np.nan)
        for row, place, own in known:
            found[: len(own), :, row, place] = self.came[row, place] - own
        return found

    @cached_property
    def slots(self) -> Places:
        """A number for the slot of each container, -1 where it is not known."""
        numbers: dict[str, int] = {}
        found = np.full(self.came.shape, -1, np.intp)
        for row, one in enumerate(self.times):
            places = [self.topology.places_of_containers[number] for number in one.containers]
            found[row, places] = [
                numbers.setdefault(event.task, len(numbers)) for event in one.containers.values()
            ]
        return found

    def tuples(self) -> list[tuple[int, int]]:
        """Of each window the tuples that entered the application and those that reached its leaves.

        The first are emitted by its inputs.
        """
        topology = self.topology
        inputs, leaves = ([topology.places[one] for one in ids] for ids in (topology.inputs, topology.leaves))
        entered = self.counts[:, Count.TUPLES_OUT, inputs].sum(axis=1)
        left = self.counts[:, Count.TUPLES_IN, leaves].sum(axis=1)
        return list(zip(map(int, entered), map(int, left), strict=True))


def _columns(
    places: Mapping[int, int],
    windows: Sequence[Mapping[int, Any]],
    values: Callable[[Any], tuple[Any, ...]],
    size: int,
    of_hosts: int,
    clocks: Sequence[Mapping[str, Line]],
) -> Figures:
    """So many values of events, of which the first are times `of_hosts`: by value, window and place."""
    corrects = any(clocks)
    found = np.full((len(windows), len(places), size + 5 * corrects), np.nan)
    for row, (events, lines) in enumerate(zip(windows, clocks, strict=True)):
        rows = [values(event) for event in events.values()]
        if corrects:
            of_host = {host: line.values for host, line in lines.items()}
            rows = [
                (*own, *of_host.get(event.host, NO_CORRECTION))
                for own, event in zip(rows, events.values(), strict=True)
            ]
        if rows:
            found[row, [places[number] for number in events]] = np.array(rows, np.float64)
    columns = np.moveaxis(found, -1, 0)
    if corrects:
        columns[:of_hosts] = on_our_clock(columns[:of_hosts], columns[size:])
    return columns[:size]


def chains(first: Places, following: Places) -> Places:
    """Chains of places from the `first` ones, -1 after their ends: by window and step.

    `following`: by window and place the next one, -1 for none.
    """
    windows, found = np.arange(len(first)), [first]
    while (found[-1] >= 0).any() and len(found) <= following.shape[1]:
        found.append(np.where(found[-1] < 0, -1, following[windows, found[-1]]))
    return np.array(found).T

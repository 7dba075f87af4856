"""Committed windows with all times on STRAM's clock: the input of latency, critical path and blame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ridgeline.measure.clocks import Line, on_our_clock
from ridgeline.measure.events import (
    RunEvent,
    SparkTrigger,
    Table,
    WindowCommitted,
    WindowPlanned,
    WindowReported,
)
from ridgeline.measure.topology import Ids, Topology

Figures = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
NOTHING = WindowReported.of(0.0, -1, (), ())


@dataclass(frozen=True, slots=True)
class WindowTimes:
    """One committed window. `reported`: of its plan's operators. `commit`: the driver's times."""

    commit: WindowCommitted
    due: float
    reported: WindowReported
    trigger: SparkTrigger | None = None
    plan_version: int = 0

    @property
    def triggered(self) -> float:
        """When the window's time begins: Spark's trigger if Spark drives, else Ridgeline's own."""
        began = self.commit.began
        return began if self.trigger is None else min(self.trigger.triggered, began)

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
    """The events of one window. `clocks`: as in `on_our_clock`.

    Its `WindowCommitted` is the last of that kind. Events of other windows, and of other plans than
    `topology`, are left out.
    """
    events = tuple(events)
    committed = next(event for event in reversed(events) if isinstance(event, WindowCommitted))
    due, trigger, version = committed.began, None, 0
    reported = NOTHING
    for event in events:
        if isinstance(event, WindowReported) and event.window_id == committed.window_id:
            reported = event if event.is_of(topology) else NOTHING
        elif isinstance(event, WindowPlanned) and event.window_id == committed.window_id:
            due, version = event.due, event.plan_version
        elif isinstance(event, SparkTrigger) and event.window_id == committed.window_id:
            trigger = event
    return WindowTimes(committed, due, on_our_clock(reported, clocks or {}), trigger, version)


class Count:
    """The rows of `Windows.counts`."""

    TUPLES_IN, TUPLES_OUT, ERRORS, LATE, STATE, REPORTED = range(6)
    COUNT = 6


_OF_OPERATORS = (
    *("began", "ended", "compute_seconds", "cpu_seconds"),
    *("tuples_in", "tuples_out", "errors", "late", "state_bytes"),
)
"""What is read of operators: times, then those of `Count`."""
_OF_CONTAINERS = ("ready", "began", "restored", "ran", "written", "sent")


class Windows:
    """Windows of one plan as arrays: by window, then by operator or container, all on STRAM's clock.

    NaN is what is not known: it has not reported. Of operators: `began`, `ended`, `compute` and
    `cpu`; `counts` has the rows of `Count` before the operators, 0 where nothing is known.
    Of containers: `came`, `turned` (its turn began), `restored`, `ran`, `written` and `sent` (messages).
    """

    def __init__(self, topology: Topology, times: Sequence[WindowTimes]) -> None:
        self.topology, self.times = topology, times
        reported = [one.reported for one in times]
        operators = _Rows([one.operators for one in reported], topology.ids, "operator")
        found = operators.columns(_OF_OPERATORS, len(times))
        self.began, self.ended, self.compute, self.cpu = found[:4]
        reports = ~np.isnan(self.ended)
        self.counts = np.nan_to_num([*found[4:], reports]).swapaxes(0, 1)
        self._containers = _Rows(
            [one.containers for one in reported], topology.ids_of_containers, "container"
        )
        found = self._containers.columns(_OF_CONTAINERS, len(times))
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
            (row, places[number], np.reshape(stretches, (-1, 2)))
            for row, one in enumerate(self.times)
            for number, stretches in one.reported.busy.items()
        ]
        found = np.full((max((len(own) for *_, own in known), default=0), 2, *self.came.shape), np.nan)
        for row, place, own in known:
            found[: len(own), :, row, place] = self.came[row, place] - own
        return found

    @cached_property
    def slots(self) -> Places:
        """A number for the slot of each container, -1 where it is not known."""
        numbers, rows = dict[str, int](), self._containers
        tasks = [numbers.setdefault(task, len(numbers)) for one in self.times for task in one.reported.tasks]
        found = np.full(self.came.shape, -1, np.intp)
        first = np.cumsum([0, *(len(one.reported.tasks) for one in self.times[:-1])])
        found[rows.window, rows.place] = np.array(tasks, np.intp)[first[rows.window] + rows.table["task"]]
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


class _Rows:
    """The rows of several windows, in one table: of which window each is, and its place in the plan."""

    def __init__(self, tables: Sequence[Table], ids: Ids, name: str) -> None:
        self.table = np.concatenate(tables)
        self.window = np.repeat(np.arange(len(tables)), [len(one) for one in tables])
        self.place = ids.places(self.table[name])
        self.size = len(ids)

    def columns(self, names: Sequence[str], windows: int) -> Figures:
        """Some of them: by column, window and place."""
        found = np.full((len(names), windows, self.size), np.nan)
        found[:, self.window, self.place] = [self.table[name] for name in names]
        return found


def chains(first: Places, following: Places) -> Places:
    """Chains of places from the `first` ones, -1 after their ends: by window and step.

    `following`: by window and place the next one, -1 for none.
    """
    windows, found = np.arange(len(first)), [first]
    while (found[-1] >= 0).any() and len(found) <= following.shape[1]:
        found.append(np.where(found[-1] < 0, -1, following[windows, found[-1]]))
    return np.array(found).T

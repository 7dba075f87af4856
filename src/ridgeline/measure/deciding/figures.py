"""The view that policies have of an application: metrics over a period, by operator and partition.

They are made of the slices of `HistoryFold` as they are asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ridgeline.measure.deciding.key_load import KeyLoad
from ridgeline.measure.history.step import Floats, Slice, Sum
from ridgeline.measure.latency.critical_path import slack_of_figures
from ridgeline.measure.latency.operator_latency import SHOWN
from ridgeline.measure.topology import OperatorNode, Topology

_OVERDUE_SECONDS = 1.0
_NOWHERE: tuple[str | None, int | None] = None, None
Keys = Callable[[str, float], KeyLoad | None]
"""The keys of a logical operator over a number of seconds."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How a duration was distributed over the windows of a period, in seconds.

    `count`: of how many; with none all is 0.
    """

    mean_seconds: float = 0.0
    p50_seconds: float = 0.0
    p90_seconds: float = 0.0
    p99_seconds: float = 0.0
    max_seconds: float = 0.0
    count: int = 0


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """One partition of an operator over a period.

    `useful_seconds` is the time in which it alone of its container worked: callbacks, and what it does itself
    to move tuples and state. The time of tuples between containers is no part of it. `utilization` is its
    share of the period. `true_rate`: tuples in (inputs: out) for each useful second (DS2); None if it had
    none. `queue`: tuples that waited when its turn came, mean. `process`: its id, on `host`.
    """

    id: int
    partition: int
    host: str | None
    container: int
    process: int | None
    tuples_in: int
    tuples_out: int
    useful_seconds: float
    compute_seconds: float
    cpu_seconds: float
    transfer_seconds: float
    utilization: float
    true_rate: float | None
    queue: float | None
    errors: int
    late_records: int
    critical_path_share: float


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """An input lately: what arrives and what is taken, a second, in its `unit`; None: not known.

    `backlog`: records that wait there. `grows_per_second`: by how much the backlog grows. `backlog_seconds`:
    the time to work it off, were nothing to arrive.
    """

    operator: str
    arriving_per_second: float | None
    taken_per_second: float
    backlog: float | None
    grows_per_second: float | None
    backlog_seconds: float | None
    verdict: str
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream between two logical operators, with the tuples that went over it in the period."""

    stream: str
    source: str
    sink: str
    tuples: int


@dataclass(frozen=True, slots=True)
class PromiseState:
    """A promise of the application: `kept` None until it can be said; `since`: STRAM's wall clock.

    `kind`: `latency`, `caught_up_within`, ... `figure` and `limit` in `unit`. `operator` "": the application.
    """

    name: str
    kind: str
    operator: str
    kept: bool | None
    since: float | None
    figure: float | None
    limit: float
    unit: str


_SPREADS = ("latency", "compute", "wait", "transfer", "cpu")  # as `SHOWN`


@dataclass(eq=False, kw_only=True)
class OperatorFigures:
    """A logical operator over a period: since `at - seconds`, as far as there are windows.

    Latencies are those of its slowest partition with its slowest unifiers, window by window. Rates are per
    second. `busiest` is the partition with the highest utilization. `imbalance` is the most tuples of a
    partition as a multiple of the mean. `true_rate` is what the operator could do: that of the busiest
    partition times the number of partitions; under skew the mean would promise too much.
    `critical_path_share`: in which share of the windows it was on the critical path. `record_age` is over the
    last minute, whatever the period is. `metrics`: the last values of metrics that it declares. `cpu`: of
    `compute`, processor time; what is missing it slept, or others had the processor.
    """

    name: str
    at: float
    seconds: float
    windows: int
    partitions: int
    is_input: bool
    is_output: bool
    tuples_in: int
    tuples_out: int
    tuples_in_per_second: float
    tuples_out_per_second: float
    utilization: float
    true_rate: float | None
    imbalance: float
    latency: Spread = field(init=False)
    compute: Spread = field(init=False)
    wait: Spread = field(init=False)
    transfer: Spread = field(init=False)
    cpu: Spread = field(init=False)
    record_age: Spread
    queue: float | None
    errors: int
    late_records: int
    critical_path_share: float
    metrics: Mapping[str, Any]
    by_partition: Sequence[PartitionFigures]
    unifier_seconds: float
    """Useful time of its unifiers in a window, mean: the cost of another partition."""
    slots: int | None = None
    """How many slots the application could have; None where containers do not live in slots."""
    application: ApplicationFigures = field(repr=False)

    def __getattr__(self, name: str) -> Any:
        """A distribution is made when it is asked for."""
        if name not in _SPREADS:
            raise AttributeError(name)
        vars(self).update(zip(_SPREADS, self.application.spreads(self.name), strict=True))
        return vars(self)[name]

    @cached_property
    def slack_seconds(self) -> float | None:
        """By how much it could have been slower in the mean window without being on the critical path."""
        return self.application.slack_of.get(self.name)

    @cached_property
    def keys(self) -> KeyLoad | None:
        """How its tuples are spread over keys; None if it is not divided by key, or nothing is counted yet.

        Tuples are counted from the first request on, until a minute after the last one. At most 5 minutes are
        kept.
        """
        keys = self.application.key_loads
        return None if keys is None else keys(self.name, self.seconds)

    @property
    def busiest(self) -> PartitionFigures | None:
        """The partition that worked for the largest share of the period."""
        return max(self.by_partition, key=lambda one: one.utilization, default=None)

    def for_seconds(self, seconds: float) -> OperatorFigures:
        """The same over another period, which ends at the same time; at most 15 minutes are kept."""
        return self.application.for_seconds(seconds).operators[self.name]


@dataclass(eq=False, kw_only=True)
class ApplicationFigures:
    """An application over the last `period` seconds; `operators` by name, in topological order, no unifiers.

    `window_latency`: trigger to commit. `late_seconds`: how late the next window is by the schedule.
    `slots`: how many its containers could have, None where they do not live in slots. `changing`: a change is
    under way. `slices`: all that are kept. `processes`: host and process of each container. `running`:
    seconds that physical operators have spent in the windows under way.
    """

    name: str
    at: float
    window_seconds: float
    plan_version: int
    committed: int | None
    topology: Topology = field(repr=False)
    slices: Sequence[Slice] = field(repr=False)
    period: float
    sources: Sequence[SourceFigures] = ()
    late_seconds: float = 0.0
    verdict: str = ""
    changing: bool = False
    processes: Mapping[int, tuple[str | None, int | None]] = field(default_factory=dict, repr=False)
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    ages: Mapping[str, Spread] = field(default_factory=dict, repr=False)
    promises: Sequence[PromiseState] = ()
    slots: int | None = None
    cores: int | None = None
    """The processors that its slots share, where they are those of one host; None if that is not known."""
    key_loads: Keys | None = field(default=None, repr=False)
    running: Mapping[int, float] = field(default_factory=dict, repr=False)

    def for_seconds(self, seconds: float) -> ApplicationFigures:
        """The same over another period, which ends at the same time; at most 15 minutes are kept."""
        return replace(self, period=seconds)

    @cached_property
    def operators(self) -> Mapping[str, OperatorFigures]:
        """The logical operators by name."""
        return {name: self.operator(name) for name in self.topology.rows_of}

    @cached_property
    def _slices(self) -> Sequence[Slice]:
        return [one for one in self.slices if one.end > self.at - self.period]

    @cached_property
    def _stalls(self) -> bool:
        """Whether a window is overdue. Else the period ends with the last one: the next is not known yet."""
        last = self._slices[-1].end if self._slices else self.at
        return self.at - last > max(_OVERDUE_SECONDS, self.window_seconds)

    @cached_property
    def _end(self) -> float:
        return self.at if self._stalls or not self._slices else self._slices[-1].end

    @cached_property
    def seconds(self) -> float:
        """How long the period is, as far as there are windows."""
        return max(0.0, self._end - self._slices[0].begin) if self._slices else 0.0

    @cached_property
    def windows(self) -> int:
        """How many were committed in it."""
        return sum(one.step.windows for one in self._slices)

    @cached_property
    def window_latency(self) -> Spread:
        """Trigger to commit."""
        rows = [np.array(one.step.whole.values) for one in self._slices]
        return spread(np.concatenate(rows)) if rows else Spread()

    @cached_property
    def _times(self) -> list[Floats]:
        """Of each slice, windows by latency and its parts by logical operator."""
        return [np.array(one.step.latencies.values) for one in self._slices]

    @cached_property
    def blame(self) -> Mapping[str, float]:
        """Seconds of the mean window by what they were spent on, as the blame chain names it."""
        found = Counter[str]()
        for one in self._slices:
            found.update(one.blame)
        return {what: seconds / self.windows for what, seconds in found.most_common()}

    @cached_property
    def edges(self) -> Sequence[Edge]:
        """The streams between logical operators of the present plan."""
        by_id, found = self.topology.by_id, dict[tuple[str, str, str], None]()
        for stream in self.topology.streams:
            source, sink = by_id[stream.source], by_id[stream.sink]
            if not sink.unifier:
                found[stream.name, source.name, sink.name] = None
        return [Edge(stream, source, sink, self.operators[sink].tuples_in) for stream, source, sink in found]

    @cached_property
    def slack_of(self) -> Mapping[str, float]:
        """By how many seconds each logical operator could have been slower, in the mean window."""
        topology, sums = self.topology, self._sums
        means = sums / np.maximum(1.0, sums[Sum.WINDOWS])
        no_latency = np.zeros((1, len(topology.operators)))
        figures = np.concatenate([no_latency, means[Sum.COMPUTE : Sum.ON_PATH]])
        free, found = slack_of_figures(topology, figures), dict[str, float]()
        for node in topology.operators:
            if not node.unifier:
                found[node.name] = min(free[node.container], found.get(node.name, math.inf))
        return found

    @cached_property
    def _sums(self) -> Floats:
        """The sums of the present plan's physical operators over the period, in its order."""
        topology = self.topology
        found = np.zeros((Sum.COUNT, len(topology.operators)))
        for other, sums in self._plans:
            there = [number for number in other.places if number in topology.places]
            own = [topology.places[number] for number in there]
            found[:, own] += sums[:, [other.places[number] for number in there]]
        return found

    @cached_property
    def _plans(self) -> Sequence[tuple[Topology, Floats]]:
        """The plans of the period, each with the sums of its slices."""
        plans = {id(one.topology): one.topology for one in self._slices}
        return [
            (plan, np.sum([one.sums for one in self._slices if one.topology is plan], axis=0))
            for plan in plans.values()
        ]

    def _seconds(self, node: OperatorNode) -> float:
        """How long a physical operator was there in the period."""
        first = next((one for one in self._slices if node.id in one.topology.by_id), None)
        return 0.0 if first is None else max(0.0, self._end - first.begin)

    def partition(self, node: OperatorNode) -> PartitionFigures:
        """A partition over the period."""
        sums, there = self._sums[:, self.topology.places[node.id]], self._seconds(node)
        useful = float(sums[Sum.TURN])
        busy = useful + (self.running.get(node.id, 0.0) if self._stalls else 0.0)
        worked = sums[Sum.TUPLES_OUT] if node.kind == "input" else sums[Sum.TUPLES_IN]
        windows = float(sums[Sum.WINDOWS])
        host, pid = self.processes.get(node.container, _NOWHERE)
        return PartitionFigures(
            id=node.id,
            partition=node.partition,
            host=host,
            container=node.container,
            process=pid,
            **_counts(sums, windows),
            useful_seconds=useful,
            compute_seconds=float(sums[Sum.COMPUTE]),
            cpu_seconds=float(sums[Sum.CPU]),
            transfer_seconds=float(sums[Sum.TRANSFER]),
            utilization=min(1.0, busy / there) if there > 0 else 0.0,
            true_rate=float(worked) / useful if useful > 0 and worked else None,
            critical_path_share=float(sums[Sum.ON_PATH]) / self.windows if self.windows else 0.0,
        )

    def operator(self, name: str) -> OperatorFigures:
        """A logical operator over the period. Raises KeyError."""
        topology = self.topology
        own = [topology.operators[place] for place in topology.rows_of[name]]
        whole, unifying = np.zeros(Sum.COUNT), 0.0
        for plan, sums in self._plans:
            whole += sums[:, plan.rows_of.get(name, [])].sum(axis=1)
            unifying += float(sums[Sum.TURN, plan.unifiers_of.get(name, [])].sum())
        parts = tuple(map(self.partition, own))
        loads = [one.tuples_out if own[0].kind == "input" else one.tuples_in for one in parts]
        busiest = max(parts, key=lambda one: one.utilization)
        seconds = self.seconds
        return OperatorFigures(
            application=self,
            name=name,
            at=self.at,
            seconds=seconds,
            windows=self.windows,
            partitions=len(parts),
            is_input=own[0].kind == "input",
            is_output=own[0].kind == "output",
            **_counts(whole, self.windows),
            tuples_in_per_second=float(whole[Sum.TUPLES_IN]) / seconds if seconds else 0.0,
            tuples_out_per_second=float(whole[Sum.TUPLES_OUT]) / seconds if seconds else 0.0,
            utilization=busiest.utilization,
            true_rate=None if busiest.true_rate is None else busiest.true_rate * len(parts),
            imbalance=max(loads) * len(loads) / sum(loads) if sum(loads) else 1.0,
            record_age=self.ages.get(name, Spread()),
            critical_path_share=float(whole[Sum.ON_PATH]) / self.windows if self.windows else 0.0,
            metrics=self.metrics.get(name, {}),
            by_partition=parts,
            unifier_seconds=unifying / self.windows if self.windows else 0.0,
            slots=self.slots,
        )

    def spreads(self, name: str) -> Sequence[Spread]:
        """The distributions of an operator's latency, compute, wait, transfer and processor time."""
        known = [
            (one.step.greatest[: len(SHOWN), place], times[:, :, place])
            for one, times in zip(self._slices, self._times, strict=True)
            if (place := one.topology.logical.index.get(name)) is not None
        ]
        if not known:
            return [Spread()] * len(SHOWN)
        times = np.concatenate([every for _, every in known])
        times = times[~np.isnan(times[:, 0])]  # without windows in which none has reported
        greatest = np.max([np.nan_to_num(most) for most, _ in known], axis=0)
        return [
            replace(spread(column), max_seconds=float(most)) if len(column) else Spread()
            for column, most in zip(times.T, greatest, strict=True)
        ]


def _counts(sums: Floats, windows: float) -> dict[str, Any]:
    """The counts of a period as both kinds of figures have them. `windows`: that tuples waited in."""
    rows = {"tuples_in": Sum.TUPLES_IN, "tuples_out": Sum.TUPLES_OUT, "errors": Sum.ERRORS}
    counts = {name: int(sums[row]) for name, row in {**rows, "late_records": Sum.LATE}.items()}
    return {**counts, "queue": float(sums[Sum.TUPLES_IN]) / windows if windows else None}


def spread(seconds: Floats) -> Spread:
    """How durations are distributed; NaN: one is not known."""
    seconds = seconds[~np.isnan(seconds)]
    if not len(seconds):
        return Spread()
    p50, p90, p99 = (float(one) for one in np.quantile(seconds, [0.5, 0.9, 0.99]))
    return Spread(float(seconds.mean()), p50, p90, p99, float(seconds.max()), len(seconds))

"""Figures over a period, made of the slices of `HistoryFold` as they are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.measure.age.record_age import LEVELS
from ridgeline.measure.answers.operators import RecordAgeAnswer
from ridgeline.measure.answers.progress import BacklogAnswer, BottleneckAnswer, SourceAnswer
from ridgeline.measure.deciding.capacity import bottleneck
from ridgeline.measure.deciding.figures import (
    ApplicationFigures,
    Edge,
    OperatorFigures,
    PartitionFigures,
    PromiseState,
    SourceFigures,
    Spread,
)
from ridgeline.measure.deciding.key_load import KeyLoad
from ridgeline.measure.history.step import Floats, Slice, SliceColumn
from ridgeline.measure.latency.critical_path import slack_of_figures
from ridgeline.measure.latency.operator_latency import ROWS, SHOWN
from ridgeline.measure.topology import OperatorNode, Topology

if TYPE_CHECKING:
    from ridgeline.measure.measurement import Measurement


_OVERDUE_SECONDS = 1.0
_NOWHERE: tuple[str | None, int | None] = None, None
_LATELY_SECONDS = 10.0, 3.0
"""Over so long it is said which operator is full: over the shorter time one that was not before."""
Keys = Callable[[str, float], KeyLoad | None]
"""The keys of a logical operator over a number of seconds."""


@dataclass(frozen=True)
class Now:
    """State that the metrics of one moment share. `processes`: host and process of each container.

    `keys`: None where keys are not counted. `running`: seconds that physical operators have spent in the
    windows under way.
    """

    application: str
    at: float
    window_seconds: float
    plan_version: int
    committed: int | None
    topology: Topology
    sources: Sequence[SourceFigures] = ()
    late_seconds: float = 0.0
    caught_up_in_seconds: float | None = None
    verdict: str = ""
    changing: bool = False
    processes: Mapping[int, tuple[str | None, int | None]] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ages: Mapping[str, Spread] = field(default_factory=dict)
    promises: Sequence[PromiseState] = ()
    slots: int | None = None
    cores: int | None = None
    keys: Keys | None = None
    running: Mapping[int, float] = field(default_factory=dict)


class Period(ApplicationFigures):
    """The figures of the last `seconds` seconds of `slices`."""

    def __init__(self, now: Now, slices: Sequence[Slice], seconds: float) -> None:
        self._now, self._all = now, slices
        self._slices = [one for one in slices if one.end > now.at - seconds]
        self.name, self.at, self.window_seconds = now.application, now.at, now.window_seconds
        self.plan_version, self.committed = now.plan_version, now.committed
        self.sources, self.late_seconds, self.verdict = now.sources, now.late_seconds, now.verdict
        self.caught_up_in_seconds, self.changing = now.caught_up_in_seconds, now.changing
        self.promises, self.slots = now.promises, now.slots
        last = self._slices[-1].end if self._slices else now.at
        # Until a window is overdue the period ends with the last one: what the next ones do is not known yet.
        self._stalls = now.at - last > max(_OVERDUE_SECONDS, self.window_seconds)
        self._end = now.at if self._stalls else last
        self.seconds = max(0.0, self._end - self._slices[0].begin) if self._slices else 0.0
        self.windows = sum(one.step.windows for one in self._slices)
        self.operators = _Operators(self)

    @property
    def cores(self) -> int | None:  # type: ignore[override]
        """How many the driver's host has, in local mode."""
        return self._now.cores

    @property
    def slots_free(self) -> int | None:  # type: ignore[override]
        """Those of `slots` that no container has."""
        taken = len({process for process in self._now.processes.values() if process[1] is not None})
        return None if self.slots is None else max(0, self.slots - taken)

    def for_seconds(self, seconds: float) -> ApplicationFigures:
        """The same over another period."""
        return Period(self._now, self._all, seconds)

    def keys(self, operator: str) -> KeyLoad | None:
        """How the tuples of a logical operator are spread over keys."""
        return None if self._now.keys is None else self._now.keys(operator, self.seconds)

    @cached_property
    def window_latency(self) -> Spread:  # type: ignore[override]
        """Trigger to commit."""
        rows = [np.array(one.step.whole.values) for one in self._slices]
        return spread(np.concatenate(rows)) if rows else Spread()

    @cached_property
    def _times(self) -> list[Floats]:
        """Of each slice, windows by latency and its parts by logical operator."""
        return [np.array(one.step.latencies.values) for one in self._slices]

    @cached_property
    def blame(self) -> Mapping[str, float]:  # type: ignore[override]
        """Seconds of the mean window by what they were spent on."""
        found: dict[str, float] = {}
        for one in self._slices:
            for what, seconds in one.blame.items():
                found[what] = found.get(what, 0.0) + seconds / self.windows
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @cached_property
    def held(self) -> Mapping[tuple[str, str], float]:  # type: ignore[override]
        """Seconds of the mean window for which an output's results waited for an operator, by both names."""
        found: dict[tuple[str, str], float] = {}
        for one in self._slices:
            for names, seconds in one.held.items():
                found[names] = found.get(names, 0.0) + seconds / self.windows
        return found

    @cached_property
    def edges(self) -> Sequence[Edge]:  # type: ignore[override]
        """The streams between logical operators of the present plan."""
        by_id, found = self._now.topology.by_id, dict[tuple[str, str, str], None]()
        for stream in self._now.topology.streams:
            source, sink = by_id[stream.source], by_id[stream.sink]
            if not sink.unifier:
                found[stream.name, source.name, sink.name] = None
        return [Edge(stream, source, sink, self.operators[sink].tuples_in) for stream, source, sink in found]

    @cached_property
    def slack_of(self) -> Mapping[str, float]:
        """By how many seconds each logical operator could have been slower, in the mean window."""
        topology, sums = self._now.topology, self._sums.T
        means = sums / np.maximum(1.0, sums[SliceColumn.WINDOWS])
        figures = np.zeros((ROWS, len(topology.operators)))
        figures[[1, 3, 4]] = means[[SliceColumn.COMPUTE, SliceColumn.TRANSFER, SliceColumn.TURN]]
        free, found = slack_of_figures(topology, figures), dict[str, float]()
        for node in topology.operators:
            if not node.unifier:
                found[node.name] = min(free[node.container], found.get(node.name, math.inf))
        return found

    @cached_property
    def _sums(self) -> Floats:
        """The sums of the present plan's physical operators over the period, in its order."""
        topology = self._now.topology
        found = np.zeros((len(topology.operators), SliceColumn.COUNT))
        for one in self._slices:
            if one.topology is topology:
                found += one.sums
            else:
                there = [number for number in one.topology.places if number in topology.places]
                rows = [topology.places[number] for number in there]
                found[rows] += one.sums[[one.topology.places[number] for number in there]]
        return found

    def _seconds(self, node: OperatorNode) -> float:
        """How long a physical operator was there in the period."""
        first = next((one for one in self._slices if node.id in one.topology.by_id), None)
        return 0.0 if first is None else max(0.0, self._end - first.begin)

    def partition(self, node: OperatorNode) -> PartitionFigures:
        """A partition over the period."""
        sums, there = self._sums[self._now.topology.places[node.id]], self._seconds(node)
        useful = float(sums[SliceColumn.TURN])
        busy = useful + (self._now.running.get(node.id, 0.0) if self._stalls else 0.0)
        worked = sums[SliceColumn.TUPLES_OUT] if node.kind == "input" else sums[SliceColumn.TUPLES_IN]
        windows = float(sums[SliceColumn.WINDOWS])
        host, pid = self._now.processes.get(node.container, _NOWHERE)
        last = next((one for one in reversed(self._slices) if node.id in one.topology.by_id), None)
        return PartitionFigures(
            id=node.id,
            partition=node.partition,
            host=host,
            container=node.container,
            process=pid,
            tuples_in=int(sums[SliceColumn.TUPLES_IN]),
            tuples_out=int(sums[SliceColumn.TUPLES_OUT]),
            useful_seconds=useful,
            compute_seconds=float(sums[SliceColumn.COMPUTE]),
            cpu_seconds=float(sums[SliceColumn.CPU]),
            transfer_seconds=float(sums[SliceColumn.TRANSFER]),
            utilization=min(1.0, busy / there) if there > 0 else 0.0,
            true_rate=float(worked) / useful if useful > 0 and worked else None,
            queue=float(sums[SliceColumn.QUEUE]) / windows if windows else None,
            errors=int(sums[SliceColumn.ERRORS]),
            late_records=int(sums[SliceColumn.LATE]),
            state_bytes=0 if last is None else int(last.state_bytes[last.topology.places[node.id]]),
            critical_path_share=float(sums[SliceColumn.ON_PATH]) / self.windows if self.windows else 0.0,
        )

    def operator(self, name: str) -> OperatorFigures:
        """A logical operator over the period. Raises KeyError."""
        topology = self._now.topology
        own = [topology.operators[place] for place in topology.rows_of[name]]
        whole, on_path = np.zeros(SliceColumn.COUNT), 0.0
        unifying = reported = 0.0
        for one in self._slices:
            places = one.topology.rows_of.get(name, [])
            whole = whole + one.sums[places].sum(axis=0)
            # one of them at most is in each window
            on_path += float(one.sums[places, SliceColumn.ON_PATH].sum())
            behind = one.topology.unifiers_of.get(name, [])
            unifying += float(one.sums[behind, SliceColumn.TURN].sum())
            reported += one.step.windows
        parts = tuple(map(self.partition, own))
        loads = [one.tuples_out if own[0].kind == "input" else one.tuples_in for one in parts]
        busiest = max(parts, key=lambda one: one.utilization)
        seconds = self.seconds
        return _Operator(
            self,
            name=name,
            at=self.at,
            seconds=seconds,
            windows=self.windows,
            partitions=len(parts),
            is_input=own[0].kind == "input",
            is_output=own[0].kind == "output",
            stateful=own[0].stateful,
            tuples_in=int(whole[SliceColumn.TUPLES_IN]),
            tuples_out=int(whole[SliceColumn.TUPLES_OUT]),
            tuples_in_per_second=float(whole[SliceColumn.TUPLES_IN]) / seconds if seconds else 0.0,
            tuples_out_per_second=float(whole[SliceColumn.TUPLES_OUT]) / seconds if seconds else 0.0,
            utilization=busiest.utilization,
            true_rate=None if busiest.true_rate is None else busiest.true_rate * len(parts),
            imbalance=max(loads) * len(loads) / sum(loads) if sum(loads) else 1.0,
            record_age=self._now.ages.get(name, Spread()),
            queue=float(whole[SliceColumn.QUEUE]) / self.windows if self.windows else None,
            errors=int(whole[SliceColumn.ERRORS]),
            late_records=int(whole[SliceColumn.LATE]),
            critical_path_share=on_path / self.windows if self.windows else 0.0,
            metrics=self._now.metrics.get(name, {}),
            by_partition=parts,
            unifier_seconds=unifying / reported if reported else 0.0,
            slots=self.slots,
        )

    def spreads(self, name: str) -> Sequence[Spread]:
        """The distributions of an operator's latency, compute, wait, transfer and processor time."""
        known = [
            (one.step.greatest[:, place], times[:, :, place])
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


_SPREADS = ("latency", "compute", "wait", "transfer", "cpu")  # as `SHOWN`


class _Operator(OperatorFigures):
    """A logical operator over a period."""

    def __init__(self, period: Period, **figures: Any) -> None:
        self._period = period
        vars(self).update(figures)

    @cached_property
    def _spreads(self) -> Sequence[Spread]:
        return self._period.spreads(self.name)

    def __getattr__(self, name: str) -> Any:
        """A distribution is made when it is asked for."""
        if name not in _SPREADS:
            raise AttributeError(name)
        return self._spreads[_SPREADS.index(name)]

    @property
    def slack_seconds(self) -> float | None:  # type: ignore[override]
        """By how much it could have been slower in the mean window without being on the critical path."""
        return self._period.slack_of.get(self.name)

    @property
    def keys(self) -> KeyLoad | None:
        """How its tuples are spread over keys."""
        return self._period.keys(self.name)

    def for_seconds(self, seconds: float) -> OperatorFigures:
        """The same over another period."""
        return self._period.for_seconds(seconds).operators[self.name]

    def __repr__(self) -> str:
        return f"OperatorFigures({self.name!r}, {self.partitions} partitions, {self.seconds:.1f} s)"


class _Operators(Mapping[str, OperatorFigures]):
    """The operators of a period by name, each made when it is asked for."""

    def __init__(self, period: Period) -> None:
        self._period = period
        self._names = period._now.topology.names  # noqa: SLF001  its own
        self._made: dict[str, OperatorFigures] = {}

    def __getitem__(self, name: str) -> OperatorFigures:
        if name not in self._made:
            self._made[name] = self._period.operator(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def spread(seconds: Floats) -> Spread:
    """How durations are distributed; NaN: one is not known."""
    seconds = seconds[~np.isnan(seconds)]
    if not len(seconds):
        return Spread()
    p50, p90, p99 = (float(one) for one in np.quantile(seconds, [0.5, 0.9, 0.99]))
    return Spread(float(seconds.mean()), p50, p90, p99, float(seconds.max()), len(seconds))


def application_figures(
    measurement: Measurement,
    now: float,
    seconds: float,
    promises: Sequence[PromiseState] = (),
    *,
    changing: bool = False,
    keys: Keys | None = None,
    slots: int | None = None,
    cores: int | None = None,
) -> ApplicationFigures:
    """The figures of the last `seconds` seconds; of more than a minute only after `keep_figures`."""
    backlog = measurement.backlog(now)
    present = _now(measurement, now, *backlog)
    slices = measurement.deciding.slices()
    more = replace(
        present,
        late_seconds=slices[-1].step.last_late if slices else 0.0,
        changing=changing,
        metrics=_metrics(measurement),
        ages=_ages(measurement, now),
        promises=promises,
        keys=keys,
        slots=slots,
        cores=cores,
    )
    return Period(more, slices, seconds)


def bottleneck_answer(
    measurement: Measurement, now: float, sources: Sequence[SourceAnswer], application: BacklogAnswer
) -> BottleneckAnswer | None:
    """The operator that limits the application at the present plan; None if none does."""
    slices = [one for one in measurement.deciding.slices() if one.topology is measurement.topology]
    overdue = now - slices[-1].end if slices else 0.0
    present = _now(measurement, now, sources, application)
    lately = (Period(present, slices, seconds + overdue) for seconds in _LATELY_SECONDS)
    found = next(filter(None, map(bottleneck, lately)), None)
    if found is None:
        return None
    return {
        "operator": found.operator,
        "busy": found.busy,
        "slotBusy": found.slot_busy,
        "perSecond": found.per_second,
        "wantedPerSecond": found.wanted_per_second,
        "partitions": found.partitions,
        "enough": found.enough,
    }


def _now(
    measurement: Measurement, now: float, sources: Sequence[SourceAnswer], application: BacklogAnswer
) -> Now:
    """What all figures of a moment share."""
    plan, caught_up = measurement.plan, application["caughtUpAt"]
    return Now(
        application="" if plan is None else plan.application,
        at=now,
        window_seconds=0.0 if plan is None else plan.window_seconds,
        plan_version=0 if plan is None else plan.plan_version,
        committed=measurement.deciding.last,
        topology=measurement.topology,
        sources=tuple(map(_source, sources)),
        caught_up_in_seconds=None if caught_up is None else max(0.0, caught_up - now),
        verdict=str(application["verdict"]),
        processes=measurement.processes(),
        running=measurement.seconds_running(),
    )


def _source(row: SourceAnswer) -> SourceFigures:
    """A source, as its backlog's answer has it."""
    arriving, taken = row["arrivalPerSecond"], row["drainPerSecond"] or 0.0
    return SourceFigures(
        operator=row["operator"],
        arriving_per_second=arriving,
        taken_per_second=taken,
        backlog=row["backlogRecords"],
        grows_per_second=None if arriving is None else arriving - taken,
        backlog_seconds=row["backlogSeconds"],
        verdict=str(row["verdict"]),
        unit=row["unit"],
    )


def _metrics(measurement: Measurement) -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in measurement.own_metrics.all():
        found.setdefault(one["operator"], {})[one["metric"]] = one["value"]
    return found


def _ages(measurement: Measurement, now: float) -> Mapping[str, Spread]:
    """The record ages of logical operators, where records were last seen there; of the oldest partition."""
    oldest: dict[str, tuple[int, float, RecordAgeAnswer]] = {}
    names, places = {node.id: node.name for node in measurement.topology.operators}, list(LEVELS)
    for row in measurement.record_age(now)["operators"]:
        if row["p99Ms"] is None:
            continue
        name, rank = names[row["id"]], (places.index(row["at"]), row["p99Ms"])
        if name not in oldest or rank > oldest[name][:2]:
            oldest[name] = *rank, row
    return {name: _spread(row) for name, (_, _, row) in oldest.items()}


def _spread(row: RecordAgeAnswer) -> Spread:
    average, p50, p90, p99, most = (
        (row[name] or 0.0) / 1000 for name in ("avgMs", "p50Ms", "p90Ms", "p99Ms", "maxMs")
    )
    return Spread(average, p50, p90, p99, most, row["count"])

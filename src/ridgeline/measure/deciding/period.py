"""Figures over a period from those of a run, for policies, advice and the bottleneck."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ridgeline.measure.age.record_age import place_order
from ridgeline.measure.answers.operators import RecordAgeAnswer
from ridgeline.measure.answers.progress import BacklogAnswer, BottleneckAnswer, SourceAnswer
from ridgeline.measure.deciding.capacity import bottleneck
from ridgeline.measure.deciding.figures import ApplicationFigures, PromiseState, SourceFigures, Spread
from ridgeline.measure.history.step import Slice

if TYPE_CHECKING:
    from ridgeline.measure.measurement import Measurement

_OF_PROMISES = ("promise", "kind", "operator", "kept", "since", "figure", "limit", "unit")
_LATELY_SECONDS = 10.0, 3.0
"""Over so long it is said which operator is full: over the shorter time one that was not before."""


def application_figures(
    measurement: Measurement, now: float, seconds: float, **known: Any
) -> ApplicationFigures:
    """The figures of the last `seconds` seconds; of more than a minute only after `keep_figures`.

    `known`: as in `Watch.application_figures`.
    """
    sources, application = measurement.backlog(now)
    slices = measurement.deciding.slices()
    return replace(
        _figures(measurement, now, slices, sources, application),
        period=seconds,
        late_seconds=slices[-1].step.last_late if slices else 0.0,
        metrics=_metrics(measurement),
        ages=_ages(measurement, now),
        promises=[_promise(row) for row in measurement.counts.promises.rows(now)],
        **known,
    )


def bottleneck_answer(
    measurement: Measurement, now: float, sources: Sequence[SourceAnswer], application: BacklogAnswer
) -> BottleneckAnswer | None:
    """The operator that limits the application at the present plan; None if none does."""
    slices = [one for one in measurement.deciding.slices() if one.topology is measurement.topology]
    overdue = now - slices[-1].end if slices else 0.0
    figures = _figures(measurement, now, slices, sources, application)
    lately = (figures.for_seconds(seconds + overdue) for seconds in _LATELY_SECONDS)
    return next(filter(None, map(bottleneck, lately)), None)


def _figures(
    measurement: Measurement,
    now: float,
    slices: Sequence[Slice],
    sources: Sequence[SourceAnswer],
    application: BacklogAnswer,
) -> ApplicationFigures:
    """The figures of all slices, with what is known in any case."""
    plan = measurement.plan
    return ApplicationFigures(
        name="" if plan is None else plan.application,
        at=now,
        window_seconds=0.0 if plan is None else plan.window_seconds,
        plan_version=0 if plan is None else plan.plan_version,
        committed=measurement.deciding.last,
        topology=measurement.topology,
        slices=slices,
        period=math.inf,
        sources=tuple(map(_source, sources)),
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


def _promise(row: Any) -> PromiseState:
    """A promise as those see it who decide."""
    return PromiseState(*(row[name] for name in _OF_PROMISES))


def _metrics(measurement: Measurement) -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in measurement.own_metrics.all():
        found.setdefault(one["operator"], {})[one["metric"]] = one["value"]
    return found


def _ages(measurement: Measurement, now: float) -> Mapping[str, Spread]:
    """The record ages of logical operators, where records were last seen there; of the oldest partition."""
    by_id, rows = measurement.topology.by_id, measurement.record_age(now)["operators"]
    known = [row for row in rows if row["p99Ms"] is not None]
    known.sort(key=lambda row: (place_order(row["at"]), row["p99Ms"]))
    return {by_id[row["id"]].name: _spread(row) for row in known}


def _spread(row: RecordAgeAnswer) -> Spread:
    average, p50, p90, p99, most = (
        (row[name] or 0.0) / 1000 for name in ("avgMs", "p50Ms", "p90Ms", "p99Ms", "maxMs")
    )
    return Spread(average, p50, p90, p99, most, row["count"])

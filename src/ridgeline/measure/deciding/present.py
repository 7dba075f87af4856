"""State that the metrics of one moment share, from the measurement's answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ridgeline.measure.answers.operators import RecordAgeAnswer
from ridgeline.measure.answers.progress import SourceAnswer
from ridgeline.measure.deciding.figures import ApplicationFigures, PromiseState, SourceFigures, Spread
from ridgeline.measure.deciding.period import Keys, Now, Period

if TYPE_CHECKING:
    from ridgeline.measure.measurement import Measurement

_PLACES = ("publish", "commit", "emit", "state", "source")
"""Where a record's age is taken; the last one on its way counts."""


def application_figures(
    measurement: Measurement,
    now: float,
    seconds: float,
    promises: Sequence[PromiseState] = (),
    *,
    changing: bool = False,
    keys: Keys | None = None,
    slots: int | None = None,
) -> ApplicationFigures:
    """The figures of the last `seconds` seconds. Raises ValueError if none are kept (`keep_figures`)."""
    fold, plan = measurement.deciding, measurement.plan
    if fold is None:
        raise ValueError("no figures are kept for those who decide")
    slices, (sources, application) = fold.slices(), measurement.backlog(now)
    caught_up = application["caughtUpAt"]
    present = Now(
        application="" if plan is None else plan.application,
        at=now,
        window_seconds=0.0 if plan is None else plan.window_seconds,
        plan_version=0 if plan is None else plan.plan_version,
        committed=fold.last,
        topology=measurement.topology,
        sources=tuple(map(_source, sources)),
        late_seconds=float(slices[-1].whole[-1, 1]) if slices and len(slices[-1].whole) else 0.0,
        caught_up_in_seconds=None if caught_up is None else max(0.0, caught_up - now),
        verdict=str(application["verdict"]),
        changing=changing,
        processes=measurement.processes(),
        metrics=_metrics(measurement),
        ages=_ages(measurement, now),
        promises=promises,
        keys=keys,
        slots=slots,
    )
    return Period(present, slices, seconds)


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
    )


def _metrics(measurement: Measurement) -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in measurement.own_metrics.all():
        found.setdefault(one["operator"], {})[one["metric"]] = one["value"]
    return found


def _ages(measurement: Measurement, now: float) -> Mapping[str, Spread]:
    """The record ages of logical operators, where records were last seen there; of the oldest partition."""
    oldest: dict[str, tuple[int, float, RecordAgeAnswer]] = {}
    names = {node.id: node.name for node in measurement.topology.operators}
    for row in measurement.record_age(now)["operators"]:
        if row["p99Ms"] is None:
            continue
        name, rank = names[row["id"]], (-_PLACES.index(row["at"]), row["p99Ms"])
        if name not in oldest or rank > oldest[name][:2]:
            oldest[name] = *rank, row
    return {name: _spread(row) for name, (_, _, row) in oldest.items()}


def _spread(row: RecordAgeAnswer) -> Spread:
    average, p50, p90, p99, most = (
        (row[name] or 0.0) / 1000 for name in ("avgMs", "p50Ms", "p90Ms", "p99Ms", "maxMs")
    )
    return Spread(average, p50, p90, p99, most, row["count"])

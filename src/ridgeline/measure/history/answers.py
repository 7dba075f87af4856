"""The history as plain data for JSON."""

from __future__ import annotations

import math

import numpy as np

from ridgeline.api.support.duration import as_ms
from ridgeline.measure.answers.history import (
    ApplicationHistoryAnswer,
    ApplicationStepAnswer,
    OperatorHistoryAnswer,
    OperatorStepAnswer,
    OutputAgesAnswer,
)
from ridgeline.measure.history.codes import decode
from ridgeline.measure.history.fold import HistoryFold
from ridgeline.measure.history.step import Kept, Step

DEFAULT_SECONDS = 900
"""How far back an answer goes if it is not said."""


def begin_of(begin: float | None, now: float) -> float:
    """A moment in seconds since 1970; below 0 it is so long before `now`."""
    begin = -DEFAULT_SECONDS if begin is None else begin
    return now + begin if begin < 0 else begin


def operator_history(
    fold: HistoryFold, name: str, now: float, begin: float | None = None, step: float | None = None
) -> OperatorHistoryAnswer:
    """The steps that have a logical operator. `begin`, `step`: as in `HistoryFold.steps`."""
    width, kept, steps = fold.steps(begin_of(begin, now), now, step)
    own = [one for one in steps if name in one.index]
    return {
        "operator": name,
        "step": width,
        "keptSeconds": kept,
        "steps": [_operator_step(one, one.index[name]) for one in own],
    }


def application_history(
    fold: HistoryFold, now: float, begin: float | None = None, step: float | None = None
) -> ApplicationHistoryAnswer:
    """The steps of all windows. `begin`, `step`: as in `HistoryFold.steps`."""
    width, kept, steps = fold.steps(begin_of(begin, now), now, step)
    return {"step": width, "keptSeconds": kept, "steps": [_application_step(one) for one in steps]}


def _operator_step(one: Step, column: int) -> OperatorStepAnswer:
    """A step of the operator in a column."""
    found = decode(one.codes[:, column])
    seconds = [as_ms(float(value)) if value == value else None for value in found]  # noqa: PLR0124  NaN
    plain = [float(value) if value == value else None for value in found]  # noqa: PLR0124  NaN
    errors, late = plain[Kept.ERRORS], plain[Kept.LATE]
    return {
        "at": one.at,
        "seconds": one.seconds,
        "windows": one.windows,
        "latencyMs": seconds[Kept.MEDIAN],
        "greatestMs": seconds[Kept.GREATEST],
        "computeMs": seconds[Kept.COMPUTE],
        "waitMs": seconds[Kept.WAIT],
        "transferMs": seconds[Kept.TRANSFER],
        "tuplesIn": plain[Kept.TUPLES_IN],
        "tuplesOut": plain[Kept.TUPLES_OUT],
        "queue": plain[Kept.QUEUE],
        "greatestQueue": plain[Kept.MOST_QUEUED],
        "errors": None if errors is None else round(errors),
        "late": None if late is None else round(late),
        "stateBytes": plain[Kept.STATE],
        "onPath": plain[Kept.ON_PATH],
        "ageMs": seconds[Kept.AGE],
        "greatestAgeMs": seconds[Kept.GREATEST_AGE],
    }


def _application_step(one: Step) -> ApplicationStepAnswer:
    """A step of all windows."""
    whole = one.whole
    return {
        "at": one.at,
        "seconds": one.seconds,
        "windows": one.windows,
        "latencyMs": as_ms(whole.median),
        "p99Ms": as_ms(whole.p99),
        "greatestMs": as_ms(whole.greatest),
        "lateMs": as_ms(whole.late),
        "tuplesIn": whole.tuples_in,
        "tuplesOut": whole.tuples_out,
        "ages": _ages(one),
    }


def _ages(one: Step) -> list[OutputAgesAnswer]:
    """The outputs of a step that had ages."""
    columns = [one.index[name] for name in one.outputs]
    found = decode(one.codes[Kept.AGE : Kept.GREATEST_AGE + 1, columns]) if columns else np.empty((2, 0))
    return [
        {"operator": name, "ageMs": as_ms(float(mean)), "greatestAgeMs": as_ms(float(greatest))}
        for name, mean, greatest in zip(one.outputs, *found, strict=True)
        if not math.isnan(mean)
    ]

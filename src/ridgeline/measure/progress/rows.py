"""Progress as plain data for JSON: the rows of operators and the window, and numbers without an end."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ridgeline.measure.answers.progress import (
    EstimateAnswer,
    InfiniteAnswer,
    OperatorProgressAnswer,
    WindowProgressAnswer,
)
from ridgeline.measure.events import RunningOperator
from ridgeline.measure.progress.columns import DONE, WAITING, WindowProgress
from ridgeline.measure.progress.estimate import NOTHING, UNKNOWN, Basis, Estimate
from ridgeline.measure.progress.estimated import BASES, Estimates, Numbers, chosen, nothing, totals
from ridgeline.measure.progress.windows import WindowInFlight


def operator_rows(
    figures: WindowProgress, reports: Mapping[int, RunningOperator]
) -> list[OperatorProgressAnswer]:
    """How far the operators are. `reports`: their last heartbeats in the window."""
    nodes, inputs, owners = figures.shape.topology.operators, figures.shape.inputs, figures.owners
    size, there = len(nodes), figures.present
    last = [reports.get(node.id) for node in nodes]
    heard = (figures.states == WAITING) | np.array([one is not None for one in last], np.bool_)
    produced, oldest = _by_port(figures)
    queued = np.where(inputs, 0.0, figures.buffered.value)
    queued = np.where(np.isfinite(queued) & (heard | (queued != 0)), queued, np.nan)
    columns = {
        "operator": [node.title for node in nodes],
        "id": [node.id for node in nodes],
        "state": [figures.reports.names[code] for code in figures.states.tolist()],
        "consumed": _counts(np.where(inputs, 0, figures.counts.consumed), heard),
        "queued": _finite(queued),
        "active": _counts(figures.counts.active, heard),
        "produced": _counts(np.bincount(owners, figures.produced, minlength=size), heard),
        "producedByPort": produced,
        "activeProducedByPort": map(_active, last),
        "secondsSpent": _finite(np.where(heard, figures.spent, np.nan)),
        "averageSecondsPerElement": _finite(figures.average.value),
        "inputRemaining": to_json(chosen(inputs, nothing(size), figures.input_remaining)),
        "outputRemaining": to_json(totals(owners[there], size, figures.output_remaining.at(there))),
        "remainingSeconds": to_json(figures.remaining_seconds),
        "oldestInFlight": oldest,
    }
    rows: Any = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return cast("list[OperatorProgressAnswer]", rows)


def _counts(values: npt.NDArray[Any], heard: npt.NDArray[np.bool_]) -> list[int | None]:
    """Whole numbers; None for operators of which nothing has come yet."""
    return [int(one) if known else None for one, known in zip(values.tolist(), heard.tolist(), strict=True)]


def _by_port(figures: WindowProgress) -> tuple[list[dict[str, int]], list[dict[str, float]]]:
    """Of each operator, the tuples emitted by output port, and the oldest times of what is in flight."""
    produced: list[dict[str, int]] = [{} for _ in figures.states]
    oldest: list[dict[str, float]] = [{} for _ in figures.states]
    owners, count, times = (one.tolist() for one in (figures.owners, figures.produced, figures.oldest))
    ports = [port for _, port in islice(figures.shape.ports, len(owners))]
    for place in np.flatnonzero(figures.present).tolist():
        produced[owners[place]][ports[place]] = int(count[place])
        if times[place] == times[place]:
            oldest[owners[place]][ports[place]] = times[place]
    return produced, oldest


def _active(report: RunningOperator | None) -> dict[str, int]:
    """The tuples that are of tuples being processed, by output port; none of an operator that is done."""
    if report is None or report.state == "done":
        return {}
    return {port: max(0, count) for port, count in report.active_produced.items()}


def states_of(figures: WindowProgress) -> dict[int, str]:
    """The state of each operator, by id."""
    names = map(figures.reports.names.__getitem__, figures.states.tolist())
    return dict(zip(figures.shape.topology.places, names, strict=True))


def works_of(figures: WindowProgress) -> list[bool]:
    """Of each container, in order, whether an operator of it is not done."""
    rows = figures.shape.containers[figures.states != DONE]
    works: list[bool] = (np.bincount(rows, minlength=len(figures.by_container.value)) > 0).tolist()
    return works


def to_json(given: Estimates) -> list[EstimateAnswer]:
    """`Estimate.to_json` of several."""
    names = [basis.value for basis in BASES]
    return [
        {"value": value, "basis": names[rank]}
        if value - value == 0
        else {"value": None, "basis": names[rank], "infinite": True}
        if value == value  # noqa: PLR0124  not NaN
        else {"value": None, "basis": names[rank]}
        for value, rank in zip(given.value.tolist(), given.rank.tolist(), strict=True)
    ]


def _finite(values: Numbers) -> list[float | None]:
    """`finite` of several."""
    return [value if value - value == 0 else None for value in values.tolist()]


def window_row(window: WindowInFlight, figures: WindowProgress, now: float) -> WindowProgressAnswer:
    """How far the window is. What is left of a silent one that takes longer than expected is unknown."""
    elapsed, left, cpu = window.elapsed(now), NOTHING, NOTHING
    if window.running:
        left, cpu = figures.wall_seconds, figures.cpu_seconds
        silent = not window.heartbeats and not window.ended
        if silent and (elapsed or 0.0) > (left.value or 0.0):
            left = cpu = UNKNOWN
    over = elapsed is not None and not window.running
    end = None if not window.running or left.value is None or left.infinite else now + left.value
    return {
        "remainingSeconds": finite(left),
        "cpuRemainingSeconds": finite(cpu),
        "fractionDone": 1.0 if over else _fraction_done(elapsed, left),
        "basis": left.basis.value,
        "expectedEndAt": end,
        **infinite(left),
    }


def _fraction_done(elapsed: float | None, left: Estimate) -> float | None:
    """The elapsed part of the window's whole time; None if it is not known.

    A window that runs longer than estimated has an unknown position.
    """
    if elapsed is None or left.value is None:
        return None
    if left.infinite:
        return 0.0
    certain = left.value > 0 or left.basis is Basis.EXACT
    return elapsed / (elapsed + left.value) if certain and elapsed + left.value > 0 else None


def finite(estimate: Estimate) -> float | None:
    """The number; None if it is unknown or infinite."""
    return None if estimate.infinite else estimate.value


def infinite(estimate: Estimate) -> InfiniteAnswer:
    """The mark of an infinite number; nothing for others."""
    return {"infinite": True} if estimate.infinite else {}

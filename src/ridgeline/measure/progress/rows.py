"""Progress as plain data for JSON: the rows of operators and the window, and numbers without an end."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import numpy as np

from ridgeline.measure.answers.progress import (
    EstimateAnswer,
    InfiniteAnswer,
    OperatorProgressAnswer,
    WindowProgressAnswer,
)
from ridgeline.measure.events import RunningOperator
from ridgeline.measure.progress.columns import DONE, WAITING, ProgressColumns
from ridgeline.measure.progress.estimate import NOTHING, Basis, Estimate
from ridgeline.measure.progress.estimated import BASES, Estimates, Numbers, chosen, nothing, totals


def operator_rows(
    figures: ProgressColumns, reports: Mapping[int, RunningOperator]
) -> list[OperatorProgressAnswer]:
    """How far the operators are. `reports`: their last heartbeats in the window."""
    shape, inputs = figures.shape, figures.shape.inputs
    nodes, size = shape.topology.operators, len(shape.topology.operators)
    owners = figures.owners
    produced: list[dict[str, int]] = [{} for _ in nodes]
    oldest: list[dict[str, float]] = [{} for _ in nodes]
    ports = zip(
        islice(shape.ports, len(owners)),
        owners.tolist(),
        figures.present.tolist(),
        figures.produced.tolist(),
        figures.oldest.tolist(),
        strict=True,
    )
    for (_, port), owner, present, count, at in ports:
        if present:
            produced[owner][port] = int(count)
            if at == at:  # noqa: PLR0124  not NaN
                oldest[owner][port] = at
    outputs = totals(owners[figures.present], size, figures.output_remaining.at(figures.present))
    sums = np.bincount(owners, figures.produced, minlength=size)
    columns = zip(
        nodes,
        figures.states.tolist(),
        np.where(inputs, 0, figures.consumed).tolist(),
        _finite(np.where(inputs, 0.0, figures.buffered.value)),
        figures.active.tolist(),
        sums.tolist(),
        produced,
        figures.spent.tolist(),
        _finite(figures.average.value),
        to_json(chosen(inputs, nothing(size), figures.input_remaining)),
        to_json(outputs),
        to_json(figures.remaining_seconds),
        oldest,
        strict=True,
    )
    none: Mapping[str, int] = {}
    return [
        {
            "operator": node.title,
            "id": node.id,
            "state": figures.names[state],
            "consumed": int(consumed) if heard else None,
            "queued": queued if heard else queued or None,
            "active": int(active) if heard else None,
            "produced": int(whole) if heard else None,
            "consumedByPort": {
                port: max(0, count)
                for port, count in (reports[node.id].consumed if node.id in reports else none).items()
            },
            "producedByPort": by_port,
            "activeProducedByPort": _active(reports.get(node.id)),
            "secondsSpent": spent if heard else None,
            "averageSecondsPerElement": average,
            "inputRemaining": incoming,
            "outputRemaining": outgoing,
            "remainingSeconds": left,
            "oldestInFlight": times,
        }
        for node, state, consumed, queued, active, whole, by_port, spent, average, incoming, outgoing, left,
        times in columns
        for heard in [node.id in reports or state == WAITING]
    ]  # fmt: skip


def _active(report: RunningOperator | None) -> dict[str, int]:
    """The tuples that are of tuples being processed, by output port; none of an operator that is done."""
    if report is None or report.state == "done":
        return {}
    return {port: max(0, count) for port, count in report.active_produced.items()}


def states_of(figures: ProgressColumns) -> dict[int, str]:
    """The state of each operator, by id."""
    nodes = figures.shape.topology.operators
    return {node.id: figures.names[code] for node, code in zip(nodes, figures.states.tolist(), strict=True)}


def container_estimates(figures: ProgressColumns) -> list[EstimateAnswer]:
    """The seconds left of each container, in order."""
    return to_json(figures.by_container)


def works_of(figures: ProgressColumns) -> list[bool]:
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


def window_row(figures: ProgressColumns, elapsed: float | None, now: float | None) -> WindowProgressAnswer:
    """How far the window is; `now` is None if none runs: then nothing is left."""
    left = figures.wall_seconds if now is not None else NOTHING
    done = _fraction_done(elapsed, left)
    if now is None and elapsed is not None:
        done = 1.0
    return {
        "remainingSeconds": finite(left),
        "cpuRemainingSeconds": finite(figures.cpu_seconds if now is not None else NOTHING),
        "fractionDone": done,
        "basis": left.basis.value,
        "expectedEndAt": now + left.value
        if now is not None and left.value is not None and not left.infinite
        else None,
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

"""Progress as plain data for JSON: the rows of operators and the window, and numbers without an end."""

from __future__ import annotations

from ridgeline.measure.answers.progress import InfiniteAnswer, OperatorProgressAnswer, WindowProgressAnswer
from ridgeline.measure.events import RunningOperator
from ridgeline.measure.progress.estimate import NOTHING, Basis, Estimate, total
from ridgeline.measure.progress.formulas import OperatorProgress, WindowProgress
from ridgeline.measure.topology import OperatorNode


def operator_row(
    node: OperatorNode, figures: OperatorProgress, report: RunningOperator | None
) -> OperatorProgressAnswer:
    """How far an operator is; `report`: its last heartbeat in the window."""
    return {
        "operator": node.title,
        "id": node.id,
        "state": figures.state,
        "consumed": int(figures.consumed) if node.kind != "input" else 0,
        "queued": finite(figures.buffered) if node.kind != "input" else 0,
        "active": int(figures.active),
        "produced": int(sum(figures.produced.values())),
        "consumedByPort": {} if report is None else {port: max(0, n) for port, n in report.consumed.items()},
        "producedByPort": {port: int(count) for port, count in figures.produced.items()},
        "secondsSpent": figures.seconds_spent,
        "averageSecondsPerElement": finite(figures.seconds_per_element),
        "inputRemaining": (figures.input_remaining if node.kind != "input" else NOTHING).to_json(),
        "outputRemaining": total(figures.output_remaining.values()).to_json(),
        "remainingSeconds": figures.remaining_seconds.to_json(),
        "oldestInFlight": dict(figures.oldest_in_flight),
    }


def window_row(figures: WindowProgress, elapsed: float | None, now: float | None) -> WindowProgressAnswer:
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

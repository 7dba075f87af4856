"""The failure of a window whose changes of state cannot be written."""

from __future__ import annotations

from collections.abc import Mapping

from ridgeline.api.errors import Failure, OperatorError, described
from ridgeline.api.support.pickling import dumps
from ridgeline.engine.state import state_files
from ridgeline.plan.physical import PhysicalOperator


def unwritable(
    application: str,
    operators: Mapping[int, PhysicalOperator],
    changes: Mapping[int, state_files.CellChanges],
    window_id: int,
    error: Exception,
) -> OperatorError:
    """Name the operator whose state cannot be pickled; the first of `operators` if none is found."""
    found, text = next(iter(operators.values())), described(error)
    for operator_id, cells in changes.items():
        for cell, change in cells.items():
            try:
                dumps(change)
            except Exception:  # noqa: BLE001  it is this one
                found = operators[operator_id]
                text = f"state `{cell}` cannot be written: {error}; keep plain values in state, make "
                text += "connections and the like in `setup`"
    name = found.title if found.unifier else found.name
    return OperatorError(
        Failure(application, name, found.partition, window_id, "checkpoint", text, raised=True)
    )

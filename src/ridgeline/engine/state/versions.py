"""Restore an operator's state version: from what a process holds by the missing deltas, or from the files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from ridgeline.api.cells.cell import Change, StateCell
from ridgeline.engine.state import state_files
from ridgeline.engine.state.keyed_segment import OwnSegment
from ridgeline.engine.state.keyed_segments import Part, Segment, Segments, SegmentsChange
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import StateVersion

Changes: TypeAlias = Callable[[str, str], Mapping[str, Change]]
"""Reads the changes in a state file (by name) of the operator with a state key."""


def restore(
    files: SegmentFiles,
    operator: PhysicalOperator,
    cells: Mapping[str, StateCell],
    wanted: StateVersion,
    held: StateVersion | None = None,
    epoch: int = 0,
    each: Callable[[], None] | None = None,
) -> None:
    """Bring cells to the version `wanted`; `held`: their version, None if unknown. `epoch`: the driver's.

    `each`: called after each file that was read.

    A version that was compacted meanwhile is the same state, so the cells stay and only later deltas are
    read. If it was compacted into other segments the cells are loaded again. That is cheap, since segments
    are mapped, and keeps what the cells hold beside them small. Raises StateError naming a file that is
    missing or corrupt, OSError.
    """
    missing = _missing(wanted, held)
    segments: dict[str, Segment] = {}
    if missing is None:
        missing = tuple(name for name in wanted if not state_files.is_segment(name))
        # before the same ones are released
        segments = {name: files.open(name, epoch) for name in state_files.segments_of(wanted)}
        # The same state, compacted meanwhile: its values stay, only the files are others.
        same = held and wanted and state_files.covered(held[-1]) == state_files.covered(wanted[-1])
        for cell in cells.values():
            cell.rebind_files() if same else cell.reset()
        files.retire(operator.id, wanted)
    for name in missing:
        for cell_name, change in state_files.read(files.storage, name, operator.state_key).items():
            if cell_name in cells:
                _apply(cells[cell_name], change, segments)
        if each is not None:
            each()


def load(
    files: SegmentFiles,
    key: str,
    cells: Mapping[str, StateCell],
    version: StateVersion,
    changes: Changes | None = None,
) -> None:
    """Fill empty cells with a version of the state that has this key. Raises StateError, OSError.

    `changes` reads its files, None: as they are.
    """
    segments = {name: files.open(name) for name in state_files.segments_of(version)}
    changes = changes or partial(state_files.read, files.storage)
    for name in version:
        if not state_files.is_segment(name):
            for cell_name, change in changes(name, key).items():
                if cell_name in cells:
                    _apply(cells[cell_name], change, segments)


def _missing(wanted: StateVersion, held: StateVersion | None) -> StateVersion | None:
    """The deltas between two versions, None if they do not lead from the one to the other."""
    if not held or state_files.segments_of(held) != state_files.segments_of(wanted):
        return None
    reached = state_files.covered(held[-1])
    if wanted and reached == state_files.covered(wanted[-1]):
        return ()
    covered = [state_files.covered(name) for name in wanted]
    if reached not in covered:
        return None
    return wanted[len(covered) - covered[::-1].index(reached) :]


def attach(cell: Any, change: SegmentsChange, segments: Mapping[str, Segment]) -> None:
    """Fill an empty cell with what a snapshot says that it has of some segments, by name."""
    parts = change.parts or (Part(change.names, None),)
    base = Segments(
        *(
            [segments[name] if keys is None else OwnSegment(segments[name], keys) for name in names]
            for names, keys in parts
        )
    )
    cell.attach(base, change.application_window, change.changed, change.values, change.removed)


def _apply(cell: Any, change: Sequence[Any], segments: Mapping[str, Segment]) -> None:
    if isinstance(change, SegmentsChange):
        attach(cell, change, segments)
    else:
        cell.apply(change)

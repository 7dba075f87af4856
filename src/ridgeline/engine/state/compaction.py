"""Compaction of an operator's state version: deltas become one snapshot; large keyed states, segments.

It needs no running operator, only its declarations, and touches none: it can be done beside the windows, in
any process. A file that it writes counts once a manifest names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from ridgeline.api.cells.cell import Change, StateCell
from ridgeline.api.operator import operator_type
from ridgeline.api.state import HELD, PLATFORM, KeyedCell, ValueCell
from ridgeline.engine.state import state_files
from ridgeline.engine.state.held import HeldCell
from ridgeline.engine.state.keyed_segments import Segment, compact
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.slides import SLIDES, SlidesCell
from ridgeline.engine.state.versions import restore
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import StateVersion

_NOTHING: Mapping[str, Change] = {}
_NO_SIZES: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Compact this version of an operator's state (physical id) into files whose names begin with `stem`."""

    operator: int
    version: StateVersion
    stem: str


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The same state in other files: segments, then the snapshot.

    `size_bytes` is the snapshot's, which every reader has to load.
    """

    names: StateVersion
    size_bytes: int


class StateCompactor:
    """Compacts versions of states in one process. Not thread-safe.

    `each`: called after each file that was read, perhaps to let others run.
    """

    def __init__(
        self,
        files: SegmentFiles,
        operators: Iterable[PhysicalOperator],
        each: Callable[[], None] | None = None,
    ) -> None:
        self._files = files
        self._each = each
        self._operators = {operator.id: operator for operator in operators}
        self._segments: dict[int, list[Segment]] = {}
        """Those of the last compactions, kept open: the next ones need not check them again."""

    def compact(self, job: CompactionTask) -> CompactionResult:
        """Write the compacted files.

        Raises StateError for a file that cannot be read, OSError, and what pickle raises.
        """
        operator = self._operators[job.operator]
        cells = cells_of(operator)
        restore(self._files, operator, cells, job.version, each=self._each)
        result, opened = write_cells(self._files, operator.state_key, cells, job.stem)
        self._segments[job.operator] = opened
        return result


def cells_of(operator: PhysicalOperator) -> dict[str, StateCell]:
    """Empty cells for all states that an operator may have."""
    cells: dict[str, StateCell] = {
        name: declaration.cell()
        for name, declaration in operator_type(type(operator.operator)).states.items()
    }
    cells |= {name: HeldCell() if name == HELD else ValueCell(None) for name in PLATFORM}
    if operator.slides:
        cells[SLIDES] = SlidesCell()
    return cells


def write_cells(
    files: SegmentFiles,
    key: str,
    cells: Mapping[str, StateCell],
    stem: str,
    moved: Mapping[str, Change] = _NOTHING,
    known: Mapping[str, int] = _NO_SIZES,
) -> tuple[CompactionResult, list[Segment]]:
    """Write what cells hold into files whose names begin with `stem`; returns these, and the open segments.

    `key`: the state key under which it is found. `moved`: what is written for some cells in the place of what
    they hold. `known`: the sizes of segments that need not be opened. Raises OSError, and what pickle raises.
    """
    numbers = count()

    def write(parts: Callable[[str], Iterable[bytes]]) -> str:
        name = f"{stem}segment{next(numbers)}"
        files.storage.write_parts(f"{state_files.FOLDER}/{name}", parts(name))
        return name

    segments: list[str] = []
    changes: dict[str, Change] = {}
    for name, cell in cells.items():
        if name in PLATFORM and cell.snapshot() == (None,):
            continue  # it has none
        if name in moved:
            changes[name] = moved[name]
            segments += moved[name].names  # type: ignore[attr-defined]  # of segments
        else:
            changes[name] = _change(cell, write, segments)
    opened = [files.open(name) for name in segments if name not in known]
    snapshot = f"{stem}snapshot"
    sizes = {name: (known[name],) for name in segments if name in known}
    sizes |= {state_files.last_part(segment.name): (segment.size_bytes,) for segment in opened}
    data, written = state_files.encode(snapshot, {key: changes, state_files.SEGMENT_SIZES: sizes})
    state_files.write(files.storage, snapshot, data)
    return CompactionResult((*segments, snapshot), written[key]), opened


def _change(cell: StateCell, write: Any, segments: list[str]) -> Change:
    """Everything in a cell as a change; adds the segments that it needs to `segments`."""
    change = compact(cell, write) if isinstance(cell, KeyedCell) else None
    if change is None:
        return cell.snapshot()
    change = change._replace(names=tuple(state_files.last_part(name) for name in change.names))
    segments += change.names
    return change

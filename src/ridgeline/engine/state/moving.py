"""Move the state of an operator's partitions to other partitions, or to another name.

Keyed states go by key: each key to the partition that gets its tuples from now on. What lies in segments is
not copied, its new owners share them (see `keyed_segment`). Watermarks begin with the least one. Every
other state goes by what its declaration says (`moves`). One that has its default in all partitions needs no
word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ridgeline.api.cells.cell import Change, StateCell, differs
from ridgeline.api.errors import StateError
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.api.state import ENDED, HELD, METRICS, WATERMARK, KeyedCell, ValueCell
from ridgeline.engine.state import state_files
from ridgeline.engine.state.compaction import cells_of, write_cells
from ridgeline.engine.state.held import HeldCell
from ridgeline.engine.state.keyed_moves import AT_A_BORDER, Division, KeyedSource, value_of
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.slides import SLIDES
from ridgeline.engine.state.versions import Changes, load
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import StateVersion

Cells = Mapping[str, StateCell]


@dataclass(frozen=True, slots=True)
class MoveSource:
    """The state of one partition: its state key, and the version that is there; () if it has none."""

    key: str
    version: StateVersion

    @property
    def place(self) -> tuple[int, int]:
        """Which partition it is, of how many."""
        _, partition, partitions = self.key.rsplit("/", 2)
        return int(partition), int(partitions)


def move(
    files: SegmentFiles,
    sources: Sequence[MoveSource],
    targets: Sequence[PhysicalOperator],
    stem: Callable[[PhysicalOperator], str],
    before: Sequence[PartitionKeys] | None = None,
    changes: Changes | None = None,
) -> dict[int, StateVersion]:
    """Write the state of some partitions as that of others; returns the versions, by physical id.

    `targets`: all partitions of one operator, in order. `stem` gives the beginning of the names of the files
    for a target. `before`: which keys each partition had, None if that is not known. `changes` reads the
    files, None: as they are. Raises StateError naming the state that cannot be moved, OSError.
    """
    if not any(source.version for source in sources):
        return {}
    operator = targets[0]
    if len(sources) == len(targets) == 1 and sources[0].place[1] == operator.partitions:
        alone = cells_of(operator)
        load(files, sources[0].key, alone, sources[0].version, changes)
        written: list[tuple[Cells, Mapping[str, Change]]] = [(alone, {})]
        sizes: dict[str, int] = {}
    else:
        changes = changes or partial(state_files.read, files.storage)
        held = [_Source(files, source, cells_of(operator), changes) for source in _every(sources)]
        sizes = {name: size for source in held for name, size in source.sizes.items()}
        written = _divided(held, targets, Division(files, held[0].partitions, targets, before))
    versions = {}
    for target, (cells, moved) in zip(targets, written, strict=True):
        result, _ = write_cells(files, target.state_key, cells, stem(target), moved, sizes)
        versions[target.id] = result.names
    return versions


def _every(sources: Sequence[MoveSource]) -> list[MoveSource]:
    """The sources of all partitions; those that hold nothing may not be known."""
    base, _, partitions = sources[0].key.rsplit("/", 2)
    known = {source.key: source for source in sources}
    keys = [f"{base}/{partition}/{partitions}" for partition in range(int(partitions))]
    return [known.get(key) or MoveSource(key, ()) for key in keys]


class _Source:
    """The states of a partition: keyed ones as segments and what lies beside, all others in cells."""

    def __init__(self, files: SegmentFiles, source: MoveSource, cells: Cells, changes: Changes) -> None:
        self.partition, self.partitions = source.place
        self.keyed: dict[str, KeyedSource] = {}
        self.sizes: dict[str, int] = {}
        """Of its segments, in bytes."""
        for name in source.version:
            if state_files.is_segment(name):
                continue
            for cell, change in changes(name, source.key).items():
                if isinstance(cells.get(cell), KeyedCell):
                    self.keyed.setdefault(cell, KeyedSource(self.partition)).apply(change)
                elif cell in cells:
                    cells[cell].apply(change)
        if state_files.segments_of(source.version):
            snapshot = state_files.base_of(source.version)[-1]
            listed = state_files.read(files.storage, snapshot, state_files.SEGMENT_SIZES)
            self.sizes = {name: size for name, (size,) in listed.items()}
        self.cells = cells


def _divided(
    sources: Sequence[_Source], targets: Sequence[PhysicalOperator], division: Division
) -> list[tuple[Cells, Mapping[str, Change]]]:
    """The states of each target, out of those of the sources: cells, and changes that need no cell."""
    after = [cells_of(targets[0]) for _ in targets]
    changes: list[dict[str, Change]] = [{} for _ in targets]
    for name in after[0]:
        held = [source.cells[name] for source in sources]
        into = [cells[name] for cells in after]
        if isinstance(into[0], KeyedCell):
            found = [source.keyed.get(name) or KeyedSource(source.partition) for source in sources]
            for change, one in zip(changes, division.cells(name, found, into), strict=True):
                if one is not None:
                    change[name] = one
        elif name == WATERMARK:
            _least(held, into)
        elif name == ENDED:
            _set(into, True if all(cell.snapshot() == (True,) for cell in held) else None)
        elif name == METRICS:
            continue  # of an application window, which has ended
        elif name == HELD:
            put_held(held, into[0])
        elif any(differs(cell.snapshot(), into[0].snapshot()) for cell in held):
            if name == SLIDES:
                _divide_slides(targets[0], held, into)
            else:
                _put_all(name, into, division.shares(name, list(map(value_of, held)), into[0]), division)
    return list(zip(after, changes, strict=True))


def put_held(held: Sequence[StateCell], into: StateCell) -> None:
    """What several partitions of an input hold back, see `Excess`, becomes that of one."""
    assert isinstance(into, HeldCell)  # noqa: S101  as the platform's own are
    for cell in held:
        assert isinstance(cell, HeldCell)  # noqa: S101  as above
        into.newest = max(into.newest, cell.newest)
        while cell.rows:
            into.keep(cell.first)
            cell.go(len(cell.first.batch))


def _set(cells: Sequence[StateCell], value: Any) -> None:
    for cell in cells:
        assert isinstance(cell, ValueCell)  # noqa: S101  as the platform's own are
        if value is not None:
            cell.apply((value,))


def _least(held: Sequence[StateCell], into: Sequence[StateCell]) -> None:
    """The least watermark of all: no partition gets ahead of what it may still get.

    One that has none is before all others.
    """
    marks = [cell.snapshot()[0] for cell in held]
    if None not in marks:
        _set(into, tuple(map(min, zip(*marks, strict=True))))


def _divide_slides(operator: PhysicalOperator, held: Sequence[StateCell], into: Sequence[StateCell]) -> None:
    """Slides: tuples before a unifier may be in any partition."""
    snapshots = [change for cell in held if (change := cell.snapshot())[0] is not None]
    since = max(change[0] for change in snapshots)
    oldest = max(change[1] for change in snapshots)
    kept: list[dict[int, Sequence[Any]]] = [{} for _ in into]
    for window in sorted({window for *_, parts in snapshots for window in parts}) if operator.slider else ():
        kept[0][window] = [part for *_, parts in snapshots for part in parts.get(window, ())]
    for cell, parts in zip(into, kept, strict=True):
        cell.apply((since, oldest, parts))


def _put_all(name: str, into: Sequence[StateCell], parts: Sequence[Any], division: Division) -> None:
    """Set what each partition holds of a state."""
    if len(parts) != len(into):
        raise division.cannot(name, f"it was given {len(parts)} parts for {len(into)} partitions")
    for cell, value in zip(into, parts, strict=True):
        try:
            _put(cell, value)
        except (StateError, TypeError) as error:
            raise division.cannot(name, f"it cannot hold what it would get: {error}") from error


def _put(cell: StateCell, value: Any) -> None:
    """Set the value of an empty cell.

    Raises StateError for an item of another type, TypeError for no list.
    """
    cell.begin(AT_A_BORDER)
    if isinstance(cell, ValueCell):
        cell.set(value)
    else:
        cell.extend(value)  # type: ignore[attr-defined]  # a list state
        cell.changes()

"""Keyed states of an operator's partitions, divided again: by the hash that divides its tuples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.api.cells.cell import Change, StateCell
from ridgeline.api.cells.keyed_declaration import KeyedState, MovesTo
from ridgeline.api.cells.keyed_overlay import Mask
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.cells.timer_cell import TimerCell
from ridgeline.api.codec import Hashes
from ridgeline.api.columns.nulls import one_nan
from ridgeline.api.errors import StateError, described, shorten
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.engine.state.keyed_segment import Segment
from ridgeline.engine.state.keyed_segments import Part, SegmentsChange
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.shared_segments import belong, both, either, routed, routed_segment
from ridgeline.engine.state.versions import attach
from ridgeline.plan.change.succession import is_by_value
from ridgeline.plan.physical import PhysicalOperator

Owners = npt.NDArray[np.int64]
_AT_A_BORDER = -1


def _belong(keys: PartitionKeys | None, hashes: Hashes) -> Mask:
    """Which hashes belong to a partition; None has all."""
    return np.ones(len(hashes), np.bool_) if keys is None else belong(hashes, keys)


def divides_whole(declared: object) -> bool:
    """True for a state whose declaration says what each partition gets of all that is held."""
    same = isinstance(declared, KeyedState) and declared.moves is not None
    return same or getattr(declared, "moves_to", None) is not None


class KeyedSource:
    """The content of one partition's cell: parts of segments, and what lies beside; nothing is looked up."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.parts: tuple[Part, ...] = ()
        self.values: dict[Any, Any] = {}
        """Values that are set beside segments, in order."""
        self.removed: dict[Any, None] = {}
        """Keys that may be removed from segments, before values are set."""

    def apply(self, change: Change) -> None:
        """Add a snapshot's or a window's values."""
        if isinstance(change, SegmentsChange):
            self.parts = change.parts or (Part(change.names, None),)
            values, removed = change.values or {}, change.removed
            self.values, self.removed = {}, {}
        else:
            full, _, values, removed = change
            if full:
                self.parts, self.values, self.removed = (), {}, {}
                removed = ()
        for key in one_nan(list(removed)):
            self.values.pop(key, None)
            if self.parts:
                self.removed[key] = None
        self.values.update(zip(one_nan(list(values)), values.values(), strict=True))

    @property
    def empty(self) -> bool:
        """True if it holds nothing."""
        return not self.parts and not self.values


class KeyedMove:
    """Divides the keyed states of one operator.

    `partitions`: how many there were. `before`: which keys each of them had, None if that is not known.
    """

    def __init__(
        self,
        operator: PhysicalOperator,
        files: SegmentFiles,
        partitions: int,
        targets: Sequence[PhysicalOperator],
        before: Sequence[PartitionKeys] | None,
    ) -> None:
        self._operator = operator
        self._files = files
        self._partitions = partitions
        self._targets = targets
        self._before = before
        self._routed: dict[str, Hashes] = {}
        self._segments: dict[str, Segment] = {}

    def divide(
        self, name: str, sources: Sequence[KeyedSource], into: Sequence[StateCell]
    ) -> list[SegmentsChange | None]:
        """Give each key to the partition that its tuples go to: by a change, or in the cell, for each target.

        Raises StateError.
        """
        nothing: list[SegmentsChange | None] = [None] * len(into)
        if all(source.empty for source in sources):
            return nothing
        declared = operator_type(type(self._operator.operator)).states.get(name)
        if divides_whole(declared):
            held = [dict(self._attached(source).items()) for source in sources]
            for cell, part in zip(into, self.divide_whole(name, held), strict=True):
                cell.apply((True, _AT_A_BORDER, dict(part), []))
            return nothing
        after = self._after(name)
        by: Callable[[Any], Any] | None = getattr(declared, "moves_by", None)
        if by is not None:
            self._copy(name, sources, into, after, by)
            return nothing
        try:
            beside = [routed(list(source.values)) for source in sources]
            self._check(name, sources, beside)
            if isinstance(into[0], TimerCell) and not self._stay_apart(sources, beside, after):
                self._copy(name, sources, into, after)
                return nothing
            gone = [routed(list(source.removed)) for source in sources]
        except TypeError as error:
            raise self._cannot(name, f"it has a key that no port can have: {error}") from None
        for number, (cell, keys) in enumerate(zip(into, after, strict=True)):
            parts = self._parts(sources, keys)
            values: dict[Any, Any] = {}
            for source, hashes in zip(sources, beside, strict=True):
                values.update(_of(list(source.values.items()), hashes, keys))
            if parts:
                pairs = [list(source.removed.items()) for source in sources]
                removed = [
                    key
                    for some, hashes in zip(pairs, gone, strict=True)
                    for key, _ in _of(some, hashes, keys)
                ]
                names = tuple(dict.fromkeys(name for part in parts for name in part.names))
                nothing[number] = SegmentsChange(_AT_A_BORDER, names, [], parts, values, removed)
            else:
                cell.apply((True, _AT_A_BORDER, values, []))
        return nothing

    def _copy(
        self,
        name: str,
        sources: Sequence[KeyedSource],
        into: Sequence[StateCell],
        after: Sequence[PartitionKeys | None],
        by: Callable[[Any], Any] | None = None,
    ) -> None:
        """Copy each entry to the partition that gets the tuples with its key, or with what `by` finds in it.

        For what cannot be shared: the hashes of segments are of other keys, or timers get other numbers.
        """
        pairs: list[tuple[Any, Any]] = []
        hashes: list[Hashes] = []
        for source in sources:
            found = list(self._attached(source).items())
            keys = [key for key, _ in found]
            mine = routed(keys) if by is None else self.hashes_by(name, keys, by)
            if self._before is not None and self._partitions > 1:
                astray = np.flatnonzero(_owners(mine, _table(self._before)) != source.partition)
                if len(astray):
                    raise self._astray(name, source, keys[int(astray[0])])
            pairs += found
            hashes.append(mine)
        if isinstance(into[0], TimerCell):
            pairs = _renumbered(pairs)
        every = np.concatenate(hashes)
        for target, own in zip(into, after, strict=True):
            target.apply((True, _AT_A_BORDER, dict(_of(pairs, every, own)), []))

    def divide_whole(self, name: str, held: Sequence[Any]) -> Sequence[Any]:
        """The value of each target, of a state that says itself which keys it has. Raises StateError."""
        kind = operator_type(type(self._operator.operator))
        if getattr(kind.states[name], "moves", None) is not None:
            if any(one.keys() != held[0].keys() for one in held[1:]):
                raise self._cannot(name, "its partitions hold other keys, and `moves` says that they do not")
            return [held[0]] * len(self._targets)
        moves_to: MovesTo = kind.states[name].moves_to  # type: ignore[attr-defined]  # asked for before
        # no key divides an operator without input ports
        after = self._after(name) if kind.inputs else [None] * len(self._targets)
        try:
            parts = moves_to(held, [partial(_belong, keys) for keys in after])
        except Exception as error:
            raise self._cannot(name, f"its `moves_to` raised {described(error)}") from error
        if len(parts) != len(after):
            raise self._cannot(name, f"it was given {len(parts)} parts for {len(after)} partitions")
        return parts

    def divide_items(self, name: str, items: Sequence[Any], by: Callable[[Any], Any]) -> list[list[Any]]:
        """The items of a list for each target: by the key that `by` finds in each. Raises StateError."""
        hashes = self.hashes_by(name, items, by)
        return [
            [item for item, _ in _of([(item, None) for item in items], hashes, keys)]
            for keys in self._after(name)
        ]

    def hashes_by(self, name: str, values: Sequence[Any], by: Callable[[Any], Any]) -> Hashes:
        """The stable hashes of the keys that a function finds in values. Raises StateError if it raises."""
        try:
            return routed(list(map(by, values)))
        except Exception as error:
            raise self._cannot(name, f"its `moves_by` raised {described(error)}") from error

    def _after(self, name: str) -> list[PartitionKeys | None]:
        """Which keys each target gets; None: all. Raises StateError if that is not known."""
        if len(self._targets) == 1:
            return [None]
        ports = [port for port in self._targets[0].keys if is_by_value(self._targets[0], port)]
        if not ports:
            why = "no input port says by the value of its key which partition gets its tuples"
            raise self._cannot(name, f"{why}; give the port a `key`")
        found = [_table([target.keys[port] for target in self._targets]) for port in ports]
        size = max(map(len, found))
        if any((np.resize(one, size) != np.resize(found[0], size)).any() for one in found[1:]):
            why = "its ports are divided by different keys"
            raise self._cannot(name, f"{why}; give them the same keys")
        return [target.keys[ports[0]] for target in self._targets]

    def _parts(self, sources: Sequence[KeyedSource], keys: PartitionKeys | None) -> tuple[Part, ...]:
        """The parts of all sources' segments that a target gets; segments that several share are one part."""
        parts: dict[tuple[str, ...], PartitionKeys | None] = {}
        for source in sources:
            before = None if self._before is None else self._before[source.partition]
            for names, held in source.parts:
                common = both(held, keys)
                if (within := both(common, before)) is not None and not within.keys:
                    continue
                parts[names] = either(parts[names], common) if names in parts else common
        return tuple(Part(names, held) for names, held in parts.items())

    def _stay_apart(
        self,
        sources: Sequence[KeyedSource],
        beside: Sequence[Hashes],
        after: Sequence[PartitionKeys | None],
    ) -> bool:
        """True if each target gets what one source has, so that numbers stay unique."""
        return all(
            sum(
                bool(self._parts([source], keys)) or bool(_of(list(source.values.items()), hashes, keys))
                for source, hashes in zip(sources, beside, strict=True)
            )
            <= 1
            for keys in after
        )

    # Is it kept by the key of the port? ---------------------------------------------------------------------

    def _check(self, name: str, sources: Sequence[KeyedSource], beside: Sequence[Hashes]) -> None:
        """Raise StateError if a state is kept by something else than the port's key: keys are astray.

        Raises TypeError for a key that cannot be that of a port.
        """
        if self._partitions == 1:
            for segment in self._opened(sources[0]):
                if "p" in segment.key_column.kind:
                    self._hashes(segment)
            return
        if self._before is None:
            self._refuse_twice(name, sources)
            return
        before = _table(self._before)
        for source, hashes in zip(sources, beside, strict=True):
            astray = np.flatnonzero(_owners(hashes, before) != source.partition)
            if len(astray):
                raise self._astray(name, source, list(source.values)[int(astray[0])])
            for part in source.parts:
                for segment in map(self._open, part.names):
                    found = self._hashes(segment)
                    other = (_owners(found, before) != source.partition) & segment.there
                    if part.keys is not None:
                        other &= belong(found, part.keys)
                    if other.any():
                        place = int(np.flatnonzero(other)[0])
                        raise self._astray(name, source, segment.key_column.one(place))

    def _refuse_twice(self, name: str, sources: Sequence[KeyedSource]) -> None:
        """Raise StateError if two partitions hold the same key."""
        cells = [self._attached(source) for source in sources]
        hashes = [routed(list(cell)) for cell in cells]
        every = np.concatenate(hashes)
        ordered = np.sort(every)
        twice = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
        seen: set[Any] = set()
        for cell, some in zip(cells, hashes, strict=True):
            keys = list(cell) if twice else []
            for place in np.flatnonzero(np.isin(some, list(twice))).tolist() if twice else ():
                if keys[place] in seen:
                    why = f"several partitions hold the key {shorten(keys[place])}"
                    raise self._cannot(name, f"{why}, so it is not kept by the key of the input port")
                seen.add(keys[place])

    def _astray(self, name: str, source: KeyedSource, key: object) -> StateError:
        why = f"partition {source.partition} holds the key {shorten(key)}, whose tuples go to another one"
        return self._cannot(name, f"{why}: it is not kept by the key of the input port")

    def _cannot(self, name: str, why: str) -> StateError:
        return StateError(
            f"state `{name}` of operator `{self._operator.name}` cannot be moved to other partitions: {why}"
        )

    # Segments -----------------------------------------------------------------------------------------------

    def _open(self, name: str) -> Segment:
        segment = self._segments.get(name)
        if segment is None:
            segment = self._segments[name] = self._files.open(name)
        return segment

    def _opened(self, source: KeyedSource) -> list[Segment]:
        return [self._open(name) for part in source.parts for name in part.names]

    def _hashes(self, segment: Segment) -> Hashes:
        found = self._routed.get(segment.name)
        if found is None:
            found = self._routed[segment.name] = routed_segment(segment)
        return found

    def _attached(self, source: KeyedSource) -> KeyedCell[Any, Any]:
        """The content of a partition, as a mapping."""
        cell: KeyedCell[Any, Any] = TimerCell("", object)
        if source.parts:
            names = tuple(name for part in source.parts for name in part.names)
            removed = list(source.removed)
            change = SegmentsChange(_AT_A_BORDER, names, [], source.parts, source.values, removed)
            self._opened(source)
            attach(cell, change, self._segments)
        else:
            cell.apply((True, _AT_A_BORDER, source.values, []))
        return cell


def _renumbered(timers: Sequence[tuple[Any, tuple[int, int]]]) -> list[tuple[Any, tuple[int, int]]]:
    """Timers of several partitions with new numbers, by which of two that are due one comes first."""
    numbers = np.fromiter((number for _, (_, number) in timers), np.int64, len(timers))
    ranks = np.empty(len(timers), np.int64)
    ranks[np.argsort(numbers, kind="stable")] = np.arange(len(timers))
    return [(key, (when, rank)) for (key, (when, _)), rank in zip(timers, ranks.tolist(), strict=True)]


def _of(
    pairs: Sequence[tuple[Any, Any]], hashes: Hashes, keys: PartitionKeys | None
) -> Sequence[tuple[Any, Any]]:
    """Those of some pairs whose keys belong to a partition."""
    if keys is None:
        return pairs
    return [pairs[place] for place in np.flatnonzero(belong(hashes, keys)).tolist()]


def _table(keys: Sequence[PartitionKeys]) -> Owners:
    """The number of the partition for all values of the lowest bits of a hash that count."""
    mask = 0
    for one in keys:
        mask |= one.mask
    values = np.arange(1 << mask.bit_length(), dtype=np.uint64)
    owners = np.full(len(values), -1, np.int64)
    for number, one in enumerate(keys):
        owners[belong(values, one)] = number
    return owners


def _owners(hashes: Hashes, table: Owners) -> Owners:
    owners: Owners = table[(hashes & np.uint64(len(table) - 1)).astype(np.int64)]
    return owners

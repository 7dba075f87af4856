"""The states of an operator's partitions, divided again: keyed ones by the hash that divides its tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.api.cells.cell import Change, StateCell
from ridgeline.api.cells.keyed_declaration import KeyedState, MovesTo, divide
from ridgeline.api.cells.keyed_overlay import Mask
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.cells.timer_cell import TimerCell
from ridgeline.api.codec import Hashes
from ridgeline.api.columns.nulls import one_nan
from ridgeline.api.errors import StateError, described, shorten
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.api.state import ValueCell
from ridgeline.engine.state.keyed_hash import routed
from ridgeline.engine.state.keyed_segment import Segment, belong, both, either
from ridgeline.engine.state.keyed_segments import Part, SegmentsChange
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.versions import attach
from ridgeline.plan.change.succession import is_by_value
from ridgeline.plan.physical import PhysicalOperator

Owners = npt.NDArray[np.int64]
AT_A_BORDER = -1
"""The application window of a state between two of them."""


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

    @cached_property
    def hashes(self) -> Hashes:
        """Of the keys of `values`, once all changes are there. Raises TypeError as `routed`."""
        return routed(list(self.values))

    @property
    def empty(self) -> bool:
        """True if it holds nothing."""
        return not self.parts and not self.values


class Division:
    """Divides the states of one operator's partitions among those that there are then.

    `partitions`: how many there were. `before`: which keys each of them had, None if that is not known.
    """

    def __init__(
        self,
        files: SegmentFiles,
        partitions: int,
        targets: Sequence[PhysicalOperator],
        before: Sequence[PartitionKeys] | None,
    ) -> None:
        self._operator = targets[0]
        self._kind = operator_type(type(self._operator.operator))
        self._files = files
        self._partitions = partitions
        self._targets = targets
        self._before = before
        self._segments: dict[str, Segment] = {}

    def cells(
        self, name: str, sources: Sequence[KeyedSource], into: Sequence[StateCell]
    ) -> list[SegmentsChange | None]:
        """Give each key to the partition that its tuples go to: by a change, or in the cell, for each target.

        Raises StateError.
        """
        nothing: list[SegmentsChange | None] = [None] * len(into)
        if all(source.empty for source in sources):
            return nothing
        declared, timers = self._kind.states.get(name), isinstance(into[0], TimerCell)
        if not divides_whole(declared) and getattr(declared, "moves_by", None) is None:
            after = self._after(name)
            try:
                self._check(name, sources)
                if not timers or self._stay_apart(after):
                    return self._shared(sources, into, after)
            except TypeError as error:
                raise self._of_no_port(name, error) from None
        # What cannot be shared: the hashes of segments are of other keys, or timers get other numbers.
        held = [dict(self._attached(source).items()) for source in sources]
        held = _renumbered(held) if timers else held
        for cell, part in zip(into, self.shares(name, held, into[0], sources), strict=True):
            cell.apply((True, AT_A_BORDER, dict(part), []))
        return nothing

    def _shared(
        self,
        sources: Sequence[KeyedSource],
        into: Sequence[StateCell],
        after: Sequence[PartitionKeys | None],
    ) -> list[SegmentsChange | None]:
        """Each target's part of the segments, with what lies beside. Raises TypeError as `routed`."""
        changes: list[SegmentsChange | None] = []
        pairs = [list(source.values.items()) for source in sources]
        gone = [routed(list(source.removed)) for source in sources]
        for cell, keys in zip(into, after, strict=True):
            parts = self._parts(sources, keys)
            values: dict[Any, Any] = {}
            removed: list[Any] = []
            for source, some, hashes in zip(sources, pairs, gone, strict=True):
                values.update(_of(some, source.hashes, keys))
                removed += _of(list(source.removed), hashes, keys)
            if parts:
                names = tuple(dict.fromkeys(name for part in parts for name in part.names))
                changes.append(SegmentsChange(AT_A_BORDER, names, [], parts, values, removed))
            else:
                cell.apply((True, AT_A_BORDER, values, []))
                changes.append(None)
        return changes

    def shares(
        self, name: str, held: Sequence[Any], empty: StateCell, sources: Sequence[KeyedSource] = ()
    ) -> Sequence[Any]:
        """What each target gets of what partitions hold: as the state or its keys say.

        `empty`: a cell of the state. `sources`: the partitions, if they are to have their own keys only.
        Raises StateError.
        """
        declared = self._kind.states[name]
        by, moves = getattr(declared, "moves_by", None), getattr(declared, "moves", None)
        if divides_whole(declared):
            return self._whole(name, held)
        if isinstance(empty, KeyedCell):
            pairs = [list(value.items()) for value in held]
            return list(map(dict, self._by_key(name, list(map(list, held)), pairs, by, sources)))
        if by is not None:
            return self._by_key(name, held, held, by)
        if moves is None:
            raise self.cannot(name, "nothing says how; declare the state with `moves` or `moves_by`")
        try:
            return divide(moves, held, len(self._targets), value_of(empty))
        except ValueError as error:
            raise self.cannot(name, str(error)) from None
        except Exception as error:
            raise self.cannot(name, f"its `moves` raised {described(error)}") from error

    def cannot(self, name: str, why: str) -> StateError:
        """The error for a state that cannot be divided."""
        return StateError(
            f"state `{name}` of operator `{self._operator.name}` cannot be moved to other partitions: {why}"
        )

    def _of_no_port(self, name: str, error: Exception) -> StateError:
        return self.cannot(name, f"it has a key that no port can have: {error}")

    def _by_key(
        self,
        name: str,
        keys: Sequence[Sequence[Any]],
        items: Sequence[Sequence[Any]],
        by: Callable[[Any], Any] | None,
        sources: Sequence[KeyedSource] = (),
    ) -> Sequence[Sequence[Any]]:
        """The items for each target: by their keys, or by what `by` finds in these."""
        after = self._after(name)
        hashes = [self._hashes_by(name, some, by) for some in keys]
        for source, some, found in zip(sources, keys, hashes, strict=False):
            self._refuse_strays(name, source, some, found)
        every, joined = np.concatenate(hashes), [item for some in items for item in some]
        return [_of(joined, every, own) for own in after]

    def _hashes_by(self, name: str, keys: Sequence[Any], by: Callable[[Any], Any] | None) -> Hashes:
        try:
            return routed(keys if by is None else list(map(by, keys)))
        except Exception as error:
            if by is None:
                raise self._of_no_port(name, error) from None
            raise self.cannot(name, f"its `moves_by` raised {described(error)}") from error

    def _whole(self, name: str, held: Sequence[Any]) -> Sequence[Any]:
        """The value of each target, of a state that says itself which keys it has."""
        if getattr(self._kind.states[name], "moves", None) is not None:
            if any(one.keys() != held[0].keys() for one in held[1:]):
                raise self.cannot(name, "its partitions hold other keys, and `moves` says that they do not")
            return [held[0]] * len(self._targets)
        moves_to: MovesTo = self._kind.states[name].moves_to  # type: ignore[attr-defined]  # asked for before
        # no key divides an operator without input ports
        after = self._after(name) if self._kind.inputs else [None] * len(self._targets)
        try:
            parts = moves_to(held, [partial(_belong, keys) for keys in after])
        except Exception as error:
            raise self.cannot(name, f"its `moves_to` raised {described(error)}") from error
        if len(parts) != len(after):
            raise self.cannot(name, f"it was given {len(parts)} parts for {len(after)} partitions")
        return parts

    def _after(self, name: str) -> list[PartitionKeys | None]:
        """Which keys each target gets; None: all. Raises StateError if that is not known."""
        if len(self._targets) == 1:
            return [None]
        ports = [port for port in self._targets[0].keys if is_by_value(self._targets[0], port)]
        if not ports:
            why = "no input port says by the value of its key which partition gets its tuples"
            raise self.cannot(name, f"{why}; give the port a `key`")
        found = [_table([target.keys[port] for target in self._targets]) for port in ports]
        size = max(map(len, found))
        if any((np.resize(one, size) != np.resize(found[0], size)).any() for one in found[1:]):
            why = "its ports are divided by different keys"
            raise self.cannot(name, f"{why}; give them the same keys")
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

    def _stay_apart(self, after: Sequence[PartitionKeys | None]) -> bool:
        """True if each target gets keys of one partition only, so that the numbers of timers stay unique."""
        if self._before is None:
            return self._partitions == 1
        common = ([both(one, keys) for one in self._before] for keys in after)
        return all(sum(bool(one and one.keys) for one in several) <= 1 for several in common)

    # Is it kept by the key of the port? ---------------------------------------------------------------------

    def _check(self, name: str, sources: Sequence[KeyedSource]) -> None:
        """Raise StateError if a state is kept by something else than the port's key: keys are astray.

        Raises TypeError for a key that cannot be that of a port.
        """
        if self._partitions == 1:
            return
        if self._before is None:
            self._refuse_twice(name, sources)
            return
        before = _table(self._before)
        for source in sources:
            self._refuse_strays(name, source, source.values, source.hashes)
            for part in source.parts:
                for segment in map(self._open, part.names):
                    found = segment.hashes
                    other = (_owners(found, before) != source.partition) & segment.there
                    if part.keys is not None:
                        other &= belong(found, part.keys)
                    if other.any():
                        place = int(np.flatnonzero(other)[0])
                        raise self._astray(name, source, segment.key_column.one(place))

    def _refuse_strays(self, name: str, source: KeyedSource, keys: Iterable[Any], hashes: Hashes) -> None:
        """Raise StateError if tuples with a key of a partition went to another one."""
        if self._before is not None and self._partitions > 1:
            astray = np.flatnonzero(_owners(hashes, _table(self._before)) != source.partition)
            if len(astray):
                raise self._astray(name, source, list(keys)[int(astray[0])])

    def _refuse_twice(self, name: str, sources: Sequence[KeyedSource]) -> None:
        """Raise StateError if two partitions hold the same key."""
        seen: set[Any] = set()
        for cell in map(self._attached, sources):
            for key in cell:
                if key in seen:
                    why = f"several partitions hold the key {shorten(key)}"
                    raise self.cannot(name, f"{why}, so it is not kept by the key of the input port")
            seen.update(cell)

    def _astray(self, name: str, source: KeyedSource, key: object) -> StateError:
        why = f"partition {source.partition} holds the key {shorten(key)}, whose tuples go to another one"
        return self.cannot(name, f"{why}: it is not kept by the key of the input port")

    # Segments -----------------------------------------------------------------------------------------------

    def _open(self, name: str) -> Segment:
        segment = self._segments.get(name)
        if segment is None:
            segment = self._segments[name] = self._files.open(name)
        return segment

    def _opened(self, source: KeyedSource) -> list[Segment]:
        return [self._open(name) for part in source.parts for name in part.names]

    def _attached(self, source: KeyedSource) -> KeyedCell[Any, Any]:
        """The content of a partition, as a mapping."""
        cell: KeyedCell[Any, Any] = TimerCell("", object)
        if source.parts:
            names = tuple(name for part in source.parts for name in part.names)
            removed = list(source.removed)
            change = SegmentsChange(AT_A_BORDER, names, [], source.parts, source.values, removed)
            self._opened(source)
            attach(cell, change, self._segments)
        else:
            cell.apply((True, AT_A_BORDER, source.values, []))
        return cell


def _renumbered(held: Sequence[dict[Any, tuple[int, int]]]) -> list[dict[Any, tuple[int, int]]]:
    """Timers of several partitions with new numbers, by which of two that are due one comes first."""
    numbers = np.array([number for timers in held for _, number in timers.values()], np.int64)
    ranks = np.empty(len(numbers), np.int64)
    ranks[np.argsort(numbers, kind="stable")] = np.arange(len(numbers))
    rank = iter(ranks.tolist())
    return [{key: (when, next(rank)) for key, (when, _) in timers.items()} for timers in held]


def _of(items: Sequence[Any], hashes: Hashes, keys: PartitionKeys | None) -> Sequence[Any]:
    """Those of some items whose hashes belong to a partition."""
    if keys is None:
        return items
    return [items[place] for place in np.flatnonzero(belong(hashes, keys)).tolist()]


def value_of(cell: StateCell) -> Any:
    """What a cell of one value, or of a list, holds."""
    return cell.get() if isinstance(cell, ValueCell) else list(cell)  # type: ignore[call-overload]


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

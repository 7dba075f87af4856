"""Move the state of an operator's partitions to other partitions, or to another name.

Keyed states go by key: each key to the partition that gets its tuples from now on. Watermarks begin with the
least one. Every other state goes by what the operator's partitioner says (`merge_state`, `split_state`). One
that has its default in all partitions needs no word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.cell import StateCell
from ridgeline.api.codec import ColumnCodec, FunctionCodec, hash_column, stable_hash
from ridgeline.api.errors import StateError
from ridgeline.api.keyed_state import KeyedCell
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import Partitioner, PartitionKeys, StickyPartitioner, assign_keys
from ridgeline.api.state import ENDED, METRICS, WATERMARK, ValueCell
from ridgeline.api.timer_cell import TimerCell
from ridgeline.engine.state.compaction import cells_of, write_cells
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.slides import SLIDES
from ridgeline.engine.state.versions import load
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import StateVersion

Owners = npt.NDArray[np.int64]
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


class _Divided(NamedTuple):
    """By which hashes keys belong to partitions: the partition, by the lowest bits of the hash."""

    mask: int
    owner: Owners


def move(
    files: SegmentFiles,
    sources: Sequence[MoveSource],
    targets: Sequence[PhysicalOperator],
    stem: Callable[[PhysicalOperator], str],
) -> dict[int, StateVersion]:
    """Write the state of some partitions as that of others; returns the versions, by physical id.

    `targets`: all partitions of one operator, in order. `stem` gives the beginning of the names of the files
    for a target. Raises StateError naming the state that cannot be moved, OSError.
    """
    if not any(source.version for source in sources):
        return {}
    operator = targets[0]
    before = [_loaded(files, operator, source) for source in sources]
    alone = len(sources) == len(targets) == 1
    after = before if alone else _divided(operator, sources, before, targets)
    versions = {}
    for target, cells in zip(targets, after, strict=True):
        result, _ = write_cells(files, target.state_key, cells, stem(target))
        versions[target.id] = result.names
    return versions


def _loaded(files: SegmentFiles, operator: PhysicalOperator, source: MoveSource) -> Cells:
    """What a partition holds."""
    cells = cells_of(operator)
    load(files, source.key, cells, source.version)
    return cells


def _divided(
    operator: PhysicalOperator,
    sources: Sequence[MoveSource],
    before: Sequence[Cells],
    targets: Sequence[PhysicalOperator],
) -> list[Cells]:
    """What each target holds of what the sources held."""
    after = [cells_of(operator) for _ in targets]
    keys = _Keys(operator, sources, targets)
    for name in after[0]:
        held = [cells[name] for cells in before]
        into = [cells[name] for cells in after]
        if isinstance(held[0], KeyedCell):
            keys.divide(name, held, into)
        elif name == WATERMARK:
            _least(held, into)
        elif name == ENDED:
            _set(into, True if all(cell.snapshot() == (True,) for cell in held) else None)
        elif name == METRICS:
            continue  # of an application window, which has ended
        elif any(cell.snapshot() != into[0].snapshot() for cell in held):
            if name == SLIDES:
                raise _cannot(operator, name, "it slides, and its slides cannot be divided")
            _by_partitioner(operator, name, held, into)
    return list(after)


def _set(cells: Sequence[StateCell], value: Any) -> None:
    for cell in cells:
        assert isinstance(cell, ValueCell)  # noqa: S101  as the platform's own are
        if value is not None:
            cell.apply((value,))


def _least(held: Sequence[StateCell], into: Sequence[StateCell]) -> None:
    """The least watermark of all: no partition gets ahead of what it may still get."""
    marks = [cell.snapshot()[0] for cell in held]
    known = [mark for mark in marks if mark is not None]
    if known:
        _set(into, tuple(map(min, zip(*known, strict=True))))


def _by_partitioner(
    operator: PhysicalOperator, name: str, held: Sequence[StateCell], into: Sequence[StateCell]
) -> None:
    """Let the operator's partitioner merge what the partitions hold, and split it."""
    partitioner: Partitioner = (
        operator.attributes.get("partitioner") or operator.operator.partitioner_default or StickyPartitioner()
    )
    try:
        merged = partitioner.merge_state(name, [_value(cell) for cell in held])
        parts = list(partitioner.split_state(name, merged, len(into))) if len(into) > 1 else [merged]
    except NotImplementedError as error:
        raise _cannot(operator, name, str(error)) from None
    except Exception as error:
        raise _cannot(operator, name, f"{type(partitioner).__name__} failed: {error}") from error
    if len(parts) != len(into):
        what = f"`split_state` gave {len(parts)} parts for {len(into)} partitions"
        raise _cannot(operator, name, what)
    for cell, value in zip(into, parts, strict=True):
        _put(cell, value)


def _value(cell: StateCell) -> Any:
    return cell.get() if isinstance(cell, ValueCell) else list(cell)  # type: ignore[call-overload]


def _put(cell: StateCell, value: Any) -> None:
    cell.begin(0)
    if isinstance(cell, ValueCell):
        cell.set(value)
    else:
        cell.extend(value)  # type: ignore[attr-defined]  # a list state


def _cannot(operator: PhysicalOperator, name: str, why: str) -> StateError:
    return StateError(
        f"state `{name}` of operator `{operator.name}` cannot be moved to other partitions: {why}"
    )


class _Keys:
    """To which partition the keys of an operator belong, before and after."""

    def __init__(
        self, operator: PhysicalOperator, sources: Sequence[MoveSource], targets: Sequence[PhysicalOperator]
    ) -> None:
        self._operator = operator
        self._sources = sources
        self._targets = targets

    def divide(self, name: str, held: Sequence[StateCell], into: Sequence[StateCell]) -> None:
        """Give each key of a keyed state to the partition that its tuples go to."""
        pairs: list[list[tuple[Any, Any]]] = [list(cell.pairs()) for cell in held]  # type: ignore[attr-defined]
        if not any(pairs):
            return
        if isinstance(held[0], TimerCell):
            pairs = _numbered_anew(pairs)
        after = self._after(name)
        self._check(name, pairs)
        taken: list[dict[Any, Any]] = [{} for _ in into]
        for part in pairs:
            owners = _owners([key for key, _ in part], after)
            for number, values in enumerate(taken):
                values.update(part[at] for at in np.flatnonzero(owners == number).tolist())
        for cell, values in zip(into, taken, strict=True):
            cell.apply((True, -1, values, []))

    def _after(self, name: str) -> _Divided:
        """How keys are divided from now on. Raises StateError if that is not known."""
        if len(self._targets) == 1:
            return _Divided(0, np.zeros(1, np.int64))
        ports = [port for port in self._targets[0].keys if self._is_by_value(port)]
        if not ports:
            why = "no input port says by the value of its key which partition gets its tuples"
            raise _cannot(self._operator, name, f"{why}; give the port a `key`")
        tables = [_table([target.keys[port] for target in self._targets]) for port in ports]
        if any(one.mask != tables[0].mask or (one.owner != tables[0].owner).any() for one in tables[1:]):
            why = "its ports are divided by different keys"
            raise _cannot(self._operator, name, f"{why}; give them the same keys")
        return tables[0]

    def _is_by_value(self, port: str) -> bool:
        codec = operator_type(type(self._operator.operator)).inputs[port].codec
        return type(codec) in {ColumnCodec, FunctionCodec}

    def _check(self, name: str, pairs: Sequence[Sequence[tuple[Any, Any]]]) -> None:
        """Raise StateError if the state is kept by something else than the port's key: keys are astray."""
        count = self._sources[0].place[1]
        if count == 1:
            return
        keys = [key for part in pairs for key, _ in part]
        if len(set(keys)) < len(keys):
            why = "several partitions hold the same key, so it is not kept by the key of the input port"
            raise _cannot(self._operator, name, why)
        if self._operator.attributes.get("partitioner") or self._operator.operator.partitioner_default:
            return  # how it divided them before is not known
        before = _table(assign_keys(count))
        for source, part in zip(self._sources, pairs, strict=True):
            astray = np.flatnonzero(_owners([key for key, _ in part], before) != source.place[0])
            if len(astray):
                key = part[int(astray[0])][0]
                why = f"partition {source.place[0]} holds the key {key!r}, whose tuples go to another one"
                raise _cannot(self._operator, name, f"{why}: it is not kept by the key of the input port")


def _table(keys: Sequence[PartitionKeys]) -> _Divided:
    mask = max(one.mask for one in keys)
    values = np.arange(mask + 1)
    owner = np.full(mask + 1, -1, np.int64)
    for number, one in enumerate(keys):
        owner[np.isin(values & one.mask, list(one.keys))] = number
    return _Divided(mask, owner)


def _owners(keys: Sequence[Any], divided: _Divided) -> Owners:
    if not keys or divided.mask == 0:
        return np.zeros(len(keys), np.int64)
    owners: Owners = divided.owner[(_hashes(keys) & np.uint64(divided.mask)).astype(np.int64)]
    return owners


def _hashes(keys: Sequence[Any]) -> npt.NDArray[np.uint64]:
    """The stable hashes of keys; of one plain type all at once."""
    kinds = set(map(type, keys))
    if len(kinds) == 1 and kinds <= {int, str, bytes, float}:
        try:
            return hash_column(pa.array(keys)).astype(np.uint64, copy=False)
        except (pa.ArrowInvalid, OverflowError):
            pass  # an integer of more than 64 bits
    return np.fromiter(map(stable_hash, keys), np.uint64, len(keys))


def _numbered_anew(pairs: Sequence[Sequence[tuple[Any, Any]]]) -> list[list[tuple[Any, Any]]]:
    """The timers of all partitions, with other numbers, which say which of two that are due came first."""
    order = sorted(
        (when, number, partition, at)
        for partition, part in enumerate(pairs)
        for at, (_, (when, number)) in enumerate(part)
    )
    numbered = [list(part) for part in pairs]
    for number, (when, _, partition, at) in enumerate(order):
        numbered[partition][at] = numbered[partition][at][0], (when, number)
    return numbered

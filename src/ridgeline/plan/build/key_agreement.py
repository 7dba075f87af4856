"""Keys of an operator: whether its ports agree, whether partitions share one, how they are divided."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.balancing import BalancedPartitioner
from ridgeline.api.codec import ColumnCodec, FunctionCodec, StreamCodec
from ridgeline.api.columns.casting import family
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import Faults, listed
from ridgeline.api.operator import Operator
from ridgeline.api.partitioner import KeyedPartitioner, Partitioner, PartitionKeys, StickyPartitioner
from ridgeline.measure.deciding.key_load import KEY_BITS
from ridgeline.measure.wording.units import plural
from ridgeline.plan.build.unifiers import merges_by_key
from ridgeline.plan.draft import Draft
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import Edge, LogicalOperator
from ridgeline.plan.physical import PhysicalOperator

_KINDS = {
    "number": "number",
    "bool": "number",
    "text": "text",
    "bytes": "bytes",
    "time": "time",
    "date": "date",
}
"""By family of types: values of one kind can be equal, and have equal hashes then, whatever their types."""


@dataclass(frozen=True, slots=True)
class KeyedPort:
    """An input port that is partitioned by key, its codec, and the schema of its stream."""

    name: str
    codec: StreamCodec
    schema: Schema


def disagreement(ports: Sequence[KeyedPort]) -> str | None:
    """Why equal keys of two ports would reach different partitions; None if they would not.

    The key that a function computes is unknown before the run, so it agrees with everything.
    """
    known: tuple[KeyedPort, tuple[pa.DataType, ...]] | None = None
    for port in ports:
        first = ports[0]
        if _kind(first.codec) is not _kind(port.codec):
            return f"`{first.name}` is hashed by {_how(first)}, `{port.name}` by {_how(port)}"
        types = _types(port)
        if types is None:
            continue
        if known is None:
            known = (port, types)
            continue
        other, others = known
        if len(others) != len(types):
            counts = plural(len(others), "column"), plural(len(types), "column")
            return f"the key of `{other.name}` has {counts[0]}, that of `{port.name}` {counts[1]}"
        for one, two in zip(others, types, strict=True):
            if _kind_of(one) != _kind_of(two):
                return f"the key of `{other.name}` is {one}, that of `{port.name}` is {two}"
    return None


def _types(port: KeyedPort) -> tuple[pa.DataType, ...] | None:
    columns = key_columns(port.codec, port.schema)
    if columns is None or not set(columns).issubset(port.schema.arrow.names):
        return None  # the latter is a fault of its own
    return tuple(port.schema.arrow.field(name).type for name in columns)


def key_columns(codec: StreamCodec, schema: Schema) -> tuple[str, ...] | None:
    """The columns of a port's key; None if they are not known."""
    return None if schema.pickled else codec.key_columns(schema.arrow)


def key_of(codec: StreamCodec | None, schema: Schema | None) -> object:
    """The key that a port divides by: its columns, else the code that computes it; no columns without one."""
    if codec is None:
        return ()
    columns = key_columns(codec, schema) if schema is not None else None
    if columns is not None:
        return columns
    return codec.function if isinstance(codec, FunctionCodec) else codec


def shown_key(key: object) -> str:
    """A key, by `key_of`, as errors and notes name it."""
    if isinstance(key, tuple):
        return listed(map(str, key)) or "a key of its own"
    return f"`{type(key).__name__}`" if isinstance(key, StreamCodec) else "a function"


def determines(mine: object, theirs: object) -> bool:
    """True if tuples with equal keys of mine have equal keys of theirs, both by `key_of`.

    Columns with the same name are taken to be the same.
    """
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        return bool(theirs) and set(theirs) <= set(mine)
    return mine is theirs or (type(mine) is type(theirs) and mine == theirs)


def _kind(codec: StreamCodec) -> type[StreamCodec]:
    """One class for all codecs that hash as `stable_hash` does."""
    stable = isinstance(codec, FunctionCodec) or type(codec).key_columns is not StreamCodec.key_columns
    return ColumnCodec if stable else type(codec)


def _kind_of(type_: pa.DataType) -> str:
    type_ = type_.value_type if pa.types.is_dictionary(type_) else type_
    return _KINDS.get(family(type_), str(type_))


def _how(port: KeyedPort) -> str:
    return "its key" if _kind(port.codec) is ColumnCodec else f"`{type(port.codec).__name__}`"


def why_alone(one: LogicalOperator, leaving: Iterable[Edge]) -> str:
    """Why no two partitions of an operator may have tuples of one key; "" if they may.

    `leaving`: the edges from it.
    """
    operator = one.operator
    declared = one.declared
    keyed = {name: port.codec for name, port in declared.inputs.items() if name in one.touched and port.codec}
    if len(keyed) > 1:
        names = " and ".join(f"`{name}`" for name in keyed)
        return f"tuples of one key must meet that come in at {names}"
    lasting = [name for name, state in declared.states.items() if getattr(state, "scope", "") != "window"]
    if lasting:
        return f"state `{lasting[0]}` is kept for longer than an application window"
    if one.attributes["slide_by_window_count"] is not None:
        return "its application windows slide"
    outputs = declared.every_output
    results = [port for port in outputs if port in one.touched and not outputs[port].error]
    if why := _unmerged(operator, results, keyed.values()):
        return why
    for edge in leaving:
        # of what only looks at tuples no partition needs all of a key
        if edge.port in edge.sink.followed and not edge.sink.operator.leaves_with_streams:
            where = edge.sink.port(edge.port)
            return f"`{where}` follows its partitions one by one, so nothing is merged before it"
    return ""


def _unmerged(operator: Operator, results: Collection[str], keyed: Iterable[StreamCodec]) -> str:
    """Why what several partitions make of a key is not merged at these output ports; "" if it is."""
    if not results:
        return "it has no connected output port, so nothing merges what several partitions make of a key"
    for port in results:
        if operator.unifier_of(port) is None:
            return f"output port `{port}` has no unifier that merges what several partitions make of a key"
        merged = merges_by_key(operator, port)
        if not all(merged is not None and _keeps_apart(merged[1], codec) for codec in keyed):
            why = f"the unifier of output port `{port}` does not say that it merges by the same key; "
            return why + "if it does, declare its input port with the `key` of the operator"
    return ""


def _keeps_apart(merged: StreamCodec, divided: StreamCodec) -> bool:
    """True if tuples of several keys by which an operator is divided never meet where results are merged."""
    if isinstance(merged, ColumnCodec) and isinstance(divided, ColumnCodec):
        return set(divided.columns) <= set(merged.columns)
    return type(merged) is type(divided) and vars(merged) == vars(divided)


def alone(plan: Plan, operator: str) -> str:
    """`why_alone` of a logical operator of a plan."""
    leaving = [edge for edge in plan.logical.edges if edge.source.name == operator]
    return why_alone(plan.logical.operator(operator), leaving)


def check_sharing(draft: Draft, faults: Faults) -> None:
    """Refuse partitioners that share keys where that would give wrong results."""
    for operator in draft.operators:
        if not any(keys.shared for part in operator.divided for keys in part.keys.values()):
            continue
        if why := why_alone(operator, [edge for edge in draft.edges if edge.source is operator]):
            what = f"its partitioner lets partitions share keys, but {why}"
            faults.add(operator.name, what, "give each key to one partition: leave `shared` out")


_MEANT = (StickyPartitioner, KeyedPartitioner, BalancedPartitioner)
"""Partitioners that give equal keys to the same partition, and mean nothing else by it."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyDivision:
    """The cells of an operator: `owners`, `shared`, `fixed` and `alone` as of `KeyLoad`."""

    bits: int
    partitions: int
    owners: npt.NDArray[np.intp]
    shared: Mapping[int, tuple[int, ...]]
    partitioner: Partitioner
    fixed: str
    alone: str


def key_division(plan: Plan, operator: str, bits: int = KEY_BITS) -> KeyDivision | None:
    """How a logical operator is divided, by `bits` bits of the hashes at least; None if not by key."""
    parts = [one for one in plan.physical.operators if one.name == operator and not one.unifier]
    if len(parts) < 2 or not parts[0].keys:  # noqa: PLR2004  one partition is not divided
        return None
    parts.sort(key=lambda one: one.partition)
    ports = [[part.keys[port] for part in parts] for port in parts[0].keys]
    divided = ports[0]
    bits = max(bits, *(keys.mask.bit_length() for keys in divided))
    owners, shared = _owners(divided, bits)
    partitioner = _partitioner(parts[0])
    fixed = ""
    if any(port != divided for port in ports):
        fixed = "its ports are divided in different ways"
    elif not (type(partitioner) in _MEANT and not getattr(partitioner, "ports", ())):
        fixed = f"its partitioner is the author's, `{partitioner}`"
    return KeyDivision(bits, len(parts), owners, shared, partitioner, fixed, alone(plan, operator))


def _partitioner(part: PhysicalOperator) -> Partitioner:
    given: Partitioner | None = part.attributes["partitioner"] or part.operator.partitioner_default
    return given or StickyPartitioner()


def _owners(
    divided: list[PartitionKeys], bits: int
) -> tuple[npt.NDArray[np.intp], Mapping[int, tuple[int, ...]]]:
    """The first owner of each cell, and the partitions that share one."""
    cells = np.arange(1 << bits)
    owners = np.zeros(1 << bits, np.intp)
    sharers: dict[int, list[int]] = {}
    for partition, keys in reversed(list(enumerate(divided))):
        owners[np.isin(cells & keys.mask, sorted(keys.keys | keys.shared))] = partition
        for cell in np.flatnonzero(np.isin(cells & keys.mask, sorted(keys.shared))).tolist():
            sharers.setdefault(cell, []).insert(0, partition)
    return owners, {cell: tuple(several) for cell, several in sharers.items()}

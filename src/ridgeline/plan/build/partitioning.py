"""Define the partitions of an operator: how many, and which tuples each gets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ridgeline.api.attributes import ATTRIBUTES
from ridgeline.api.errors import FaultError, shorten
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.partitioner import Partition, Partitioner, PartitionKeys, PortInfo, StickyPartitioner
from ridgeline.measure.wording.units import plural


class PartitioningError(FaultError):
    """A partitioner returned invalid partitions."""


_LIST = "return a list of `Partition(keys, round_robin)`"
_GREATEST_MASK = (1 << 16) - 1
_MOST = ATTRIBUTES["partitions"].maximum


def define_partitions(
    operator: Operator,
    attributes: Mapping[str, Any],
    count: int,
    connected: Collection[str],
    followed: Collection[str],
    *,
    fixed: bool,
) -> tuple[Partition, ...]:
    """Define the partitions of an operator, for its connected ports that are not `followed` (parallel).

    The attribute `partitioner` decides, else the class's `partitioner_default`, else `StickyPartitioner()`.
    If a port is parallel, all others are broadcast unless a partitioner is given. `fixed`: the number is
    given; else a partitioner may choose it. Raises PartitioningError.
    """
    inputs = operator_type(type(operator)).inputs
    given: Partitioner | None = attributes["partitioner"] or operator.partitioner_default
    if given is None and followed:
        return (Partition(),) * count
    partitioner = given or StickyPartitioner()
    if not isinstance(partitioner, Partitioner):
        what = f"`{type(operator).__name__}.partitioner_default` is {shorten(partitioner)}"
        remedy = "give an instance of a subclass of `Partitioner`"
        raise PartitioningError(f"{what}, which is no `Partitioner`", remedy)
    ports = [
        PortInfo(name, port.codec is not None, name in connected, partitioner.load)
        for name, port in inputs.items()
        if name not in followed
    ]
    try:
        partitions = partitioner.define_partitions(count, ports)
    except Exception as error:
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        what = f"{shorten(partitioner)} cannot make {count} partitions: {reason}"
        raise PartitioningError(what, "choose another partitioner or number of partitions") from error
    try:
        _check(partitioner, partitions, count if fixed else None, ports)
    except (TypeError, AttributeError) as error:
        what = f"{shorten(partitioner)} gave partitions that are none: {error}"
        raise PartitioningError(what, _LIST) from error
    open_ports = {port.name for port in ports if port.connected}
    return tuple(
        Partition(
            {name: keys for name, keys in part.keys.items() if name in open_ports},
            frozenset(part.round_robin) & open_ports,
        )
        for part in partitions
    )


def _check(
    partitioner: Partitioner, partitions: Sequence[Partition], asked: int | None, ports: Sequence[PortInfo]
) -> None:
    """Raise PartitioningError unless the partitions are valid.

    Valid: the number asked for, if there is one, known ports, and one way of division for each port.
    """
    name = shorten(partitioner)
    if not isinstance(partitions, (list, tuple)) or not all(
        isinstance(part, Partition) for part in partitions[: _MOST + 1]
    ):
        what = f"{name} gave {shorten(partitions)}, which is no list of `Partition`"
        raise PartitioningError(what, _LIST)
    count = len(partitions)
    if not 0 < count <= _MOST:
        what = f"{name} gave {plural(count, 'partition')}"
        raise PartitioningError(what, f"return at least one and at most {_MOST}")
    if asked is not None and count != asked:
        what = f"{name} gave {plural(count, 'partition')}; {asked} were asked for"
        raise PartitioningError(what, "return as many as `count` says, or set `partitions` to what it gives")
    known = {port.name: port for port in ports}
    for port in dict.fromkeys(
        port for part in partitions for port in (*part.keys, *sorted(part.round_robin))
    ):
        if port not in known:
            what = f"{name} divides an input port `{port}` that is not there"
            raise PartitioningError(what, "name input ports of the operator")
        sticky = sum(port in part.keys for part in partitions)
        in_turn = sum(port in part.round_robin for part in partitions)
        if sorted((sticky, in_turn)) != [0, count]:
            what = f"{name} divides port `{port}` by key for {sticky} and round robin for {in_turn}"
            remedy = "divide a port in one way for all partitions, or leave it out: then each gets all tuples"
            raise PartitioningError(f"{what} of {count} partitions", remedy)
        if sticky and not known[port].keyed:
            what = f"{name} divides port `{port}` by key, but the port has none"
            remedy = f"declare `{port} = InputPort(..., key=...)`, or divide it round robin"
            raise PartitioningError(what, remedy)
        if sticky:
            check_cover(name, port, [part.keys[port] for part in partitions])


def check_cover(name: str, port: str, keys: Sequence[PartitionKeys]) -> None:
    """Raise PartitioningError unless every hash belongs to exactly one partition, or is shared by several.

    A partition that shares hashes has some of its own, too.
    """
    mask = 0
    for part in keys:
        mask |= part.mask
        if not 0 <= part.mask <= _GREATEST_MASK:
            what = f"{name} gave port `{port}` the mask {part.mask}"
            raise PartitioningError(what, f"use masks from 0 to {_GREATEST_MASK}")
        beyond = sorted(key for key in part.keys | part.shared if key & ~part.mask)
        if beyond:
            what = f"{name} gave port `{port}` the key {beyond[0]}, which no hash has under the mask"
            raise PartitioningError(f"{what} {part.mask}", "use keys within the mask")
        if part.shared and (not part.keys or not part.shared.isdisjoint(part.keys)):
            what = f"{name} gave port `{port}` shared keys without, or among, those of one partition alone"
            raise PartitioningError(what, "give each partition keys of its own that no other one gets")
    size = 1 << mask.bit_length()
    taken, values = np.zeros(size, np.int32), np.arange(size)
    shared = sum((np.isin(values & part.mask, list(part.shared)) for part in keys), taken)
    taken = np.where(shared > 1, 1, 2 * shared)
    for part in keys:
        if _is_whole(part.mask):
            for key in part.keys:
                taken[key :: part.mask + 1] += 1
        else:
            taken += np.isin(values & part.mask, list(part.keys))
    for value, times in enumerate(taken.tolist()):
        if times != 1:
            takers = [
                number
                for number, part in enumerate(keys)
                if value & part.mask in part.keys or value & part.mask in part.shared
            ]
            by = f"by partitions {', '.join(map(str, takers))}" if takers else "by no partition"
            what = f"{name}: tuples of port `{port}` whose hash ends in {value} (mask {mask}) are taken {by}"
            raise PartitioningError(what, "give every key to exactly one partition")


def _is_whole(mask: int) -> bool:
    """True for a mask that consists of the lowest bits, as all of Ridgeline's own masks do."""
    return mask & (mask + 1) == 0

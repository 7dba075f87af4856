"""Partitioners: which tuples each partition of an operator receives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ridgeline.api.support.pickling import pickled_by_values

_CELLS, _CELLS_EACH, _MOST_CELLS = 1 << 10, 1 << 4, 1 << 16
"""Into how many cells hashes are divided where partitions are no power of two: at least, and for each of them
at least. And at most, which is what masks may have."""


@pickled_by_values
@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The keys of one partition on one port: it receives the tuples with `hash & mask` in `keys`.

    Those in `shared` are divided evenly among all partitions that share them.

    Example:
        >>> from ridgeline import PartitionKeys, stable_hash
        >>> odd = PartitionKeys(mask=1, keys=frozenset({1}))
        >>> [number for number in range(8) if stable_hash(number) & odd.mask in odd.keys]
        [0, 1, 3, 7]
    """

    mask: int
    keys: frozenset[int]
    shared: frozenset[int] = frozenset()

    def __repr__(self) -> str:
        shared = f", shared={self.shared}" if self.shared else ""
        return f"PartitionKeys(mask={self.mask}, keys={self.keys}{shared})"


@dataclass(frozen=True, slots=True)
class Load:
    """How the tuples of an operator were spread when a listener asked for a `Partitioner`; shares, in sum 1.

    `by_partition`: of each partition. `by_cell`: of the tuples with each `hash & (len(by_cell) - 1)`. Empty
    where it is not known: nobody has asked, or keys are not counted.

    Example:
        >>> from ridgeline.api.partitioner import Load
        >>> Load(by_partition=(0.75, 0.25)).by_cell
        ()
    """

    by_partition: tuple[float, ...] = ()
    by_cell: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class PortInfo:
    """An input port as a partitioner sees it.

    `keyed`: it has a key or codec. `connected`: a stream leads to it. `load`: of the operator.

    Example:
        >>> from ridgeline import PortInfo
        >>> PortInfo("payments", keyed=True, connected=True).keyed
        True
    """

    name: str
    keyed: bool
    connected: bool
    load: Load = Load()


@dataclass(frozen=True, slots=True)
class Partition:
    """The share of one partition at each input port.

    Ports in `keys` are sticky: it receives the tuples with its keys. Ports in `round_robin` are divided among
    the partitions tuple by tuple. All other ports are broadcast: every partition receives all tuples.

    Example:
        >>> from ridgeline import Partition, PartitionKeys
        >>> first = Partition({"payments": PartitionKeys(mask=1, keys=frozenset({0}))}, frozenset({"events"}))
        >>> first.keys["payments"].mask, sorted(first.round_robin)
        (1, ['events'])
    """

    keys: Mapping[str, PartitionKeys] = field(default_factory=dict)
    round_robin: frozenset[str] = frozenset()


class Partitioner(ABC):
    """Defines the partitions of an operator. Pure: the same arguments always give the same partitions.

    Given as the attribute `partitioner`, or as `partitioner_default` of an operator class.

    Example:
        >>> from ridgeline import Partition, Partitioner
        >>> class Broadcast(Partitioner):
        ...     def define_partitions(self, count, ports):
        ...         return [Partition() for _ in range(count)]
        >>> len(Broadcast().define_partitions(3, []))
        3
    """

    load: Load = Load()
    """The load that `define_partitions` is given. The platform sets it where a listener answers with this."""

    @abstractmethod
    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> Sequence[Partition]:
        """Define the partitions of an operator; `ports`: its input ports, in declaration order.

        `count`: how many are asked for; 1 by default. It may choose the number if neither the attribute
        `partitions` nor a parallel port does.

        Raises ValueError if that is not possible; its text becomes a fault of the application.
        """

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in sorted(vars(self).items()))
        return f"{type(self).__name__}({values})"


def assign_keys(count: int) -> list[PartitionKeys]:
    """Keys of `count` partitions: all have as many values of the hash's last bits, or one more.

    A power of two has the form of Apex's DefaultPartition: partition k gets key k of the mask `count - 1`. Of
    other numbers that form would give some partitions twice the keys of others.

    Example:
        >>> from ridgeline.api.partitioner import assign_keys
        >>> assign_keys(2)[1], [len(partition.keys) for partition in assign_keys(3)]
        (PartitionKeys(mask=1, keys=frozenset({1})), [341, 342, 341])
    """
    bits = (count - 1).bit_length()
    if count == 1 << bits:
        return [PartitionKeys(count - 1, frozenset({partition})) for partition in range(count)]
    cells, base = min(max(_CELLS, _CELLS_EACH << bits), _MOST_CELLS), 1 << (bits - 1)
    # The partitions of the power of two below keep most of what they have there. The others are filled one by
    # one, from cells that are theirs under the power of two above: little moves from a number to a near one.
    moving = [cell for cell in range(cells) if cell & base]
    ends = [cells * more // count for more in range(count - base + 1)]
    new = [moving[begin:end] for begin, end in pairwise(ends)]
    taken = set(moving[: ends[-1]])
    kept = [[cell for cell in range(first, cells, base) if cell not in taken] for first in range(base)]
    return [PartitionKeys(cells - 1, frozenset(own)) for own in (*kept, *new)]


class StickyPartitioner(Partitioner):
    """Sticky by key on the named ports, round robin on those of them without a key; all others are broadcast.

    Without names it is the default partitioner: sticky on every connected port that has a key, so equal keys
    go to the same partition. If no port has a key, the first connected port is divided round robin.

    Example:
        >>> from ridgeline import PortInfo, StickyPartitioner
        >>> payments = PortInfo("payments", keyed=True, connected=True)
        >>> rates = PortInfo("rates", keyed=False, connected=True)
        >>> for partition in StickyPartitioner().define_partitions(2, [payments, rates]):
        ...     dict(partition.keys)
        {'payments': PartitionKeys(mask=1, keys=frozenset({0}))}
        {'payments': PartitionKeys(mask=1, keys=frozenset({1}))}
    """

    def __init__(self, *ports: str) -> None:
        self.ports = ports

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> list[Partition]:
        """Assign the same keys on all sticky ports. Raises ValueError for the name of no input port."""
        unknown = [name for name in self.ports if name not in {port.name for port in ports}]
        if unknown:
            raise ValueError(f"there is no input port `{unknown[0]}`")
        connected = [port for port in ports if port.connected]
        if self.ports:
            chosen = [port for port in connected if port.name in self.ports]
        else:
            # one port only: two that are divided round robin would pair tuples at random
            chosen = [port for port in connected if port.keyed] or connected[:1]
        in_turn = frozenset(port.name for port in chosen if not port.keyed)
        return [
            Partition({port.name: keys for port in chosen if port.keyed}, in_turn)
            for keys in assign_keys(count)
        ]


class KeyedPartitioner(Partitioner):
    """Sticky by key on every port that has a key, like the default; refuses an operator without such a port.

    An operator with this partitioner may have ports with keys of different types.

    Example:
        >>> from ridgeline import KeyedPartitioner, PortInfo
        >>> payments = PortInfo("payments", keyed=True, connected=True)
        >>> [
        ...     sorted(partition.keys["payments"].keys)
        ...     for partition in KeyedPartitioner().define_partitions(4, [payments])
        ... ]
        [[0], [1], [2], [3]]
    """

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> list[Partition]:
        """Assign the same keys on all keyed ports. Raises ValueError if no port has a key."""
        if not any(port.keyed for port in ports):
            raise ValueError("no input port has a key")
        return [Partition({port.name: keys for port in ports if port.keyed}) for keys in assign_keys(count)]


class RoundRobinPartitioner(Partitioner):
    """Round robin on the first connected port, even if it has a key; all other ports are broadcast.

    Tuples with equal keys go to different partitions, so results per key need a unifier that merges them.

    Example:
        >>> from ridgeline import PortInfo, RoundRobinPartitioner
        >>> payments = PortInfo("payments", keyed=True, connected=True)
        >>> first, second = RoundRobinPartitioner().define_partitions(2, [payments])
        >>> first == second, sorted(first.round_robin)
        (True, ['payments'])
    """

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> list[Partition]:
        """Divide the first connected port among all partitions."""
        connected = [port.name for port in ports if port.connected][:1]
        # equal partitions: who gets which tuple is decided by turn, not by partition
        return [Partition({}, frozenset(connected)) for _ in range(count)]
